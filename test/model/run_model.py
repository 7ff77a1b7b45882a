#!/usr/bin/env python3
"""Searches the model credit.pml with Spin, in several shapes; prints the states of each.

  run_model.py [--long] [--only NAME] [--self-test]

A search fails on an error, when it did not complete, and when what its row says it should see was not seen. --self-test
runs the model with each seeded fault instead, which must be found. Exit status 77, and a reason: Spin is not here.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SHORT_SECONDS = 600
NONE = {'LOSS': 0, 'DUP': 0, 'REORDER': 0, 'REFUSE': 0, 'FENCES': 0, 'RESTARTS': 0}

EPOCH = 'FENCED NEXT_EPOCH_TX NEXT_EPOCH_RX LATE_WORKER REQUEST'
# name, macros beyond NONE, what must have been seen
SHORT = [
    ('loss', dict(LOSS=1, FENCES=1, T0=1), EPOCH + ' LOST_FRAME LOST_ACK REPEAT STALE_REQUEST'),
    ('repetition', dict(DUP=1, FENCES=1, T0=1), EPOCH + ' REFUSED_MESSAGE'),
    ('reorder', dict(REORDER=1, REFUSE=1, FENCES=1, T0=1), EPOCH + ' GAP REPEAT REFUSED_POST GRANT_AGAIN'),
    ('restart', dict(RESTARTS=1, DUP=1, T0=1), 'RESTARTED OTHER_SESSION REFUSED_MESSAGE'),
    ('reads', dict(READS=1, FENCES=2, T0=1, T1=1), EPOCH + ' CARRIED'),
    ('live', dict(LIVE=1, LOSS=1, T0=1, T1=0), 'LOST_FRAME REPEAT REQUEST'),
]
LONG = [
    ('two-lanes', dict(LOSS=1, DUP=1, REORDER=1, FENCES=1, T0=2),
     EPOCH + ' LOST_FRAME LOST_ACK REPEAT GAP GRANT_AGAIN REFUSED_MESSAGE STALE_REQUEST'),
    ('two-lanes-restart', dict(LOSS=1, DUP=1, FENCES=1, RESTARTS=1, T0=1), EPOCH + ' RESTARTED OTHER_SESSION'),
    ('two-lanes-eager', dict(EAGER=1, LOSS=1, FENCES=1, REFUSE=1), EPOCH + ' STALE_REQUEST REFUSED_POST'),
    ('reads-loss', dict(READS=1, LOSS=1, FENCES=2, T0=1, T1=1), EPOCH + ' CARRIED LOST_FRAME'),
    ('reads-repetition', dict(READS=1, DUP=1, FENCES=2, T0=1, T1=1), EPOCH + ' CARRIED REFUSED_MESSAGE'),
    ('live-fence', dict(LIVE=1, LOSS=1, FENCES=1, T0=1), EPOCH + ' LOST_FRAME REPEAT'),
    ('live-reads', dict(LIVE=1, READS=1, FENCES=1, T0=1, T1=1), EPOCH),
]
# name of FAULT_..., the row in which it is seen
FAULTS = [
    ('INCREMENTAL', 'reorder'),
    ('NO_REQUEST', 'loss'),
    ('NO_EPOCH', 'repetition'),
    ('NO_SESSION', 'restart'),
    ('GRANT_FIRST', 'loss'),
    ('EARLY_EPOCH', 'loss'),
    ('LATE_INBOX', 'loss'),
    ('HOLD_REQUESTS', 'reads'),
]


def search(macros, limit_mb, seconds, more=()):
    """Build and run pan. Returns (its output, its seconds)."""
    live = 'LIVE' in macros
    with tempfile.TemporaryDirectory() as folder:
        defines = [f'-D{name}={value}' for name, value in {**NONE, **macros}.items()] + list(more)
        done = subprocess.run(['spin', '-a', *defines, os.path.join(HERE, 'credit.pml')], cwd=folder,
                              capture_output=True, text=True, check=False)
        if done.returncode != 0 or not os.path.exists(os.path.join(folder, 'pan.c')):
            return done.stdout + done.stderr, 0
        # HC4: states are kept as hashes of 64 bits. A search of seconds takes less time than to optimize its program.
        flags = ['-O2' if seconds > SHORT_SECONDS else '-O0', '-DNFAIR=4' if live else '-DSAFETY']
        subprocess.run(['gcc', '-w', '-DHC4', '-DVECTORSZ=1024', f'-DMEMLIM={limit_mb}', *flags, '-I', HERE,
                        '-o', 'pan', 'pan.c'], cwd=folder, check=True)
        began = time.monotonic()
        try:
            done = subprocess.run(['./pan', '-m200000', '-w22', *(['-a', '-f'] if live else [])], cwd=folder,
                                  capture_output=True, text=True, check=False, timeout=seconds)
        except subprocess.TimeoutExpired:
            return f'stopped after {seconds} s: Search not completed', seconds
        return done.stdout + done.stderr, time.monotonic() - began


def verdict(output, wanted):
    """What is wrong with a search that should be clean; empty when nothing is."""
    if re.search(r'errors: 0$', output, re.MULTILINE) is None:
        found = re.search(r'^pan:\d+: (.*)', output, re.MULTILINE)
        return found.group(1) if found else output.strip()[-400:]
    if 'not completed' in output or 'max search depth too small' in output:
        return 'the search was not completed'
    seen = {name: int(count) for name, count in re.findall(r'^covered (\w+) (\d+)$', output, re.MULTILINE)}
    never = [name for name in wanted.split() if seen.get(name, 0) == 0]
    return 'never seen: ' + ', '.join(never) if never else ''


def states(output):
    found = re.search(r'^\s*([\d.e+]+) states, stored', output, re.MULTILINE)
    return int(float(found.group(1))) if found else 0


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument('--long', action='store_true', help='the larger rows')
    options.add_argument('--only', help='one row')
    options.add_argument('--self-test', action='store_true', help='seeded faults, which must be found')
    args = options.parse_args()
    for tool in ('spin', 'gcc'):
        if shutil.which(tool) is None:
            print(f'skipped: {tool} is not installed')
            return 77
    rows = {row[0]: row for row in (LONG if args.long else SHORT)}
    limit, seconds = (12000, 3600) if args.long else (2000, SHORT_SECONDS)
    failed = 0
    if args.self_test:
        for fault, row in FAULTS:
            output, took = search(rows[row][1], limit, seconds, [f'-DFAULT_{fault}'])
            why = verdict(output, '')
            print(f'fault {fault:14} {"found" if why else "MISSED"} in {row} after {states(output)} states, '
                  f'{took:.1f} s: {why}', flush=True)
            failed += not why or 'not completed' in why
        return failed != 0
    for name, macros, wanted in rows.values():
        if args.only not in (None, name):
            continue
        output, took = search(macros, limit, seconds)
        wrong = verdict(output, wanted)
        print(f'{name:18} {states(output):>10} states {took:6.1f} s  {wrong or "ok"}', flush=True)
        failed += bool(wrong)
    return failed != 0


if __name__ == '__main__':
    sys.exit(main())
