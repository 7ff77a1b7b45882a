#!/usr/bin/env python3
"""Two nodes with two rails each, in network namespaces of their own, over libfabric's tcp;ofi_rxm.

Prints TAP, a case a line. It needs root and ip(8); without them, or without libfabric, the cases are skipped. One rail
is cut while transfers run: a connection over it then fails after the kernel's retries, of which the namespace has few,
and everything goes over the other rail.
"""
import argparse
import contextlib
import json
import os
import subprocess
import sys
import time

RAILS = 2
DEADLINE = 60  # seconds for any one program
WORDS = ['--transport', 'fabric', '--provider', 'tcp;ofi_rxm', '--device', 'r0,r1', '--hugepages', 'off']


def sh(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True, timeout=DEADLINE).stdout


@contextlib.contextmanager
def hosts():
    """The names of two namespaces, joined by a cable for each rail: r0 and r1 in both."""
    names = [f'sluice-{os.getpid()}-{end}' for end in 'ab']
    try:
        for name in names:
            sh('ip', 'netns', 'add', name)
        for rail in range(RAILS):
            cable = ['type', 'veth', 'peer', f'r{rail}', 'netns', names[1]]
            sh('ip', 'link', 'add', f'r{rail}', 'netns', names[0], *cable)
        for end, name in enumerate(names):
            sh('ip', '-n', name, 'link', 'set', 'lo', 'up')
            sh('ip', 'netns', 'exec', name, 'sh', '-c', 'echo 2 > /proc/sys/net/ipv4/tcp_retries2')
            for rail in range(RAILS):
                sh('ip', '-n', name, 'addr', 'add', f'10.77.{rail}.{end + 1}/24', 'dev', f'r{rail}')
                sh('ip', '-n', name, 'link', 'set', f'r{rail}', 'up')
        until = time.monotonic() + DEADLINE
        while not all(up(name, rail) for name in names for rail in range(RAILS)):
            if time.monotonic() > until:
                raise OSError('the cables do not come up')
            time.sleep(0.01)
        yield names
    finally:
        for name in names:
            subprocess.run(['ip', 'netns', 'del', name], check=False, capture_output=True)


def up(host, rail):
    return sh('ip', 'netns', 'exec', host, 'cat', f'/sys/class/net/r{rail}/operstate').strip() == 'up'


def carried(host, rail):
    """Bytes that a rail has carried."""
    return int(sh('ip', 'netns', 'exec', host, 'cat', f'/sys/class/net/r{rail}/statistics/rx_bytes'))


def start(host, *words):
    return subprocess.Popen(['ip', 'netns', 'exec', host, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)


def run(bench, seconds, cut_after):
    """What the source says of its run, and what each rail carried of it: before the cut, and after."""
    with hosts() as (here, there):
        target = start(there, bench, *WORDS, '--target', '--listen', '10.77.0.2:0', '--segment-size', '16M')
        source = None
        try:
            ready = target.stdout.readline().split()
            if len(ready) < 4:
                raise AssertionError(f'the target did not start: {target.communicate(timeout=DEADLINE)[1].strip()}')
            address = ready[3]
            source = start(here, bench, *WORDS, '--listen', '10.77.0.1:0', '--peer', address, '--op', 'both', '--block',
                           '64k', '--seconds', str(seconds), '--json')
            before = [0] * RAILS
            if cut_after:
                time.sleep(cut_after)  # into the run
                sh('ip', '-n', there, 'link', 'set', 'r1', 'down')
                before = [carried(there, rail) for rail in range(RAILS)]
            out, err = source.communicate(timeout=DEADLINE)
            after = [carried(there, rail) - before[rail] for rail in range(RAILS)]
        finally:
            for program in (source, target):
                if program is not None and program.poll() is None:
                    program.kill()
                    program.communicate()
        if source.returncode != 0:
            raise AssertionError(f'exit status {source.returncode}: {err.strip()}')
        return json.loads(out), before, after


def check_both(bench):
    result, _, bytes_of = run(bench, 1, 0)
    assert result['device'] == 'r0,r1', result
    assert result['verified'] and result['failed_ops'] == 0, result
    assert min(bytes_of) > 0.2 * sum(bytes_of), f'the rails carried {bytes_of} bytes'


def check_cut(bench):
    result, before, after = run(bench, 6, 2)
    assert result['verified'] and result['failed_ops'] == 0, result
    assert before[1] > 1 << 20, f'rail 1 carried {before[1]} bytes before it was cut'
    assert after[0] > before[0] / 2, f'rail 0 carried {before[0]} bytes before the cut and {after[0]} after it'


def why_not(bench):
    if os.geteuid() != 0:
        return 'only root may make network namespaces'
    try:
        with hosts():
            pass
    except (OSError, subprocess.SubprocessError) as why:
        words = getattr(why, 'stderr', None) or str(why)
        return f'no network namespaces here: {words.strip().splitlines()[-1]}'
    command = [bench, *WORDS[:4], '--list']
    listed = subprocess.run(command, check=False, capture_output=True, text=True, timeout=DEADLINE)
    return '' if listed.returncode == 0 else listed.stderr.strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--bench', required=True)
    args = parser.parse_args()
    absent = why_not(args.bench)
    failed = 0
    cases = [('both_rails_carry', check_both), ('one_rail_is_cut', check_cut)]
    print(f'1..{len(cases)}', flush=True)
    for number, (name, check) in enumerate(cases, 1):
        if absent:
            print(f'ok {number} {name} # SKIP {absent}', flush=True)
            continue
        try:
            check(args.bench)
            print(f'ok {number} {name}', flush=True)
        except (AssertionError, ValueError, IndexError, KeyError, OSError, subprocess.SubprocessError) as wrong:
            failed += 1
            print(f'not ok {number} {name}\n# {wrong}', flush=True)
            print(f'{name}: {wrong}', file=sys.stderr, flush=True)
    return failed != 0


if __name__ == '__main__':
    sys.exit(main())
