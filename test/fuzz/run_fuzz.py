#!/usr/bin/env python3
"""Fuzzes one target for some seconds, on a copy of its corpus: what is found does not change the tree.

run_fuzz.py TARGET CORPUS SECONDS. An input that fails is kept beside the target; put it into the corpus with the fix.
"""
import os
import shutil
import subprocess
import sys
import tempfile

target, corpus, seconds = sys.argv[1:]
with tempfile.TemporaryDirectory() as scratch:
    copy = os.path.join(scratch, 'corpus')
    shutil.copytree(corpus, copy)
    done = subprocess.run([target, f'-max_total_time={seconds}', '-max_len=4096', '-timeout=10', '-print_final_stats=1',
                           f'-artifact_prefix={target}-', copy], stdin=subprocess.DEVNULL)
sys.exit(done.returncode)
