r"""Do intervals hold the truth, and is any design biased? Six variants by three designs, block by block.

    PYTHONPATH=. python bench/sure/truth.py --out truth --blocks 20 --on /dev/shm/truth-pg

A block is three runs, each with its own seed and its own servers: three fresh rounds, three starts of
servers that take turns, three starts of a toggled server (which may not change shared_buffers or fsync).
The order of the three changes from block to block; all lie at the same place of the checkpoint cycle
(``place = "steady"``). The disk is emulated (``flush=1ms``), so that settings which spare flushes gain
much, on any machine alike.

One variant, ``twin``, has a value that is the default's: its true ratio is 1. Printed are of each setting
and design the ratio over all blocks, how it compares with that of servers of their own (a 90 % interval
over blocks), and how many blocks' own 95 % intervals hold the truth: 1 for the twin, for the others what
all blocks of the design say together. A design that is biased is seen in the one, a design whose intervals
are too narrow in the other. Shares have the interval of Clopper and Pearson (Biometrika 26, 1934);
intervals of one run share its baseline, so that a share is less sure than that.

``--only`` names fewer settings, as ``--only shared_buffers=1MB,fsync=off``. A block of all takes about six
minutes. Blocks are kept in DIR; the same command goes on where it stopped.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import time
from collections.abc import Sequence
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from bench.rows import read_rows
from bench.sure.agreement import ends
from walproof.analysis.interval import LEVEL
from walproof.cli.status import ExitStatus
from walproof.lab.designs import GUARD_S

DESIGNS = ("fresh", "sliced", "toggled")
ORDERS = tuple(permutations(DESIGNS))
TWIN = "twin"
SETTINGS: dict[str, dict[str, str]] = {
    TWIN: {"commit_delay": "0"},
    "synchronous_commit=off": {"synchronous_commit": "off"},
    "commit_delay=1000": {"commit_delay": "1000", "commit_siblings": "0"},
    "log_statement_stats=on": {"log_statement_stats": "on"},
    "shared_buffers=1MB": {"shared_buffers": "1MB"},
    "fsync=off": {"fsync": "off"},
}
MOST_BIAS = 0.01
NOT_TOGGLED = ("shared_buffers=1MB", "fsync=off")
STUDY = """
name = "truth"
title = "Do intervals hold the truth?"
baseline = "default"

[base]
shared_buffers = "256MB"
max_wal_size = "8GB"
checkpoint_timeout = "30min"

[design]
rounds = 3
place = "steady"
settle = "3s"
design = "{design}"
seed = {seed}
probes = []
passes = {passes}
slice = "{slice_s}s"

[[workload]]
name = "load"
scale = 10
clients = {clients}
duration = "{window_s:g}s"

[[variant]]
name = "default"
"""
PASSES, SLICE_S = 8, 0.3
WINDOW_S = PASSES * (SLICE_S + GUARD_S)
"""As long as a server's load from its first slice to its last."""


def main() -> int:
    """Measure blocks and say what they show. Returns 1 if a share of intervals or a bias is out of bounds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--blocks", type=int, default=20)
    parser.add_argument("--out", type=Path, default=Path("truth"))
    parser.add_argument("--pg", default="embedded")
    parser.add_argument("--on", default=None, help="folder whose disk is measured, as of walproof run")
    parser.add_argument("--device", default="flush=1ms")
    parser.add_argument("--clients", type=int, default=1)
    parser.add_argument("--only", type=settings_named, default=tuple(SETTINGS))
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    if given.on is not None:
        Path(given.on).mkdir(parents=True, exist_ok=True)
    kept = given.out / "truth.jsonl"
    blocks = read_rows(kept) if kept.exists() else []
    asked = {"device": given.device, "clients": given.clients}
    if any(
        {key: block[key] for key in asked} != asked or named_in(block) != set(given.only) for block in blocks
    ):
        sys.exit(f"{kept} has blocks of another device, number of clients or settings; choose another --out")
    while len(blocks) < given.blocks:
        number = len(blocks) + 1
        began = time.monotonic()
        block: dict[str, Any] = asked | {
            design: effects(design, number, given)
            for design in ORDERS[number % len(ORDERS)]
            if variants_of(design, given.only)
        }
        block["seconds"] = round(time.monotonic() - began)
        with kept.open("a") as file:
            file.write(json.dumps(block) + "\n")
        blocks.append(block)
        print(f"block {number} of {given.blocks}: {block['seconds']} s", flush=True)
    return ExitStatus.DONE if say(blocks) else ExitStatus.CHECK_FAILED


def settings_named(text: str) -> tuple[str, ...]:
    """Of ``--only``. Raises argparse.ArgumentTypeError."""
    names = tuple(text.split(","))
    if unknown := [name for name in names if name not in SETTINGS]:
        raise argparse.ArgumentTypeError(f"{unknown[0]} is none of: {', '.join(SETTINGS)}")
    return names


def named_in(block: dict[str, Any]) -> set[str]:
    """The settings that a block has."""
    return {name for design in DESIGNS for name in block.get(design, ())}


def variants_of(design: str, names: Sequence[str]) -> list[str]:
    """Those of the settings that the design can measure."""
    return [name for name in names if design != "toggled" or name not in NOT_TOGGLED]


def effects(design: str, seed: int, given: argparse.Namespace) -> dict[str, list[float]]:
    """What one run measures: variant -> ratio of throughput, lower and upper end of its 95 % interval."""
    file = given.out / f"{design}-{seed}.toml"
    file.write_text(study(design, seed, given.clients, variants_of(design, given.only)))
    done = subprocess.run(
        [
            sys.executable, "-P", "-m", "walproof", "run", str(file), "--pg", given.pg, "--json", "--new",
            "--out", str(given.out / "runs"), "--device", given.device,
            *(["--on", given.on] if given.on else []),
        ],
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode != 0:
        sys.exit(f"{file} ended with status {done.returncode}:\n{done.stderr}")
    return {
        effect["variant"]: [effect["ratio"], effect["interval"]["low"], effect["interval"]["high"]]
        for effect in json.loads(done.stdout)["analysis"]["effects"]
        if effect["metric"] == "tps"
    }


def study(design: str, seed: int, clients: int, names: Sequence[str]) -> str:
    """The file of one run."""
    variants = "".join(
        f'\n[[variant]]\nname = "{name}"\nsettings = {{ {values(SETTINGS[name])} }}\n' for name in names
    )
    head = STUDY.format(
        design=design, seed=seed, clients=clients, passes=PASSES, slice_s=SLICE_S, window_s=WINDOW_S
    )
    return head + variants


def values(settings: dict[str, str]) -> str:
    """As TOML has them within a table."""
    return ", ".join(f'{name} = "{value}"' for name, value in settings.items())


def say(blocks: list[dict[str, Any]]) -> bool:
    """Print two tables; whether means and shares of intervals are within bounds."""
    print(f"{len(blocks)} blocks, {sum(block['seconds'] for block in blocks) / 60:.0f} minutes\n")
    print("| setting | design | ratio | to servers of its own, 90 % | intervals that hold the truth |")
    print("|---|---|---:|---|---:|")
    are_within = []
    held: dict[str, list[bool]] = {design: [] for design in DESIGNS}
    for name in SETTINGS:
        for design in DESIGNS:
            rows = [block[design][name] for block in blocks if name in block.get(design, ())]
            if not rows:
                continue
            mean = math.exp(np.mean([math.log(ratio) for ratio, _, _ in rows]))
            truth = 1.0 if name == TWIN else mean
            holds = [bool(low <= truth <= high) for _, low, high in rows]
            held[design] += holds
            bias = ""
            if design != "fresh":
                low, middle, high = low_middle_high(blocks, name, design)
                are_within.append(abs(middle - 1) <= MOST_BIAS)
                bias = f"{middle:.3f} ({low:.3f} to {high:.3f})"
            print(f"| `{name}` | {design} | {mean:.3f}x | {bias} | {sum(holds)} of {len(holds)} |")
    print("\n| design | intervals | hold the truth | Clopper and Pearson, 95 % |\n|---|---:|---:|---|")
    for design, holds in held.items():
        if not holds:
            continue
        exact = stats.binomtest(sum(holds), len(holds)).proportion_ci(0.95, "exact")
        are_within.append(bool(exact.high >= LEVEL))
        share = f"{sum(holds) / len(holds):.1%}"
        print(f"| {design} | {len(holds)} | {share} | {exact.low:.1%} to {exact.high:.1%} |")
    return all(are_within)


def low_middle_high(blocks: list[dict[str, Any]], name: str, design: str) -> tuple[float, float, float]:
    """The design's ratio over that of servers of its own, with the ends of its 90 % interval."""
    return ends(np.log([block[design][name][0] / block["fresh"][name][0] for block in blocks]))


if __name__ == "__main__":
    sys.exit(main())
