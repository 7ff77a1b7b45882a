"""The checks that run a compiler or a clang tool. What passed is remembered in the build folder by the hash of
everything that it was made of, so that a second run costs nothing."""
import concurrent.futures
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import tempfile

from tree import Tree, includes

SKIP = 77
FORMAT_MAJOR = '14'   # other versions set a few lines otherwise
KEPT_FLAGS = r'-(I|isystem|D|U|std=|f(?!sanitize|diagnostics)|W|pthread|m)'


class Passed:
    """The hashes of what passed, one a line, in the build folder."""

    def __init__(self, build, name):
        self.path = os.path.join(build, f'check_{name}.passed')
        self.before = set()
        self.now = set()
        if os.path.exists(self.path):
            with open(self.path, encoding='ascii') as lines:
                self.before = set(lines.read().split())

    def save(self):
        with open(self.path, 'w', encoding='ascii') as lines:
            lines.write('\n'.join(sorted(self.now)) + '\n')


def run_all(args, name, jobs):
    """Run @p jobs, each (label, key, command, standard input). @return how many failed."""
    passed = Passed(args.build, name)
    failed = 0

    def run(job):
        label, key, command, stdin = job
        if key in passed.before:
            return label, key, 0, ''
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, cwd=args.build)
        return label, key, done.returncode, done.stdout + done.stderr

    with concurrent.futures.ThreadPoolExecutor(max(1, args.jobs)) as pool:
        for label, key, status, words in pool.map(run, jobs):
            if status == 0:
                passed.now.add(key)
            else:
                failed += 1
                print(f'{label}:\n{words.strip()}')
    passed.save()
    print(f'{name}: {len(jobs)} checked ({len(passed.now & passed.before)} as before), {failed} failed')
    return failed


def flags_by_folder(args):
    """{folder of a source: (its compiler flags)} from compile_commands.json, and all sources with their command."""
    path = os.path.join(args.build, 'compile_commands.json')
    if not os.path.exists(path):
        raise SystemExit(f'{path} is not there: configure first, or name a build folder with --build')
    with open(path, encoding='utf-8') as text:
        entries = json.load(text)
    folders, sources = {}, {}
    for entry in entries:
        name = os.path.relpath(os.path.realpath(os.path.join(entry['directory'], entry['file'])), args.root)
        words = shlex.split(entry['command'])
        kept = [word for before, word in zip([''] + words, words) if re.match(KEPT_FLAGS, word) or before == '-isystem']
        folders.setdefault(os.path.dirname(name), kept)
        sources[name] = kept
    return folders, sources


def closure(tree, name, seen=None):
    """@p name and every file of the tree that it includes."""
    seen = {} if seen is None else seen
    if name in seen or name not in tree.files:
        return seen
    seen[name] = tree.files[name]
    here = os.path.dirname(name)
    for _, included, quoted in includes(tree.files[name]):
        if quoted:
            for folder in (here, 'lib', 'drivers', 'app', 'test'):
                closure(tree, os.path.normpath(os.path.join(folder, included)), seen)
    return seen


def key_of(tree, name, extra):
    digest = hashlib.sha256(repr(extra).encode())
    for path, text in sorted(closure(tree, name).items()):
        digest.update(f'{path}\n{text}\n'.encode())
    return digest.hexdigest()


def flags_for(folders, name):
    """The flags of the nearest folder that compiles something."""
    folder = os.path.dirname(name)
    while folder and folder not in folders:
        folder = os.path.dirname(folder)
    return folders.get(folder) or folders.get('lib/engine') or folders.get('lib/base')


def included_first(tree, sources):
    """The headers that are the first include of a compiled source: every build of it shows that they stand alone."""
    found = set()
    for name in sources:
        for _, included, quoted in list(includes(tree.files.get(name, '')))[:1]:
            beside = os.path.normpath(os.path.join(os.path.dirname(name), included))
            places = [beside] + [f'{folder}/{included}' for folder in ('lib', 'drivers', 'app', 'test')]
            found.update([place for place in places if quoted and place in tree.files][:1])
    return found


def headers(args):
    compilers = [name for name in ('g++', 'clang++') if shutil.which(name)]
    tree = Tree.load(args.root)
    folders, sources = flags_by_folder(args)
    built = included_first(tree, sources)
    jobs = []
    for name in tree.under('lib/', 'drivers/', 'app/', 'test/', ext='.h'):
        if name in built:
            continue
        for compiler in compilers:
            command = [compiler, *flags_for(folders, name), '-Werror', '-fsyntax-only', '-x', 'c++', '-']
            jobs.append((f'{name} alone under {compiler}', key_of(tree, name, command), command,
                         f'#include "{os.path.join(args.root, name)}"\n'))
    return run_all(args, 'headers', jobs) != 0


def formatting(args):
    tool = shutil.which(f'clang-format-{FORMAT_MAJOR}') or shutil.which('clang-format')
    version = subprocess.run([tool, '--version'], capture_output=True, text=True).stdout if tool else ''
    if f'version {FORMAT_MAJOR}.' not in version:
        print(f'clang-format {FORMAT_MAJOR} is not installed; found: {version.strip() or "none"}')
        return SKIP
    names = list(Tree.load(args.root).under('lib/', 'drivers/', 'app/', 'test/', ext=('.h', '.cc')))
    done = subprocess.run([tool, '--dry-run', '-Werror', *names], cwd=args.root, capture_output=True, text=True)
    wrong = sorted(set(re.findall(r'^(\S+?:\d+):\d+: error', done.stderr, flags=re.M)))
    print('\n'.join(wrong[:100]))
    print(f'format: {len(names)} files, {len(wrong)} lines differ{"; clang-format -i FILE sets them" if wrong else ""}')
    return done.returncode != 0


def tidy(args):
    tool = shutil.which('clang-tidy')
    if not tool:
        print('clang-tidy is not installed')
        return SKIP
    tree = Tree.load(args.root)
    _, sources = flags_by_folder(args)
    jobs = []
    for name, flags in sorted(sources.items()):
        if name.startswith(('lib/', 'drivers/')) and name in tree.files:
            command = [tool, '--quiet', '--warnings-as-errors=*', os.path.join(args.root, name), '--', '-xc++', *flags]
            jobs.append((name, key_of(tree, name, (command, tree.files.get('.clang-tidy'))), command, None))
    return run_all(args, 'tidy', jobs) != 0


def self_test(args):
    """Each of the three finds the fault in a tree of two files. @return what went wrong, in lines."""
    wrong = []
    with tempfile.TemporaryDirectory() as root:
        lib, build = os.path.join(root, 'lib', 'base'), os.path.join(root, 'build')
        os.makedirs(lib)
        os.makedirs(build)
        write(os.path.join(lib, 'bad.h'), '#pragma once\ninline std::string f() { return {}; }\n')
        write(os.path.join(lib, 'bad.cc'), 'int  f(int a) {\n  return sizeof(sizeof(a));\n}\n')
        write(os.path.join(build, 'compile_commands.json'), json.dumps([{
            'directory': build, 'file': '../lib/base/bad.cc', 'command': 'c++ -std=c++20 -c ../lib/base/bad.cc'}]))
        for name in ('.clang-format', '.clang-tidy'):
            shutil.copy(os.path.join(args.root, name), root)
        sample = type(args)(**{**vars(args), 'root': os.path.realpath(root), 'build': build})
        for call in (headers, formatting, tidy):
            if call(sample) not in (True, SKIP):
                wrong.append(f'{call.__name__} found nothing in the bad sample')
    return wrong


def write(path, text):
    with open(path, 'w', encoding='utf-8') as out:
        out.write(text)
