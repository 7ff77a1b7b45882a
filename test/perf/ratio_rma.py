#!/usr/bin/env python3
"""Ours against the raw libfabric loop of one-sided operations: run both interleaved, print the ratio of medians.

As in ratio.py no figure stands by itself: A B A B in short windows, medians, the round trip of a cache line beside
them. Bandwidth at 64 KiB and 1 MiB, the rate of operations at 4 KiB, write and read. The raw loop's writes end when
their bytes are at the target, as ours do. Exit status 0 when every row could be measured; the ratios are printed, not
judged. 77 when the bench is not there or has no one-sided transport.
"""
import argparse
import os
import statistics
import subprocess
import sys

from ratio import cell, run

ROWS = [(4 << 10, 64), (64 << 10, 64), (1 << 20, 16)]  # block bytes, operations in flight
TRANSPORT = "fabric"


def why_not(bench):
    """Why there is nothing to measure; empty when there is."""
    if not os.access(bench, os.X_OK):
        return f"{bench} is not a program; build it, or leave --bench out"
    done = subprocess.run([bench, "--transport", TRANSPORT, "--list"], capture_output=True, text=True, timeout=60,
                          check=False)
    return "" if done.returncode == 0 else done.stderr.strip()


def measure(args, provider, op, size, depth):
    raw = [args.raw, "--provider", provider, "--op", op, "--size", str(size), "--depth", str(depth)]
    raw += ["--seconds", str(args.seconds)]
    ours = [args.bench, "--self", "--json", "--transport", TRANSPORT, "--provider", provider, "--op", op]
    ours += ["--block", str(size), "--batch", str(max(1, depth // 4)), "--depth", "4", "--seconds", str(args.seconds)]
    ours += ["--no-verify"]
    if args.device:
        raw += ["--device", args.device]
        ours += ["--device", args.device]
    rates = {"raw": [], "ours": []}
    for _ in range(args.windows):
        for name, command in (("raw", raw), ("ours", ours)):
            result = run(command, args.seconds) if name == "raw" or args.bench else None
            if result is not None:
                rates[name].append(result["mops"])
    return {name: statistics.median(values) if values else None for name, values in rates.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--raw", required=True, help="the raw_rma program")
    parser.add_argument("--line", default="", help="the raw_fabric program, for the cache line's round trip")
    parser.add_argument("--bench", default="", help="sluice-bench; without it only the raw loop is measured")
    parser.add_argument("--provider", action="append", help="repeatable; default: tcp;ofi_rxm and shm")
    parser.add_argument("--device", default="", help="the domain of both; default: the provider's first")
    parser.add_argument("--windows", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=1)
    args = parser.parse_args()
    why = why_not(args.bench) if args.bench else ""
    if why:
        print(f"ratio_rma: skipped: {why}", file=sys.stderr)
        return 77  # meson's word for a test that was skipped

    line = run([args.line, "--mode", "line"], 5) if args.line else None
    if line is not None:
        print(f"cache line round trip {line['cache_line_round_trip_ns']:.0f} ns")
    print(f"{'provider':14}{'op':>6}{'bytes':>9}{'depth':>7}{'raw GB/s':>10}{'raw Mop/s':>11}{'ours GB/s':>11}"
          f"{'ours Mop/s':>12}{'of raw':>8}")
    complete = True
    for provider in args.provider or ["tcp;ofi_rxm", "shm"]:
        for op in ("write", "read"):
            for size, depth in ROWS:
                medians = measure(args, provider, op, size, depth)
                raw, ours = medians["raw"], medians["ours"]
                complete &= raw is not None and (ours is not None or not args.bench)
                shown = [cell(raw and raw * size / 1e3, "10.3f"), cell(raw, "11.4f"),
                         cell(ours and ours * size / 1e3, "11.3f"), cell(ours, "12.4f"),
                         cell(ours and raw and ours / raw, "8.2f")]
                print(f"{provider:14}{op:>6}{size:9}{depth:7}" + "".join(shown), flush=True)
    return 0 if complete else 1


if __name__ == "__main__":
    sys.exit(main())
