#!/usr/bin/env python3
"""Runs the simulator with each deliberate fault (lib/base/mutant.h), and says which seed found it.

  mutants.py SLUICE_SIM LAST_SEED   exit status 1 when one is not found by seed LAST_SEED
"""
import re
import subprocess
import sys

MUTANTS = ['incremental-grants', 'no-request-timer', 'full-rollback', 'no-epoch-check', 'shrink-too-far',
           'grants-from-data', 'one-by-one', 'shared-pool', 'release-first', 'grant-first', 'done-at-post',
           'notify-first', 'no-generation']


def main():
    program, last = sys.argv[1], sys.argv[2]
    missed = 0
    for name in MUTANTS:
        run = subprocess.run([program, '--mutant', name, '--seeds', '1-' + last], capture_output=True, text=True,
                             errors='replace', check=False)
        found = re.search(r'seed (\d+) (FAILS after [^:]*: .*|crashes.*)', run.stdout + run.stderr)
        missed += found is None
        print(f'{name:20} seed {found[1]}: {found[2][:150]}' if found else f'{name:20} NOT FOUND in {last} seeds',
              flush=True)
    print(f'{len(MUTANTS) - missed} of {len(MUTANTS)} mutants found')
    return missed != 0


if __name__ == '__main__':
    sys.exit(main())
