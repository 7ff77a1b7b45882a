#!/usr/bin/env python3
"""sluice-bench and sluice-relay as their users start them: output, exit status, and the one line that says what failed.

Prints TAP, a case a line. Over loop, and over libfabric's tcp;ofi_rxm where it is.
"""
import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

DEADLINE = 60  # seconds that any one program may take, on a busy machine
WIRES = {'loop': ['--transport', 'loop_twosided', '--hugepages', 'off'],
         'rxm': ['--transport', 'fabric_twosided', '--provider', 'tcp;ofi_rxm', '--hugepages', 'off']}
RUNS = [('xfer', 'write', 0), ('xfer', 'read', 2), ('xfer', 'both', 0), ('xfer', 'both', 2), ('pingpong', 'write', 2),
        ('pingpong', 'both', 0), ('notify', 'write', 0), ('notify', 'write', 2)]
ALONE = [('submit', 'write', 0), ('submit', 'read', 0), ('submit', 'both', 0)]
KV = [('push', 'write', ['--kv-run', '4', '--kv-notify']), ('pull', 'read', ['--kv-run', '0'])]
KEYS = {'mode': str, 'transport': str, 'provider': str, 'device': str, 'op': str, 'block_bytes': int, 'batch': int,
        'depth': int, 'threads': int, 'seconds': float, 'ops': int, 'bytes': int, 'gb_per_s': float, 'mops': float,
        'lat_us': {'p50': float, 'p90': float, 'p99': float, 'p999': float, 'max': float}, 'verified': bool,
        'failed_ops': int,
        'submit_ns': float, 'waiting': {'count': int, 'max_us': int}, 'extents': {'min': int, 'max': int, 'end': int},
        'shape': str}


class Wrong(Exception):
    """What a case found."""


def need(holds, words):
    if not holds:
        raise Wrong(words)


class Program:
    """One that runs beside this one, and that ends with it."""

    def __init__(self, command):
        self.child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE, text=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.child.poll() is None:
            self.child.kill()
        self.child.communicate()

    def line(self):
        """Its next line on stdout. It comes, or the program ends; meson's timeout ends one that does neither."""
        return self.child.stdout.readline().rstrip('\n')

    def end(self):
        """(exit status, the rest of stdout, stderr) when it has ended."""
        try:
            out, err = self.child.communicate(timeout=DEADLINE)
        except subprocess.TimeoutExpired as late:
            raise Wrong(f'no end within {DEADLINE} s: {" ".join(self.child.args)}') from late
        return self.child.returncode, out, err


def run(*command):
    with Program(list(command)) as program:
        return program.end()


def one_line(text, *words):
    need(text.endswith('\n') and text.count('\n') == 1, f'not one line: {text!r}')
    for word in words:
        need(word in text, f'{word!r} is not in {text!r}')


def check_keys(found, wanted, where=''):
    need(list(found) == list(wanted), f'keys {where}: {list(found)}, documented are {list(wanted)}')
    for key, kind in wanted.items():
        if isinstance(kind, dict):
            check_keys(found[key], kind, key)
        else:
            need(isinstance(found[key], kind), f'{where}.{key} = {found[key]!r} is no {kind.__name__}')


def check_run(bench, wire, mode, op, threads):
    blocks = ['64', '256'] if mode == 'notify' else ['4k', '100000']
    command = [bench, *WIRES[wire], '--mode', mode, '--op', op, '--threads', str(threads), '--count', '40']
    command += ['--depth', '2', '--block', ','.join(blocks), '--json']
    status, out, err = run(*command, *([] if mode == 'submit' else ['--self']))
    need(status == 0 and err == '', f'exit status {status}, stderr {err!r}')
    lines = out.splitlines()
    need(len(lines) == len(blocks), f'{len(lines)} lines for {len(blocks)} blocks: {out!r}')
    for line in lines:
        found = json.loads(line)
        check_keys(found, KEYS)
        need(found['mode'] == mode and found['threads'] == threads, line)
        need(found['transport'] == WIRES[wire][1], line)
        need(found['verified'] and found['failed_ops'] == 0, line)
        need(found['ops'] >= 40 and found['bytes'] == found['ops'] * found['block_bytes'], line)
        need(found['op'] == (op if mode != 'notify' else 'notify'), line)
        need(found['lat_us']['p50'] <= found['lat_us']['p999'] <= found['lat_us']['max'], line)
        need(found['extents']['min'] <= found['extents']['end'] <= found['extents']['max'], line)


def check_kv(bench, wire, op, words):
    """61 layers of 4 pages of 18 KiB; the memory holds fewer, so that descriptors begin again at its start."""
    command = [bench, *WIRES[wire], '--self', '--mode', 'kv', '--op', op, '--kv-model', 'deepseek-v3']
    command += ['--kv-tokens', '64', '--kv-memory', '1M', '--depth', '2', '--count', '488', '--json', *words]
    status, out, err = run(*command)
    need(status == 0 and err == '', f'exit status {status}, stderr {err!r}')
    found = json.loads(out)
    check_keys(found, KEYS)
    need(found['mode'] == 'kv' and found['block_bytes'] == 18 << 10 and found['batch'] == 244, out)
    need(found['verified'] and found['ops'] >= 488 and found['ops'] % 244 == 0, out)
    need('244 descriptors of 18k' in found['shape'] and found['submit_ns'] > 0, out)


def check_memory(bench):
    """Bounce memory that grows is that of the node which receives; a run's longest wait is its own."""
    command = [bench, *WIRES['loop'], '--self', '--op', 'write', '--block', '4M,64', '--batch', '4', '--depth', '2']
    command += ['--slot-size', '1M', '--rx-slots', '2', '--rx-slots-min', '2', '--extent-slots', '2', '--count', '64']
    command += ['--credit-probe-us', '10', '--shrink-idle-ms', '400', '--json']  # each wait is told, and it grows soon
    status, out, err = run(*command)
    need(status == 0 and err == '', f'exit status {status}, stderr {err!r}')
    large, small = (json.loads(line) for line in out.splitlines())
    need(large['extents']['max'] > 1, f'the target did not grow, or it is not told: {out}')
    need(large['waiting']['count'] > 0 and large['waiting']['max_us'] > 0, out)
    need(small['waiting']['count'] > 0 or small['waiting']['max_us'] == 0, out)


def check_list(bench, relay):
    for program in (bench, relay):
        status, out, err = run(program, *WIRES['loop'], '--list')
        need(status == 0 and err == '', f'exit status {status}, stderr {err!r}')
        need(out.startswith('DEVICE') and len(out.splitlines()) >= 2, out)
    status, out, err = run(bench, *WIRES['loop'], '--self', '--device', 'none-such', '--count', '1')
    need(status == 1 and out == '', f'exit status {status}, stdout {out!r}')
    need('none-such' in err, err)


def check_left_out(bench, relay):
    """What auto does not take is told with the reason, behind what it takes."""
    for program in (bench, relay):
        status, out, err = run(program, '--transport', 'fabric_twosided', '--list')
        need(status == 0 and err == '', f'exit status {status}, stderr {err!r}')
        offered, _, left_out = out.partition('left out:\n')
        need(len(offered.splitlines()) >= 2 and ' shm ' not in offered, out)
        need(any(' shm ' in line and '--provider shm' in line for line in left_out.splitlines()), out)


def check_help(bench, relay):
    for program, own in ((bench, '--segment-size'), (relay, '--drain-ms')):
        status, out, err = run(program, '--help')
        need(status == 0 and err == '', f'exit status {status}, stderr {err!r}')
        for word in (own, '--transport', '--lease-ms'):
            need(word in out, f'--help lacks {word}')


def check_usage(bench, relay):
    for program in (bench, relay):
        for words in (['--no-such-option'], ['--workers', '0'], ['--transport', 'pigeon'], ['--slot-size', '3x'],
                      ['--config', '/none/such.toml']):
            status, out, err = run(program, *words)
            need(status == 2 and out == '', f'{words}: exit status {status}, stdout {out!r}')
            one_line(err, words[0].lstrip('-') if words[0] != '--config' else '/none/such.toml')
    for program, words in ((bench, []), (bench, ['--self', '--target']), (bench, ['--self', '--depth', '0']),
                           (bench, ['--self', '--block', '']), (bench, ['--self', '--mode', 'kv', '--block', '4k']),
                           (bench, ['--self', '--mode', 'kv', '--kv-tensor-parallel', '3']), (relay, ['--name', 'n']),
                           (relay, ['--segment', 'kv=1M']), (relay, ['--name', 'n', '--segment', 'kv'])):
        status, out, err = run(program, *words)
        need(status == 2 and out == '', f'{words}: exit status {status}, stdout {out!r}')
        one_line(err)


def children_of(pid):
    with open(f'/proc/{pid}/task/{pid}/children', encoding='ascii') as file:
        return [int(word) for word in file.read().split()]


def check_killed_child(bench, wire):
    """After its first report a bench is in its second run, of a second: then its target is killed."""
    command = [bench, *WIRES[wire], '--self', '--seconds', '1', '--block', '4k,4k,4k,4k', '--json']
    with Program(command) as program:
        need(json.loads(program.line())['verified'], 'the first run is not verified')
        for child in children_of(program.child.pid):
            os.kill(child, signal.SIGKILL)
        status, _, err = program.end()
    need(status == 1, f'exit status {status}')
    need('target' in err and 'killed by signal 9' in err, err)


def check_killed_peer(bench, wire):
    with Program([bench, *WIRES[wire], '--target', '--listen', '127.0.0.1:0', '--segment-size', '4M']) as target:
        address = target.line().split()[3]
        command = [bench, *WIRES[wire], '--peer', address, '--seconds', '1', '--block', '4k,4k,4k,4k', '--json']
        with Program(command) as program:
            need(json.loads(program.line())['verified'], 'the first run is not verified')
            target.child.kill()
            status, _, err = program.end()
    need(status == 1, f'exit status {status}')
    need(address in err, f'{address} is not in {err!r}')


def relay_words(relay, wire, *more):
    return [relay, *WIRES[wire], '--name', 'store', '--segment', 'kv=1M', *more]


def check_relay(relay, wire):
    with Program(relay_words(relay, wire, '--listen', '127.0.0.1:0')) as node:
        ready = node.line()
        need(ready.startswith('sluice-relay: ready store at 127.0.0.1:'), ready)
        address = ready.split()[4]
        status, out, err = run(*relay_words(relay, wire, '--listen', address))
        need(status == 1 and out == '', f'exit status {status}, stdout {out!r}')
        one_line(err, address.rsplit(':', 1)[1])
        node.child.send_signal(signal.SIGTERM)
        status, out, err = node.end()
    need(status == 0 and err == '', f'exit status {status}, stderr {err!r}')
    one_line(out, 'sluice-relay: stopped store, nothing left')


def check_config(relay):
    with tempfile.NamedTemporaryFile('w', suffix='.toml') as file:
        file.write('name = "filed"\ntransport = "loop_twosided"\nlisten = "127.0.0.1:0"\nhugepages = "off"\n'
                   'segment = ["kv=64k", "kv=4k"]\n')
        file.flush()
        with Program([relay, '--config', file.name]) as node:
            ready = node.line()
            need(ready.startswith('sluice-relay: ready filed at 127.0.0.1:') and ready.endswith('segments 2'), ready)
            node.child.send_signal(signal.SIGINT)
            status, out, _ = node.end()
        need(status == 0, f'exit status {status}')
        one_line(out, 'stopped filed')
        file.write('lease_ms = "soon"\n')
        file.flush()
        status, out, err = run(relay, '--config', file.name)
    need(status == 2 and out == '', f'exit status {status}, stdout {out!r}')
    one_line(err, file.name + ':6', 'lease')


def cases(bench, relay):
    """(name, wire or none, check)."""
    yield 'list', '', lambda: check_list(bench, relay)
    yield 'list_left_out', 'rxm', lambda: check_left_out(bench, relay)
    yield 'help', '', lambda: check_help(bench, relay)
    yield 'usage', '', lambda: check_usage(bench, relay)
    yield 'relay_config', '', lambda: check_config(relay)
    yield 'bench_memory', '', lambda: check_memory(bench)
    for wire in WIRES:
        for mode, op, threads in RUNS + (ALONE if wire == 'loop' else []):
            yield (f'bench_{wire}_{mode}_{op}_{threads}', wire,
                   lambda w=wire, m=mode, o=op, t=threads: check_run(bench, w, m, o, t))
        for name, op, more in KV:
            yield f'bench_{wire}_kv_{name}', wire, lambda w=wire, o=op, m=more: check_kv(bench, w, o, m)
        yield f'bench_{wire}_killed_child', wire, lambda w=wire: check_killed_child(bench, w)
        yield f'bench_{wire}_killed_peer', wire, lambda w=wire: check_killed_peer(bench, w)
        yield f'relay_{wire}', wire, lambda w=wire: check_relay(relay, w)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--bench', required=True)
    parser.add_argument('--relay', required=True)
    parser.add_argument('--only', default='', help='cases whose name has this in it')
    args = parser.parse_args()
    status, _, why = run(args.bench, *WIRES['rxm'], '--list')
    absent = why.strip() if status != 0 else ''
    failed = number = 0
    for number, (name, wire, check) in enumerate((c for c in cases(args.bench, args.relay) if args.only in c[0]), 1):
        if wire == 'rxm' and absent:
            print(f'ok {number} {name} # SKIP {absent}', flush=True)
            continue
        began = time.monotonic()
        try:
            check()
            print(f'ok {number} {name}', flush=True)
        except (Wrong, ValueError, IndexError, KeyError, OSError) as wrong:
            failed += 1
            print(f'not ok {number} {name}\n# {wrong!r}', flush=True)
            print(f'{name}: {wrong!r}', file=sys.stderr, flush=True)  # meson shows no comments of TAP
        print(f'# {time.monotonic() - began:.2f} s', flush=True)
    print(f'1..{number}')
    return failed != 0


if __name__ == '__main__':
    sys.exit(main())
