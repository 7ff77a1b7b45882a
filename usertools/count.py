#!/usr/bin/env python3
"""Counts what ran, over the logs that meson test wrote; prints "N passed, N failed, N skipped".

  count.py [--failed N] LOG.json...

A GoogleTest or TAP program counts as its cases (from the .junit.xml beside the log), any other test as one. A program
that failed without a failed case (a crash, a timeout) is one failure; --failed adds failures that are in no log.
Exit status: 0 if something ran and nothing failed.
"""
import json
import os
import sys
import xml.etree.ElementTree

FINE = {'OK': 'passed', 'EXPECTEDFAIL': 'passed', 'SKIP': 'skipped'}


def suites_of(log):
    """(name, outcomes of its cases) of each suite in meson's junit file."""
    path = log[:-len('.json')] + '.junit.xml'
    if not os.path.exists(path):
        return []
    found = []
    for suite in xml.etree.ElementTree.parse(path).getroot():
        outcomes = []
        for case in suite.iter('testcase'):
            if case.find('failure') is not None or case.find('error') is not None:
                outcomes.append('failed')
            elif case.find('skipped') is not None or case.get('status') == 'notrun':
                outcomes.append('skipped')
            else:
                outcomes.append('passed')
        found.append((suite.get('name').partition('.')[2], outcomes))   # the name is PROJECT.TEST.SUITE
    return found


def main(logs):
    total = {'passed': 0, 'failed': 0, 'skipped': 0}
    if logs[:1] == ['--failed']:
        total['failed'] = int(logs[1])
        logs = logs[2:]
    for log in logs:
        suites = suites_of(log)
        with open(log, encoding='utf-8') as lines:
            tests = [json.loads(line) for line in lines]
        for test in tests:
            outcome = FINE.get(test['result'], 'failed')
            counted = [case for name, cases in suites
                       if (name + '.').startswith(test['name'] + '.') for case in cases]
            if outcome == 'failed' and 'failed' not in counted:
                counted.append('failed')
            for case in counted or [outcome]:
                total[case] += 1
    print('{passed} passed, {failed} failed, {skipped} skipped'.format(**total))
    return total['failed'] != 0 or total['passed'] == 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
