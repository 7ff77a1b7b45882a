#!/usr/bin/env python3
"""Runs the seeds of a list: each line is a seed, and a word on what it found when it was new."""
import subprocess
import sys


def main():
    program, listed = sys.argv[1], sys.argv[2]
    with open(listed, encoding='utf-8') as lines:
        seeds = [line.split()[0] for line in lines if line.strip() and not line.startswith('#')]
    failed = [seed for seed in seeds if subprocess.run([program, '--seeds', seed], check=False).returncode != 0]
    print(f'{len(seeds)} seeds, failed: {failed or "none"}')
    return bool(failed)


if __name__ == '__main__':
    sys.exit(main())
