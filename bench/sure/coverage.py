"""Do intervals hold what they say? Simulated runs of all kinds of noise, single intervals and families.

A row a scenario: how often a 95 % interval of a ratio holds the truth, over all ratios and for the ratio that
fares worst, in how many runs nothing was called different where nothing differs, and how wide intervals are
relative to paired t intervals of each variant alone. No server.

    PYTHONPATH=. python bench/sure/coverage.py [--runs 20000] [--seed 1] [--design 7,3]
"""

from __future__ import annotations

import argparse

from tests.analysis.inference.simulated import outcome, scenarios

DESIGNS = ((2, 3), (3, 3), (4, 3), (7, 3), (7, 5), (6, 10))
"""(cells with the baseline, rounds)."""


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--design", metavar="CELLS,ROUNDS", help="only that one: 7,3")
    given = parser.parse_args()
    designs = [tuple(map(int, given.design.split(",")))] if given.design else DESIGNS
    print("| cells | rounds | noise | coverage | worst ratio | families | width |")
    print("|---|---|---|---|---|---|---|")
    for cells, rounds in designs:
        for scenario in scenarios(cells, rounds):
            found = outcome(scenario, given.runs, given.seed)
            print(
                f"| {cells} | {rounds} | {scenario.name} | {found.coverage:.1%} | {found.worst:.1%} "
                f"| {found.family:.1%} | {found.width:.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
