r"""Do slices agree with servers of their own? A setting by two designs, at equal places of the cycle.

    PYTHONPATH=. python bench/sure/agreement.py wal_buffers=64MB --design sliced --out agreement

A block measures the setting by both designs, each in a run with its own seed, in an order that changes from
block to block. Both have their windows or slices where most pages have their image (``place = "steady"``).
Blocks are independent, so a t interval over the differences of logarithms holds the ratio of the two ratios.
A design is shown for a setting where the 90 % interval lies within 3 % of 1 (``shown`` in designs.csv).

Blocks are kept in OUT; the same command goes on where it stopped, until it has ``--blocks``.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from walproof.cli.status import ExitStatus

LIMIT = 0.03
STUDY = """
name = "agreement"
title = "Do two designs agree?"
baseline = "default"

[base]
shared_buffers = "256MB"
max_wal_size = "8GB"
checkpoint_timeout = "30min"

[design]
rounds = 2
place = "steady"
settle = "10s"
design = "{design}"
seed = {seed}
probes = []
passes = {passes}

[[workload]]
name = "load"
scale = 10
clients = 4
threads = 2
duration = "{window_s}s"

[[variant]]
name = "default"

[[variant]]
name = "other"
settings = {{ {name} = "{value}" }}
"""
PASSES = 16
SLICE_S = 0.3


def main() -> int:
    """Measure blocks; print each, and all together. Returns 1 if the designs are not shown to agree."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("setting", metavar="NAME=VALUE")
    parser.add_argument("--design", choices=("sliced", "toggled"), required=True)
    parser.add_argument("--blocks", type=int, default=8)
    parser.add_argument("--out", type=Path, default=Path("agreement"))
    parser.add_argument("--pg", default="embedded")
    given = parser.parse_args()
    name, _, value = given.setting.partition("=")
    given.out.mkdir(parents=True, exist_ok=True)
    kept = given.out / f"{name}-{given.design}.jsonl"
    blocks = [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []
    while len(blocks) < given.blocks:
        number = len(blocks) + 1
        order = ("fresh", given.design) if number % 2 else (given.design, "fresh")
        block = {
            "setting": given.setting,
            **{design: ratio(design, name, value, number, given.pg, given.out) for design in order},
        }
        with kept.open("a") as file:
            file.write(json.dumps(block) + "\n")
        blocks.append(block)
        print(
            f"block {number}: fresh {block['fresh']:.4f}x, {given.design} {block[given.design]:.4f}x",
            flush=True,
        )
    low, middle, high = agreement(blocks, given.design)
    is_shown = low >= 1 - LIMIT and high <= 1 + LIMIT
    print(
        f"{given.setting}: {given.design} / fresh {middle:.3f} ({low:.3f} to {high:.3f}, 90 %),"
        f" {len(blocks)} blocks: {'shown' if is_shown else 'not shown'} within {LIMIT:.0%}"
    )
    return ExitStatus.DONE if is_shown else ExitStatus.CHECK_FAILED


def agreement(blocks: list[dict[str, Any]], design: str) -> tuple[float, float, float]:
    """Lower end, middle and upper end of the ratio of the two ratios."""
    logs = np.log([block[design] / block["fresh"] for block in blocks])
    half = stats.t.ppf(0.95, len(logs) - 1) * logs.std(ddof=1) / math.sqrt(len(logs))
    return math.exp(logs.mean() - half), math.exp(logs.mean()), math.exp(logs.mean() + half)


def ratio(design: str, name: str, value: str, number: int, pg: str, out: Path) -> float:
    """The setting's throughput over the default's, by one design."""
    window_s = round(PASSES * SLICE_S * 2)
    study = out / f"{design}-{number}.toml"
    study.write_text(
        STUDY.format(design=design, seed=number, name=name, value=value, passes=PASSES, window_s=window_s)
    )
    done = subprocess.run(
        [
            sys.executable, "-P", "-m", "walproof", "run", str(study), "--pg", pg, "--json", "--new",
            "--out", str(out / "runs"),
        ],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    (effect,) = [
        effect
        for effect in json.loads(done.stdout)["analysis"]["effects"]
        if effect["metric"] == "tps" and effect["variant"].startswith("other")
    ]
    return float(effect["ratio"])


if __name__ == "__main__":
    sys.exit(main())
