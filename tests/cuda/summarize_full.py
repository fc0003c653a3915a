#!/usr/bin/env python3
"""Markdown table of records of `eval --suite full --profile`: where the time went, and the largest error.

usage: tests/cuda/summarize_full.py reference_kernels/measured/records/h200_*_full.json.gz
"""
import gzip
import json
import sys


def row(path):
    with gzip.open(path, "rt") as file:
        record = json.load(file)
    if record["verdict"] != "passed" or record["suite"] != "full":
        sys.exit(f"{path}: {record['verdict']}, suite {record['suite']}; expected a passed record of full")
    seconds = {stage: ms / 1e3 for stage, ms in record["stage_ms"].items()}
    compared = sum(case["elements_checked"] for case in record["cases"]) / 1e9
    worst = max(record["cases"], key=lambda case: case["worst_error_ratio"])
    name = record["task"] + "/" + record["candidate"]["path"].split("/")[-1]
    cells = [f"`{name}`", record["created_utc"][5:16].replace("T", " "), f"{record['wall_ms'] / 1e3:.1f}"]
    cells += [f"{seconds.get(stage, 0):.1f}" for stage in ("timing", "large", "drift", "families", "edges", "determinism")]
    cells += [f"{compared:.2f}", f"{worst['worst_error_ratio']:.2f} ({worst['worst_buffer']}, {worst['check']})"]
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__.strip())
    print("| kernel | UTC | wall s | timing | large | drift | families | edges | determinism | elements compared, 1e9 | largest error |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for path in sys.argv[1:]:
        print(row(path))
