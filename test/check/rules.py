"""The rules that need no compiler. Each takes a Tree and yields (file, line, words)."""
import fnmatch
import re

import tables
from tree import code_of, functions, includes, is_slow_name


def lib_table(tree):
    """{lib: what it uses}, read from lib/meson.build."""
    rows = re.findall(r"\['(\w+)',\s*\[([^\]]*)\]\]", tree.files.get('lib/meson.build', ''))
    return {name: set(re.findall(r'\w+', uses)) for name, uses in rows}


def layers(tree):
    """Includes point down: lib by its table, drivers and apps by tables.py, external headers to their folders."""
    libs = lib_table(tree)
    if not libs:
        yield 'lib/meson.build', 1, 'the table of libs is not there or does not parse'
    for name, text in tree.under('lib/', 'drivers/', 'app/').items():
        top, folder = (name.split('/') + [''])[:2]
        if top == 'lib' and folder not in libs:
            yield name, 1, f'lib/{folder} is not in the table of lib/meson.build'
            continue
        allowed = {'lib': libs.get(folder, set()) | {folder}, 'drivers': set(tables.DRIVER_USES) | {folder},
                   'app': set(tables.APP_USES) | {folder}}[top]
        for line, included, quoted in includes(text):
            target = included.split('/')[0]
            if quoted and '/' not in included and top == 'lib':
                yield name, line, f'"{included}": name it from the root of lib, as "{folder}/{included}"'
            elif quoted and '..' in included:
                yield name, line, f'"{included}" climbs out of its folder'
            elif quoted and '/' in included and target not in allowed:
                yield name, line, f'"{included}": {top}/{folder} may include only {" ".join(sorted(allowed))}'
            if name.startswith(tables.PURE_FOLDERS) and re.match(tables.PURE_REFUSES, included):
                yield name, line, f'{included}: lib/{folder} is pure (no clock, thread, log, input or output)'


def external(tree):
    """An external library is included where it is wrapped, and nowhere else."""
    for name, text in tree.under('lib/', 'drivers/', 'app/', 'test/').items():
        for line, included, _ in includes(text):
            for prefix, folders in tables.EXTERNAL:
                if included.startswith(prefix) and not name.startswith(tuple(f + '/' for f in folders)):
                    yield name, line, f'<{included}> belongs in {", ".join(folders)}'


def hot(tree):
    """No heap, string, map, lock, log, clock or system call where a turn runs."""
    for name, text in tree.under('lib/', 'drivers/').items():
        if not any(fnmatch.fnmatch(name, pattern) for pattern in tables.HOT_FILES):
            continue
        inside, slow = spans(text)
        reserved = reserved_in(tree, name)
        for line, code in enumerate(code_of(text).split('\n'), 1):
            if line in slow or code.lstrip().startswith('#'):
                continue
            for what, pattern in tables.HOT_REFUSES:
                match = re.search(pattern, code)
                if match and match.group().split('.')[0] in reserved:
                    continue
                if match and (line in inside or what in tables.HOT_MEMBERS_REFUSE):
                    yield name, line, f'{what} in a hot file: {match.group().strip()}'


def reserved_in(tree, name):
    """The vectors for which somebody in the folder of @p name reserves: to append to them takes no heap."""
    folder = name.rsplit('/', 1)[0] + '/'
    return {found for text in tree.under(folder).values() for found in re.findall(r'\b(\w+)\.reserve\(', text)}


def spans(text):
    """The lines inside functions, and those that may be slow: by the function's verb, or by a comment that says why."""
    lines = text.split('\n')
    inside = set()
    slow = {number for number, line in enumerate(lines, 1) if re.search(r'// slow: \w', line)}
    for function, first, last in functions(text):
        inside.update(range(first, last + 1))
        above = first - 1
        while above > 1 and above not in slow and lines[above - 1].lstrip().startswith('//'):
            above -= 1
        if above in slow or is_slow_name(function, tables.SLOW_VERBS):
            slow.update(range(first, last + 1))
    return inside, slow


def refused(tree):
    """Nothing in lib/ and drivers/ ends the process, prints, throws or locks."""
    for name, text in tree.under('lib/', 'drivers/').items():
        for line, code in enumerate(code_of(text).split('\n'), 1):
            for what, pattern in tables.LIB_REFUSES:
                match = re.search(pattern, code)
                if match:
                    yield name, line, f'{match.group().strip()}: {what}'


def sizes(tree):
    """Files and functions of a size that can be read."""
    for name, text in tree.under('lib/', 'drivers/', 'app/', 'test/').items():
        most = tables.MAX_HEADER_LINES if name.endswith('.h') else tables.MAX_SOURCE_LINES
        lines = text.count('\n')
        if lines > most:
            yield name, 1, f'{lines} lines, at most {most}: split it by role or by direction'
        for function, first, last in functions(text):
            if last - first + 1 > tables.MAX_FUNCTION_LINES:
                yield name, first, f'{function} has {last - first + 1} lines, at most {tables.MAX_FUNCTION_LINES}'


def copies(tree):
    """No lines that two drivers share: they belong in mem, in xport or in a row of a table."""
    seen = {}
    for name, text in tree.under('drivers/').items():
        driver = name.split('/')[1]
        lines = enumerate((re.sub(r'\s+', ' ', code).strip() for code in code_of(text).split('\n')), 1)
        lines = [(number, code) for number, code in lines if re.search(r'\w{2}', code) and not is_form(code)]
        last = -1
        for i in range(len(lines) - tables.MIN_COPY_LINES + 1):
            window = tuple(code for _, code in lines[i:i + tables.MIN_COPY_LINES])
            other = seen.setdefault(window, (driver, name, lines[i][0]))
            if other[0] != driver:
                if i > last:
                    yield name, lines[i][0], f'{tables.MIN_COPY_LINES} lines or more as in {other[1]}:{other[2]}'
                last = i + tables.MIN_COPY_LINES


def is_form(code):
    """Lines that the driver door itself asks of each driver."""
    return re.match(r'#|namespace\b|\}|(public|private|using)\b|return \w*;$', code) is not None \
        or re.search(r'\b(override|final);?$|= delete;$', code) is not None


def headers(tree):
    """A header opens with its file comment, under the same words, and guards itself."""
    for name, text in tree.under('lib/', 'drivers/', ext='.h').items():
        base = name.split('/')[-1]
        if not text.startswith(f'/// @file {base}\n'):
            yield name, 1, f'a header opens with "/// @file {base}"'
        opening = re.match(r'(?:///[^\n]*\n)*', text).group()
        missing = [word for word in ('Model', 'Threads', 'Memory', 'Errors') if f'\n/// {word} ' not in opening]
        if missing:
            yield name, 1, f'the file comment lacks {", ".join(missing)}'
        if '#pragma once' not in text:
            yield name, 1, '#pragma once is missing'


def names(tree):
    """snake_case files, and no rooms for everything."""
    for name in tree.under('lib/', 'drivers/', 'app/', 'test/', ext=('.h', '.cc', '.py')):
        stem = name.split('/')[-1].rsplit('.', 1)[0]
        if not re.match(r'^[a-z][a-z0-9_]*$', stem):
            yield name, 1, 'a file is named in snake_case'
        if re.search(r'(^|_)(utils?|common|manager|helpers?|misc)(_|$)', stem):
            yield name, 1, f'{stem} says nothing of what is inside'


def text(tree):
    """Columns, tabs, blanks at the end; no path of somebody's machine."""
    for name, content in tree.files.items():
        source = name.endswith(('.h', '.cc', '.in', '.py', '.sh', 'meson.build', 'meson_options.txt'))
        for line, words in enumerate(content.split('\n'), 1):
            if re.search(r'(?<![\w.}])/(?:home|root|Users|work)/', words):
                yield name, line, 'a path of one machine'
            if source and len(words) > tables.MAX_COLUMNS:
                yield name, line, f'{len(words)} columns, at most {tables.MAX_COLUMNS}'
            if source and re.search(r'\t|\s$', words):
                yield name, line, 'a tab, or blanks at the end of a line'
        if source and content and not content.endswith('\n'):
            yield name, 1, 'the last line has no end'


RULES = [layers, external, hot, refused, sizes, copies, headers, names, text]
