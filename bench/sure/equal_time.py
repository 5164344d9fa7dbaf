r"""How much narrower are intervals than those of an earlier commit, in the same wall time?

    git clone . ../before && git -C ../before checkout fd353ae8 && make -C ../before .venv/.ready
    PYTHONPATH=. python bench/sure/equal_time.py --before ../before --out DIR

The same command, with the same budget, by both programs in turn. Five settings can be toggled; five need
servers of their own, which take turns here and had windows there. Each program reports a 95 % interval of
each ratio of throughput; printed is the geometric mean, and the most, of our half-widths over those before.

A run is a row of DIR/equal-time.jsonl; the same command goes on where it stopped (two cases, two programs,
``--repeats`` times ``--budget``: 48 minutes).
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from statistics import fmean, median
from typing import Any

from bench.rows import read_rows

CASES = {
    "toggled": (
        "synchronous_commit=off", "commit_delay=100", "wal_compression=pglz", "wal_sync_method=open_datasync",
        "log_min_duration_statement=0",
    ),
    "sliced": (
        "shared_buffers=32MB", "wal_buffers=64kB", "wal_level=logical", "full_page_writes=off",
        "max_connections=1000",
    ),
}  # fmt: skip
LOAD = ("--scale", "10", "--clients", "4", "--threads", "2", "--pg", "embedded", "--rounds", "200")
PROGRAMS = ("before", "now")
CACHES = Path("/var/tmp/walproof-equal-time")


def main() -> None:
    """Run what is missing; print each case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--before", type=Path, required=True, help="checkout of the earlier commit")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--budget", default="4min")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    path = given.out / "equal-time.jsonl"
    rows = read_rows(path) if path.exists() else []
    for repeat in range(given.repeats):
        for case in CASES:
            # Each program is first in every second repeat.
            for program in PROGRAMS if repeat % 2 == 0 else PROGRAMS[::-1]:
                if any(
                    (row["repeat"], row["case"], row["program"]) == (repeat, case, program) for row in rows
                ):
                    continue
                row = {"repeat": repeat, "case": case, "program": program, **measured(program, case, given)}
                with path.open("a") as file:
                    file.write(json.dumps(row) + "\n")
                rows.append(row)
                halves = row["halves"].values()
                print(f"{case}, {program}: {row['seconds']:.0f} s, median {median(halves):.1%}", flush=True)
    shutil.rmtree(CACHES, ignore_errors=True)
    for case in CASES:
        say(case, [row for row in rows if row["case"] == case])


def measured(program: str, case: str, given: argparse.Namespace) -> dict[str, Any]:
    """Seconds, and setting -> half-width of the interval of its ratio of throughput, as a share."""
    python = sys.executable if program == "now" else str(given.before.resolve() / ".venv/bin/python")
    sets = [word for setting in CASES[case] for word in ("--set", setting)]
    # Settings that need a restart take turns where that is asked for.
    design = ["--design", case] if program == "now" else []
    words = ["compare", *sets, *LOAD, *design, "--budget", given.budget, "--json", "--new"]
    # Neither can use the other's templates. Servers' users must reach the folder.
    cache = CACHES / program
    cache.mkdir(mode=0o755, parents=True, exist_ok=True)
    began = time.monotonic()
    done = subprocess.run(
        [python, "-P", "-m", "walproof", *words, "--out", str((given.out / program).resolve())],
        check=True, capture_output=True, text=True, env=os.environ | {"WALPROOF_CACHE": str(cache)},
    )  # fmt: skip
    seconds = time.monotonic() - began
    halves = {
        effect["variant"]: effect["interval"]["high"] / effect["ratio"] - 1
        for effect in json.loads(done.stdout)["analysis"]["effects"]
        if effect["metric"] == "tps"
    }
    return {"seconds": seconds, "halves": halves}


def say(case: str, rows: list[dict[str, Any]]) -> None:
    """A row of Markdown for each setting: medians of its half-widths, and the ratio of their means."""
    halves = {
        program: {
            setting: [row["halves"][setting] for row in rows if row["program"] == program]
            for setting in CASES[case]
        }
        for program in PROGRAMS
    }
    print(f"\n| {case} | before | now | now / before |\n|---|---:|---:|---:|")
    ratios = []
    for setting in CASES[case]:
        before, now = (halves[program][setting] for program in PROGRAMS)
        ratios.append(math.exp(fmean(map(math.log, now)) - fmean(map(math.log, before))))
        print(f"| `{setting}` | {median(before):.1%} | {median(now):.1%} | {ratios[-1]:.2f} |")
    seconds = [fmean(row["seconds"] for row in rows if row["program"] == program) for program in PROGRAMS]
    print(
        f"| all | {seconds[0]:.0f} s | {seconds[1]:.0f} s | {math.exp(fmean(map(math.log, ratios))):.2f}, "
        f"at most {max(ratios):.2f} |"
    )


if __name__ == "__main__":
    main()
