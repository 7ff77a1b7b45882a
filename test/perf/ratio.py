#!/usr/bin/env python3
"""Ours against the raw libfabric loop: run both interleaved, print the ratio of medians.

Machines of this kind change speed from one minute to the next, so no figure stands by itself: A B A B in short windows,
medians, and the round trip of a cache line beside them. "+copy" is the raw loop with the one copy that a bounce buffer
cannot do without, from the receive to where the bytes belong. Exit status 0 when every row could be measured; the
ratios are printed, not judged. 77 when there is no bench to measure.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys

ROWS = [(64, 64), (64 << 10, 64), (1 << 20, 16)]  # block bytes, messages in flight


def run(command, seconds):
    """The last JSON line that `command` prints, or None with its last words on stderr."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 30, check=False)
    except subprocess.TimeoutExpired:
        print(f"ratio: no end after {seconds + 30:.0f} s: {' '.join(command)}", file=sys.stderr)
        return None
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0 or not lines:
        last = (done.stderr.strip().splitlines() or ["it printed no JSON line"])[-1]
        print(f"ratio: status {done.returncode}: {' '.join(command)}: {last}", file=sys.stderr)
        return None
    return json.loads(lines[-1])


def measure(args, provider, size, depth):
    raw = [args.raw, "--provider", provider, "--size", str(size), "--depth", str(depth), "--seconds", str(args.seconds)]
    ours = [args.bench, "--self", "--json", "--transport", "fabric_twosided", "--provider", provider, "--op", "write",
            "--block", str(size), "--batch", str(max(1, depth // 4)), "--depth", "4", "--seconds", str(args.seconds),
            "--no-verify"]
    if args.device:
        raw += ["--device", args.device]
    gb = {"raw": [], "copy": [], "ours": []}
    for _ in range(args.windows):
        for name, command in (("raw", raw), ("ours", ours), ("copy", raw + ["--copy", "rx"])):
            if name == "ours" and not args.bench:
                continue
            result = run(command, args.seconds)
            if result is not None:
                gb[name].append(result["gb_per_s"])
    return {name: statistics.median(values) if values else None for name, values in gb.items()}


def cell(value, form):
    """A number in its column, or a dash where there is none."""
    return format(value, form) if value else format("-", ">" + form.split(".", maxsplit=1)[0])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--raw", required=True, help="the raw_fabric program")
    parser.add_argument("--bench", default="", help="sluice-bench; without it only the raw loop is measured")
    parser.add_argument("--provider", action="append", help="repeatable; default: tcp;ofi_rxm, net and shm")
    parser.add_argument("--device", default="", help="the raw loop's domain; default: the provider's first")
    parser.add_argument("--windows", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=1)
    args = parser.parse_args()
    if args.bench and not os.access(args.bench, os.X_OK):
        print(f"ratio: skipped: {args.bench} is not a program; build it, or leave --bench out", file=sys.stderr)
        return 77  # meson's word for a test that was skipped

    line = run([args.raw, "--mode", "line"], 5)
    if line is not None:
        print(f"cache line round trip {line['cache_line_round_trip_ns']:.0f} ns")
    print(f"{'provider':14}{'bytes':>9}{'depth':>7}{'raw GB/s':>10}{'raw Mmsg/s':>12}{'+copy GB/s':>12}"
          f"{'ours GB/s':>11}{'of raw':>8}{'of +copy':>10}")
    complete = True
    for provider in args.provider or ["tcp;ofi_rxm", "net", "shm"]:
        for size, depth in ROWS:
            medians = measure(args, provider, size, depth)
            raw, copy, ours = medians["raw"], medians["copy"], medians["ours"]
            complete &= raw is not None and copy is not None and (ours is not None or not args.bench)
            shown = [cell(raw, "10.3f"), cell(raw and raw * 1e3 / size, "12.4f"), cell(copy, "12.3f"),
                     cell(ours, "11.3f"), cell(ours and raw and ours / raw, "8.2f"),
                     cell(ours and copy and ours / copy, "10.2f")]
            print(f"{provider:14}{size:9}{depth:7}" + "".join(shown), flush=True)
    return 0 if complete else 1


if __name__ == "__main__":
    sys.exit(main())
