r"""Do intervals of starts that were drawn from many runs hold the truth? From the runs of ``truth.py``.

    PYTHONPATH=. python bench/sure/resampled.py truth/runs --draws 1000

Whole starts (of servers of their own: whole rounds) of all runs of one design are pooled, with all their
slices. As many as a study has are drawn, none twice, and judged as that study's would be. The truth is 1
for the twin, and for the other variants what all starts of the design say together. Draws share starts, so
a share is less sure than the number of draws says.
"""

from __future__ import annotations

import argparse
import math
import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median

from bench.sure.pool import Start, pooled, put_together
from bench.sure.truth import TWIN
from walproof.analysis.effect import Effect, effects
from walproof.facts import Plan

STARTS = (2, 3, 4, 8)


def main() -> None:
    """Print a line for each design and number of starts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="+", help="--out of the runs")
    parser.add_argument("--draws", type=int, default=1000)
    given = parser.parse_args()
    print("| design | starts drawn, of | intervals that hold the truth | of the twin | half-width, median |")
    print("|---|---:|---:|---:|---:|")
    for design, (plan, starts) in pooled(given.folder).items():
        for count in STARTS:
            if count > len(starts):
                break
            print(line(design, plan, starts, count, given.draws), flush=True)


def line(design: str, plan: Plan, starts: list[Start], count: int, draws: int) -> str:
    """A row of Markdown."""
    truth = {effect.variant: math.log(effect.ratio or 1) for effect in judged(plan, starts)} | {TWIN: 0.0}
    draw = random.Random(f"{design}/{count}")
    held: dict[str, list[bool]] = defaultdict(list)
    widths = []
    for _ in range(draws):
        for effect in judged(plan, draw.sample(starts, count)):
            if effect.interval is None:
                continue
            low, high = math.log(effect.interval.low), math.log(effect.interval.high)
            held[effect.variant].append(low <= truth[effect.variant] <= high)
            widths.append((high - low) / 2)
    together = [holds for of_variant in held.values() for holds in of_variant]
    return (
        f"| {design} | {count} of {len(starts)} | {sum(together) / len(together):.1%} "
        f"| {sum(held[TWIN]) / len(held[TWIN]):.1%} | {median(widths):.1%} |"
    )


def judged(plan: Plan, starts: list[Start]) -> Sequence[Effect]:
    """What those starts say, as the rounds of one study."""
    return effects(replace(plan, rounds=len(starts)), put_together(starts), "tps")


if __name__ == "__main__":
    main()
