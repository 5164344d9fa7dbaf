"""Does the first run answer? ``make run``'s command again and again, alone and beside a busy core.

    PYTHONPATH=. python bench/sure/first_run.py --out first-runs [--runs 10]

Every second run has a hog beside it: one process of ours that never sleeps. A run is a row of
OUT/first-runs.jsonl: its wall time, and each ratio of throughput with its interval; the same command goes on
where it was stopped. Printed for each run: minutes, the median and the widest half-width of its intervals
(their upper end over the ratio, less 1), and how many say whether the variant is faster or slower.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from statistics import median
from typing import Any

COMMAND = ("run", "durability", "--quick", "--pg", "embedded", "--json", "--new")


def main() -> None:
    """Run what is missing, print every run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--design", help="instead of that of the quick form")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    path = given.out / "first-runs.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    for number in range(len(rows) + 1, given.runs + 1):
        row = measured(given.out / "runs", given.design, is_beside_hog=number % 2 == 0)
        with path.open("a") as file:
            file.write(json.dumps(row) + "\n")
        rows.append(row)
        print(said(number, row), flush=True)
    print("\n".join(said(number, row) for number, row in enumerate(rows, 1)))


def measured(out: Path, design: str | None, *, is_beside_hog: bool) -> dict[str, Any]:
    """One run: seconds, and the ratios of throughput as [workload, variant, ratio, low, high]."""
    words = [*COMMAND, *(("--design", design) if design else ()), "--out", str(out)]
    with hog() if is_beside_hog else nullcontext():
        began = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-P", "-m", "walproof", *words], check=True, capture_output=True, text=True
        )
        seconds = time.monotonic() - began
    ratios = [
        [effect[key] for key in ("workload", "variant", "ratio")]
        + [effect["interval"][key] for key in ("low", "high")]
        for effect in json.loads(done.stdout)["analysis"]["effects"]
        if effect["metric"] == "tps"
    ]
    return {"hog": is_beside_hog, "seconds": seconds, "ratios": ratios}


@contextmanager
def hog() -> Iterator[None]:
    """A process that keeps one core busy."""
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as process:
        try:
            yield
        finally:
            process.kill()


def said(number: int, row: dict[str, Any]) -> str:
    """A run as a row of Markdown."""
    halves = [high / ratio - 1 for _, _, ratio, _, high in row["ratios"]]
    told = sum(low > 1 or high < 1 for *_, low, high in row["ratios"])
    beside = "a busy core" if row["hog"] else "nothing"
    return (
        f"| {number} | {beside} | {row['seconds'] / 60:.1f} min | {median(halves):.1%} | {max(halves):.1%} "
        f"| {told} of {len(halves)} |"
    )


if __name__ == "__main__":
    main()
