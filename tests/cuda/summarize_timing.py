#!/usr/bin/env python3
"""Repeated measurements -> one table: what was said how often, and how wide the intervals were.

    python3 tests/cuda/summarize_timing.py FOLDER     (records NAME.RUN.json, as measure_on_gpu.sh leaves them)
"""
import collections
import glob
import json
import os
import statistics
import sys

rows = collections.defaultdict(list)
first = None
for path in sorted(glob.glob(os.path.join(sys.argv[1], "*.*.json"))):
    record = json.load(open(path))
    first = first or record
    for timing in record["timing"]:
        rows[os.path.basename(path).split(".")[0], timing["list"]].append(timing)

environment, rates = first["environment"], first["calibration"]
print(f"{environment['device']}, driver {environment['driver']}, {environment['compiler']}, SM clock up to "
      f"{environment['sm_clock_mhz']:.0f} MHz; reads {rates['read_bytes_per_s'] / 1e9:.0f} GB/s, copies "
      f"{rates['copy_bytes_per_s'] / 1e9:.0f} GB/s; {first['created_utc'][:10]}\n")
print("| candidate | list | runs | said | speedup: median (least, most) | interval reaches, of 1 | baseline us | pairs | dropped |")
print("|---|---|---|---|---|---|---|---|---|")
for (name, size), timings in rows.items():
    said = collections.Counter(t["word"] for t in timings)
    speedups = [t["speedup"] for t in timings]
    reach = max(max(abs(t["speedup_low"] - 1), abs(t["speedup_high"] - 1)) for t in timings)
    pairs = [len(t["pairs"]) for t in timings]
    dropped = sum(1 for t in timings for p in t["pairs"] if p["dropped"])
    print(f"| {name} | {size} | {len(timings)} | {', '.join(f'{w} {n}' for w, n in said.items())} | "
          f"{statistics.median(speedups):.4f} ({min(speedups):.4f}, {max(speedups):.4f}) | {100 * reach:.2f} % | "
          f"{statistics.median(t['baseline_ns'] for t in timings) / 1e3:.2f} | {round(statistics.mean(pairs))} | "
          f"{100 * dropped / sum(pairs):.1f} % |")
