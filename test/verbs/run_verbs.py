#!/usr/bin/env python3
"""The suite verbs: one start of the emulated machine (usertools/sluice-vm.sh), and in it one program after another.

Each program is a GoogleTest binary with a filter, "NAME=PATH:FILTER". Their cases are told as TAP. A program that ends
without a word on a case that it began, or with another status than its cases give, is a failed case of its own.
SLUICE_NO_VM=1 skips all; a machine that cannot be started is one failure, with the line that says why.
"""
import argparse
import os
import re
import subprocess
import sys

SECONDS = 840         # for everything in the machine
PATIENCE = '4'        # deadlines of the tests, times this
MARK = '=== sluice-vm '


def guest_script(programs):
    """What the machine runs: every program, with a line before and after."""
    lines = ['export SLUICE_TEST_PATIENCE=' + PATIENCE, 'export SLUICE_VERBS_TESTS=1']
    for name, path, choice in programs:
        lines.append(f"echo '{MARK}begin {name}'")
        lines.append(f"timeout -s KILL 600 '{path}' --gtest_filter='{choice}'; echo '{MARK}end {name}' $?")
    return '\n'.join(lines)


class Tap:
    """Cases as they end; what a case printed is told when it failed."""

    def __init__(self):
        self.count = self.failed = 0

    def case(self, verdict, name, note=''):
        self.count += 1
        self.failed += verdict != 'ok'
        print(f'{verdict} {self.count} - {name}{note}', flush=True)

    def tell(self, lines):
        for line in lines:
            print('# ' + line.rstrip(), flush=True)


def judge(output, tap):
    """Read what the machine prints."""
    program, running, said = '', None, []
    for line in output:
        begun = re.match(r'\[ RUN      \] (\S+)', line)
        ended = re.match(r'\[ +(OK|FAILED|SKIPPED) +\] (\S+?)(?:, where .*)? \(\d+ ms\)', line)
        if line.startswith(MARK):
            word, program, *status = line[len(MARK):].split()
            if word == 'end' and (running or status[0] not in ('0', '1')):
                tap.case('not ok', f'{program} {running or ""} ended with status {status[0]}')
                tap.tell(said)
            running, said = None, []
        elif begun:
            running, said = begun.group(1), []
        elif ended and ended.group(2) == running:
            name = program + ' ' + running
            if ended.group(1) == 'SKIPPED':
                tap.case('ok', name, ' # SKIP ' + (said[-1].strip() if said else ''))
            else:
                tap.case('ok' if ended.group(1) == 'OK' else 'not ok', name)
            if ended.group(1) == 'FAILED':
                tap.tell(said)
            running, said = None, []
        else:
            said.append(line)
    if running:
        tap.case('not ok', f'{program} {running}: the machine ended in the middle of it')
        tap.tell(said)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--vm', required=True)
    parser.add_argument('programs', nargs='+', metavar='NAME=PATH:FILTER')
    args = parser.parse_args()
    if os.environ.get('SLUICE_NO_VM') == '1':
        print('1..0 # SKIP SLUICE_NO_VM is set')
        return 0
    programs = [re.match(r'([^=]+)=([^:]+):(.*)', one).groups() for one in args.programs]
    machine = subprocess.Popen([args.vm, '-t', str(SECONDS), 'bash', '-c', guest_script(programs)], text=True,
                               errors='replace', stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               stdin=subprocess.DEVNULL)
    tap = Tap()
    judge(machine.stdout, tap)
    why = machine.stderr.read().strip()
    if machine.wait() != 0 or tap.count == 0:
        tap.case('not ok', 'the emulated machine: ' + (why.split('\n')[-1] or f'status {machine.returncode}'))
    print(f'1..{tap.count}')
    return 1 if tap.failed else 0


if __name__ == '__main__':
    sys.exit(main())
