#!/usr/bin/env python3
"""Instructions a task of `sluice-bench --mode submit`, under callgrind.

Two runs that differ only in their number of tasks: the difference of the instructions over the difference of the tasks
leaves start and stop out. Counts do not depend on what else the machine does. Both nodes and the application are in it.
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile


def instructions(bench: str, count: int) -> int:
    with tempfile.TemporaryDirectory() as folder:
        command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=" + os.path.join(folder, "out"), bench,
                   "--mode", "submit", "--block", "64", "--batch", "32", "--count", str(count), "--no-verify"]
        run = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    found = re.search(r"refs:\s*([\d,]+)", run.stderr)
    if run.returncode != 0 or not found:
        sys.exit("instructions.py: " + " ".join(command) + " failed:\n" + run.stderr[-2000:])
    return int(found.group(1).replace(",", ""))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bench", required=True)
    parser.add_argument("--small", type=int, default=20000)
    parser.add_argument("--large", type=int, default=60000)
    options = parser.parse_args()
    small, large = (instructions(options.bench, count) for count in (options.small, options.large))
    print(f"{(large - small) / (options.large - options.small):.0f} instructions a task (64 B, batch 32; target 600)")


if __name__ == "__main__":
    main()
