"""The files of the tree, and the little that the checks understand of C++."""
import os
import re
import subprocess


class Tree:
    """Text of files by their path from the root; self-tests make one from a dictionary."""

    def __init__(self, files):
        self.files = files

    @staticmethod
    def load(root):
        listed = subprocess.run(['git', '-C', root, 'ls-files', '-z', '--cached', '--others', '--exclude-standard'],
                                capture_output=True)
        names = [name for name in listed.stdout.decode().split('\0') if name] if listed.returncode == 0 else walk(root)
        files = {}
        for name in sorted(set(names)):
            path = os.path.join(root, name)
            if not os.path.isfile(path) or os.path.islink(path):
                continue
            with open(path, 'rb') as source:
                data = source.read()
            if b'\0' not in data and len(data) < 1 << 20:
                files[name] = data.decode('utf-8', 'replace')
        return Tree(files)

    def under(self, *folders, ext=('.h', '.cc')):
        return {name: text for name, text in self.files.items()
                if name.endswith(ext) and name.startswith(tuple(folders))}


def walk(root):
    """The same list for a tree without git: everything but build folders."""
    for folder, folders, names in os.walk(root):
        folders[:] = [f for f in folders if not f.startswith(('build', '.git', '.cache', '__pycache__'))]
        for name in names:
            yield os.path.relpath(os.path.join(folder, name), root)


LEXEME = re.compile(r'//[^\n]*|/\*.*?\*/|R"(?P<d>[^(]*)\(.*?\)(?P=d)"|"(?:\\.|[^"\\\n])*"'
                    r'|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])+\'', re.S)


def code_of(text):
    """@p text without comments and without what stands in quotes; lines keep their numbers."""
    def blank(match):
        found = match.group()
        kept = '\n' * found.count('\n')
        return kept if found.startswith('/') else '""' + kept
    return LEXEME.sub(blank, text)


def includes(text):
    """(line, name, quoted) of each include."""
    for number, line in enumerate(text.split('\n'), 1):
        match = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
        if match:
            yield number, match.group(2), match.group(1) == '"'


def functions(text):
    """(name, first line, last line) of each function body, by counting braces; lambdas belong to their function."""
    code = re.sub(r'^[ \t]*#(?:[^\n\\]|\\.|\\\n)*', lambda m: '\n' * m.group().count('\n'), code_of(text), flags=re.M)
    head, at = 0, 0
    while at < len(code):
        if code[at] in ';}':
            head = at + 1
        elif code[at] == '{':
            kind, name = judge_head(code[head:at])
            if kind == 'scope':
                head = at + 1
            else:
                end = closing(code, at)
                if kind == 'function':
                    first = head + len(code[head:at]) - len(code[head:at].lstrip())
                    yield name, code.count('\n', 0, first) + 1, code.count('\n', 0, end) + 1
                if kind != 'member':   # the head of a constructor goes on after the braces of a member
                    head = end + 1
                at = end
        at += 1


def judge_head(head):
    """What the brace after @p head opens."""
    head = head.strip()
    head = re.sub(r'^(public|private|protected)\s*:', '', head).strip()
    head = re.sub(r'^template\s*<[^{]*?>\s*(?=\w|\[)', '', head, flags=re.S)
    if re.search(r'\)\s*(noexcept)?\s*:(?!:)', head) and re.search(r'[\w>]$', head):
        return 'member', ''
    if re.match(r'((inline|export)\s+)?namespace\b|extern\s*""', head):
        return 'scope', ''
    if re.match(r'(typedef\s+)?(class|struct|union|enum)\b', head) and not re.search(r'\)\s*(const|noexcept)*$', head):
        return 'scope', ''
    match = re.search(r'((?:\w+::)*(?:operator\s*[^\s(]+|~?\w+))\s*\(', head)
    if match and not re.match(r'.*[^=!<>]=\s*(\[|$|\w)', head[:match.start()] + ' ', flags=re.S):
        return 'function', match.group(1)
    return 'other', ''


def closing(code, at):
    depth = 0
    for end in range(at, len(code)):
        depth += {'{': 1, '}': -1}.get(code[end], 0)
        if depth == 0:
            return end
    return len(code) - 1


def is_slow_name(name, verbs):
    """Constructors, destructors and slow verbs."""
    parts = name.split('::')
    return parts[-1].startswith('~') or parts[-1][:1].isupper() or re.match(verbs, parts[-1]) is not None
