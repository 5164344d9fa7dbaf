r"""Do slices agree with servers of their own? Settings by two designs, at equal places of the cycle.

    PYTHONPATH=. python bench/sure/agreement.py wal_buffers=64kB wal_level=logical --design sliced --out DIR

A block measures the settings by both designs, each in a run with its own seed, in an order that changes from
block to block. Both have their windows or slices where most pages have their image (``place = "steady"``).
Blocks are independent, so a t interval over the differences of logarithms holds the ratio of the two ratios.
A design is shown for a setting where the 90 % interval lies within 3 % of 1 (``shown`` in designs.csv). A
setting that changes nothing of the load agrees easily: choose values that do, and a load that the machine
repeats well (``--base synchronous_commit=off``, where the CPU limits it and not a disk that others share).

Blocks are kept in DIR; the same command goes on where it stopped, until it has ``--blocks``.
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
from numpy.typing import NDArray
from scipy import stats

from bench.rows import read_rows
from walproof.cli.status import ExitStatus
from walproof.lab.designs import GUARD_S

LIMIT = 0.03
STUDY = """
name = "agreement"
title = "Do two designs agree?"
baseline = "default"

[base]
{base}

[design]
rounds = {rounds}
place = "steady"
settle = "{settle_s}s"
design = "{design}"
seed = {seed}
probes = []
passes = {passes}
slice = "{slice_s}s"

[[workload]]
name = "load"
scale = 10
clients = 4
threads = 2
duration = "{window_s}s"

[[variant]]
name = "default"
"""
VARIANT = """
[[variant]]
name = "{name}"
settings = {{ {name} = "{value}" }}
"""
BASE = {"shared_buffers": "256MB", "max_wal_size": "8GB", "checkpoint_timeout": "30min"}
ROUNDS = {"fresh": 6, "sliced": 3, "toggled": 3}
"""Of a block. A window of a server of its own varies more than a start of slices."""
PASSES = 8
SLICE_S = 0.3
SETTLE_S = 3

Ratios = dict[str, float]
"""Setting -> its throughput over the default's."""


def main() -> int:
    """Measure blocks; print each, and all together. Returns 1 if the designs are not shown to agree."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("settings", metavar="NAME=VALUE", nargs="+")
    parser.add_argument("--base", metavar="NAME=VALUE", action="append", default=[])
    parser.add_argument("--design", choices=("sliced", "toggled"), required=True)
    parser.add_argument("--blocks", type=int, default=8)
    parser.add_argument("--out", type=Path, default=Path("agreement"))
    parser.add_argument("--pg", default="embedded")
    parser.add_argument("--on", default=None, help="folder whose disk is measured, as of walproof run")
    given = parser.parse_args()
    settings, base = parsed(given.settings), BASE | parsed(given.base)
    given.out.mkdir(parents=True, exist_ok=True)
    if given.on is not None:
        Path(given.on).mkdir(parents=True, exist_ok=True)
    kept = given.out / f"{given.design}.jsonl"
    blocks = read_rows(kept) if kept.exists() else []
    asked = {"settings": settings, "base": base}
    if any({key: block[key] for key in asked} != asked for block in blocks):
        sys.exit(f"{kept} has blocks of other settings; choose another --out")
    while len(blocks) < given.blocks:
        number = len(blocks) + 1
        order = ("fresh", given.design) if number % 2 else (given.design, "fresh")
        block = asked | {
            design: ratios(study(design, settings, base, number), f"{design}-{number}", given)
            for design in order
        }
        with kept.open("a") as file:
            file.write(json.dumps(block) + "\n")
        blocks.append(block)
        print(f"block {number} of {given.blocks}", flush=True)
        for name in settings:
            print(f"  {name}: fresh {block['fresh'][name]:.4f}x, slices {block[given.design][name]:.4f}x")
    return ExitStatus.DONE if say(blocks, settings, given.design) else ExitStatus.CHECK_FAILED


def parsed(words: list[str]) -> dict[str, str]:
    """Name -> value."""
    return dict(word.split("=", 1) for word in words)


def say(blocks: list[dict[str, Any]], settings: dict[str, str], design: str) -> bool:
    """Print a row of Markdown a setting; whether all are shown."""
    print(f"| setting | fresh | {design} | {design} / fresh, 90 % | within {LIMIT:.0%} |")
    print("|---|---:|---:|---|---|")
    are_shown = []
    for name, value in settings.items():
        low, middle, high = agreement(blocks, name, design)
        are_shown.append(low >= 1 - LIMIT and high <= 1 + LIMIT)
        means = [
            math.exp(np.mean([math.log(block[by][name]) for block in blocks])) for by in ("fresh", design)
        ]
        print(
            f"| `{name}={value}` | {means[0]:.3f}x | {means[1]:.3f}x | {middle:.3f} ({low:.3f} to {high:.3f})"
            f" | {'shown' if are_shown[-1] else 'not shown'} |"
        )
    return all(are_shown)


def agreement(blocks: list[dict[str, Any]], name: str, design: str) -> tuple[float, float, float]:
    """Lower end, middle and upper end of the ratio of the two ratios."""
    return ends(np.log([block[design][name] / block["fresh"][name] for block in blocks]))


def ends(logs: NDArray[np.float64]) -> tuple[float, float, float]:
    """Lower end, middle and upper end of the 90 % interval of a ratio, from a logarithm for each block."""
    half = stats.t.ppf(0.95, len(logs) - 1) * logs.std(ddof=1) / math.sqrt(len(logs))
    return math.exp(logs.mean() - half), math.exp(logs.mean()), math.exp(logs.mean() + half)


def study(design: str, settings: dict[str, str], base: dict[str, str], seed: int) -> str:
    """A study's file: each setting is a variant."""
    values = {
        "rounds": ROUNDS[design],
        "passes": PASSES,
        "slice_s": SLICE_S,
        "settle_s": SETTLE_S,
        # As long as a server's load from its first slice to its last: both lie at the same place after the
        # checkpoint.
        "window_s": round(PASSES * (SLICE_S + GUARD_S), 1),
    }
    lines = "\n".join(f'{name} = "{value}"' for name, value in base.items())
    head = STUDY.format(base=lines, design=design, seed=seed, **values)
    return head + "".join(VARIANT.format(name=name, value=value) for name, value in settings.items())


def ratios(text: str, name: str, given: argparse.Namespace) -> Ratios:
    """What a study measures."""
    file = given.out / f"{name}.toml"
    file.write_text(text)
    done = subprocess.run(
        [
            sys.executable, "-P", "-m", "walproof", "run", str(file), "--pg", given.pg, "--json", "--new",
            "--out", str(given.out / "runs"), *(["--on", given.on] if given.on else []),
        ],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    return {
        effect["variant"]: float(effect["ratio"])
        for effect in json.loads(done.stdout)["analysis"]["effects"]
        if effect["metric"] == "tps"
    }


if __name__ == "__main__":
    sys.exit(main())
