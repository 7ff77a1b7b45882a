#!/usr/bin/env python3
"""System calls a task of `sluice-bench --self` over loop_twosided, under strace: both nodes and the application.

Two runs that differ only in their number of tasks: the difference of the calls over the difference of the tasks leaves
start and stop out. What is left follows the time that a run takes and not its tasks: the service threads wake each few
milliseconds and send heartbeats, and the bench's main threads look each 200 us and each ms. Calls that wait are shown
apart. Printed, not judged; status 77 without strace.
"""
import argparse
import collections
import json
import os
import shutil
import subprocess
import sys
import tempfile

CLOCKED = {'clock_nanosleep', 'nanosleep', 'epoll_wait', 'epoll_pwait', 'ppoll', 'poll', 'futex', 'wait4',
           'restart_syscall', 'rt_sigtimedwait'}


def calls(bench, count):
    """({call: how often}, seconds of the timed window) of one run."""
    with tempfile.NamedTemporaryFile('r') as counted:
        command = ['strace', '-f', '-c', '-U', 'name,calls', '-o', counted.name, bench, '--self', '--transport',
                   'loop_twosided', '--idle', 'busy', '--hugepages', 'off', '--block', '4k', '--batch', '32', '--count',
                   str(count), '--no-verify', '--json']
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        if done.returncode != 0:
            sys.exit(f'syscalls: status {done.returncode}: {" ".join(command)}\n{done.stderr[-2000:]}')
        found = collections.Counter()
        for line in counted.read().splitlines():
            words = line.split()
            if len(words) == 2 and words[1].isdigit() and words[0] != 'total':
                found[words[0]] += int(words[1])
    return found, json.loads(done.stdout.splitlines()[-1])['seconds']


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--bench', required=True)
    parser.add_argument('--count', type=int, default=400_000,
                        help='tasks of the shorter run; the longer has four times as many')
    args = parser.parse_args()
    if shutil.which('strace') is None or not os.access(args.bench, os.X_OK):
        print('syscalls: skipped: needs strace, and sluice-bench built', file=sys.stderr)
        return 77
    few, short = calls(args.bench, args.count)
    many, long = calls(args.bench, 4 * args.count)
    tasks, seconds = 3 * args.count, long - short
    more = {name: many[name] - few[name] for name in set(few) | set(many)}
    print(f'{tasks} more tasks in {seconds:.2f} s more')
    print(f'{"call":20}{"more calls":>12}{"a task":>12}{"a second":>12}')
    for name, n in sorted(more.items(), key=lambda item: -abs(item[1])):
        if n != 0:
            print(f'{name:20}{n:12}{n / tasks:12.6f}{n / seconds:12.0f}{"  by the clock" if name in CLOCKED else ""}')
    rest = sum(n for name, n in more.items() if name not in CLOCKED)
    print(f'{rest / tasks:.6f} system calls a task, and {sum(more.values()) / tasks:.6f} with those by the clock')
    return 0


if __name__ == '__main__':
    sys.exit(main())
