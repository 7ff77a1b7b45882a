#!/usr/bin/env python3
"""Holds the tree to doc/style.md.

  check.py rules                what needs no compiler: layers, hot files, sizes, copies, headers, names, text
  check.py headers --build DIR  each header compiles alone, under g++ and clang++
  check.py format               clang-format
  check.py tidy --build DIR     clang-tidy over lib/ and drivers/
  check.py self-test            each of these finds the fault in a sample that has one

Exit status: 0 nothing found, 1 something found, 77 the tool for it is not installed (a skip, for meson).
"""
import argparse
import os
import sys

import compiled
import rules
import samples
import tables
from tree import Tree

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def excused(rule, file, words):
    return any(rule == row[0] and file == row[1] and row[2] in words for row in tables.EXCUSED)


def check_rules(args):
    tree = Tree.load(args.root)
    found = 0
    for rule in rules.RULES:
        for file, line, words in rule(tree):
            if not excused(rule.__name__, file, words):
                print(f'{file}:{line}: {words} [{rule.__name__}]')
                found += 1
    for rule, file, word, _ in tables.EXCUSED:
        if file not in tree.files:
            print(f'test/check/tables.py: excuses {file} ({rule}, "{word}"), which is gone')
            found += 1
    print(f'{len(rules.RULES)} rules over {len(tree.files)} files: {found} found')
    return found != 0


def self_test(args):
    by_name = {rule.__name__: rule for rule in rules.RULES}
    wrong = []
    for name, files, word in samples.BAD:
        found = [words for _, _, words in by_name[name](Tree(files))]
        if not any(word in words for words in found):
            wrong.append(f'{name} did not find "{word}" in {files}: {found}')
    for name, files in samples.GOOD:
        wrong += [f'{name} found in a good sample: {finding}' for finding in by_name[name](Tree(files))]
    for name in by_name:
        if name not in [row[0] for row in samples.BAD] or name not in [row[0] for row in samples.GOOD]:
            wrong.append(f'{name} has no sample')
    wrong += compiled.self_test(args)
    print('\n'.join(wrong + [f'{len(samples.BAD)} bad and {len(samples.GOOD)} good samples: {len(wrong)} wrong']))
    return bool(wrong)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('what', choices=['rules', 'headers', 'format', 'tidy', 'self-test'])
    parser.add_argument('--root', default=ROOT)
    parser.add_argument('--build', default=os.path.join(ROOT, 'build'),
                        help='has compile_commands.json; keeps the cache')
    parser.add_argument('--jobs', type=int, default=os.cpu_count() or 2)
    args = parser.parse_args()
    calls = {'rules': check_rules, 'headers': compiled.headers, 'format': compiled.formatting, 'tidy': compiled.tidy,
             'self-test': self_test}
    return int(calls[args.what](args))


if __name__ == '__main__':
    sys.exit(main())
