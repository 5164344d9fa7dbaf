r"""Does a longer flush cost what it is longer? One client on emulated disks, of 0.5, 1 and 2 ms a flush.

    PYTHONPATH=. python bench/sure/flush_law.py --out flush-law --repeats 2

One client waits for one flush at each commit, so that a transaction takes as much longer as the flush does,
and with synchronous_commit=off as long as elsewhere. Each run toggles synchronous_commit on one server; the
disks come in turn, forwards and backwards. Printed are the times of a transaction, and how much longer it
takes than on the disk before, over how much longer the flush is. Half a minute a run.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from statistics import mean

FLUSHES_MS = (0.5, 1.0, 2.0)
SETTING = "synchronous_commit=off"


def main() -> None:
    """Measure all disks and print a row for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("flush-law"))
    parser.add_argument("--pg", default="embedded")
    parser.add_argument("--repeats", type=int, default=2)
    given = parser.parse_args()
    waited: dict[float, list[float]] = {flush_ms: [] for flush_ms in FLUSHES_MS}
    spared: dict[float, list[float]] = {flush_ms: [] for flush_ms in FLUSHES_MS}
    for repeat in range(given.repeats):
        for flush_ms in FLUSHES_MS if repeat % 2 == 0 else FLUSHES_MS[::-1]:
            default_ms, off_ms = times_ms(flush_ms, repeat + 1, given)
            waited[flush_ms].append(default_ms)
            spared[flush_ms].append(off_ms)
            print(f"{flush_ms} ms: {default_ms:.3f} and {off_ms:.3f} ms", file=sys.stderr, flush=True)
    print(f"| flush | a transaction | with {SETTING} | longer than on the disk before, of the flush's |")
    print("|---:|---:|---:|---:|")
    before: float | None = None
    for flush_ms in FLUSHES_MS:
        longer = ""
        if before is not None:
            longer = f"{(mean(waited[flush_ms]) - mean(waited[before])) / (flush_ms - before):.3f}"
        times = f"{mean(waited[flush_ms]):.3f} ms | {mean(spared[flush_ms]):.3f} ms"
        print(f"| {flush_ms} ms | {times} | {longer} |")
        before = flush_ms


def times_ms(flush_ms: float, seed: int, given: argparse.Namespace) -> tuple[float, float]:
    """Milliseconds of a transaction: of the default, and without the wait."""
    done = subprocess.run(
        [
            sys.executable, "-P", "-m", "walproof", "compare", "--set", SETTING, "--pg", given.pg, "--json",
            "--new", "--design", "toggled", "--passes", "15", "--rounds", "1", "--clients", "1",
            "--scale", "10", "--seed", str(seed), "--device", f"flush={flush_ms}ms", "--out", str(given.out),
        ],
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode != 0:
        sys.exit(f"a flush of {flush_ms} ms ended with status {done.returncode}:\n{done.stderr}")
    tps = {
        row["variant"]: row["mean"]
        for row in json.loads(done.stdout)["analysis"]["absolute"]
        if row["metric"] == "tps"
    }
    return 1000 / tps["default"], 1000 / tps[SETTING]


if __name__ == "__main__":
    main()
