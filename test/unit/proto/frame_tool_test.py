#!/usr/bin/env python3
"""frame-tool reproduces the vectors, and says clearly what it cannot read."""
import subprocess
import sys

tool, vectors = sys.argv[1:]


def run(text, *args):
    done = subprocess.run([tool, *args], input=text, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout, done.stderr


text = open(vectors).read()
expected = [line.split(" #")[0] for line in text.splitlines() if line and not line.startswith("#")]
status, out, err = run(text)
assert status == 0 and err == "", (status, err)
got = out.splitlines()
assert len(got) == len(expected) > 100, (len(got), len(expected))
for want, have in zip(expected, got):
    assert want == have, f"\nwant {want}\nhave {have}"

frame = expected[0].split()[0]
status, out, err = run(f"\n# note\n{frame}  trailing words\nabc\n{frame}zz\n{frame}\n")
assert status == 1, status
assert out.splitlines() == [expected[0]] * 2, out
lines = err.splitlines()
assert len(lines) == 2 and 'line 4: "abc"' in lines[0] and "line 5:" in lines[1], err

nak = "4d434b43010b0000" + "00" * 32 + "0c000000" + "00" * 12
assert "header=refuse" in run(nak)[1]
assert "payload=accept type=DATA_NAK" in run(nak, "--ours")[1]
assert run("", "--what")[0] == 2
