r"""Do intervals of toggled slices hold 1 where variants differ in nothing? From a run's stored slices.

    walproof compare --set synchronous_commit=on --set commit_delay=0 --set wal_compression=off \
        --rounds 12 --out same
    python bench/sure/toggled_coverage.py same

Each value is the default's, so every pair of variants is the same server under another name. As many
whole starts as a study would have are drawn, none twice (its slices would count twice), and each pair's
interval is asked whether it holds 1: by the number of starts and by how many passes make a group. Draws share
starts and pairs share slices, so the share that holds 1 is less sure than its count says.
"""

from __future__ import annotations

import random
import sys
from itertools import combinations
from pathlib import Path
from statistics import fmean, median

from walproof.analysis.toggled import GROUP_PASSES, estimate
from walproof.facts import Slice, Variant
from walproof.facts.store import Store
from walproof.settings.catalogue import Catalogue

STARTS = (1, 2, 4)
GROUPS = (1, 2, GROUP_PASSES, 8, 10)
DRAWS = 100

Start = dict[str, list[Slice]]
"""Variant -> its slices."""


def main() -> None:
    """Print a line for each number of starts and length of a group."""
    store = Store(Path(sys.argv[1]) / "walproof.sqlite")
    run = store.run(sys.argv[2] if len(sys.argv) > 2 else "last")
    trials = store.trials(run.id)
    store.close()
    catalogue = Catalogue.for_version(run.plan.installs[0].version_num)
    same = [variant.name for variant in run.plan.toggled if _is_default(variant, catalogue)]
    starts: list[Start] = [
        {name: [slice_ for slice_ in trial.slices if slice_.variant == name] for name in same}
        for trial in trials
        if trial.slices
    ]
    print(f"{run.id}: {len(starts)} starts; the same server as {', '.join(same)}")
    print(f"{'starts':>6} {'passes a group':>14} {'hold 1':>8} {'half-width, median':>19}")
    for count in STARTS:
        for group in GROUPS:
            held, widths = _drawn(starts, same, count, group)
            print(f"{count:>6} {group:>14} {fmean(held):>8.1%} {median(widths):>19.1%}")


def _is_default(variant: Variant, catalogue: Catalogue) -> bool:
    return all(
        catalogue.normalise(name, value) == catalogue.normalise(name, catalogue.get(name).boot)
        for name, value in variant.settings.items()
    )


def _drawn(starts: list[Start], same: list[str], count: int, group: int) -> tuple[list[bool], list[float]]:
    """For drawn starts: whether each interval holds 1, and its half-width."""
    draw = random.Random(f"{count}/{group}")
    held, widths = [], []
    for _ in range(DRAWS):
        chosen = draw.sample(starts, count)
        for first, second in combinations(same, 2):
            seen = estimate([(start[first], start[second]) for start in chosen], "tps", group_passes=group)
            if seen is not None and seen.log_interval is not None:
                held.append(seen.log_interval.contains(0.0))
                widths.append((seen.log_interval.high - seen.log_interval.low) / 2)
    return held, widths


if __name__ == "__main__":
    main()
