"""By which rule should variants share knowledge of their spread? Rules side by side, on simulated runs.

``walproof.analysis.inference.spread`` has the chosen one, "screened 0.5". A cell of the table: coverage of
95 % intervals over all ratios / of the ratio that fares worst / median width relative to paired intervals.

    paired      each ratio from its rounds alone
    common      one variance of all cells, always (two-way analysis of variance)
    apart       the baseline's variance apart, the variants' common, always (Satterthwaite)
    moderated   each ratio's variance drawn towards the common one, by as much as theirs differ (Smyth 2004)
    screened    common, apart or paired, by an F test and Bartlett's test at the level that follows

No server; seconds.

    python bench/sure/rules.py [--runs 20000] [--seed 1]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import special

Vector: TypeAlias = NDArray[np.float64]
Rules: TypeAlias = dict[str, tuple[Vector, Vector]]
"""Name -> variance of one round's ratio and its degrees of freedom, (runs, ratios) each."""

DESIGNS = ((3, 3), (4, 3), (7, 3), (7, 5), (6, 10))
"""(cells with the baseline, rounds)."""
SCREENS = (0.05, 0.25, 0.5)


def main() -> None:
    """Print a table for each design."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    chance = np.random.default_rng(given.seed)
    for cells, rounds in DESIGNS:
        table: dict[str, list[str]] = {}
        names = []
        for name, logs in scenarios(chance, (given.runs, cells, rounds)):
            names.append(name)
            for rule, text in judged(logs).items():
                table.setdefault(rule, []).append(text)
        print(f"\n{cells} cells, {rounds} rounds\n")
        print(f"| rule | {' | '.join(names)} |\n|---|{'---|' * len(names)}")
        for rule, texts in table.items():
            print(f"| {rule} | {' | '.join(texts)} |")


def scenarios(chance: np.random.Generator, shape: tuple[int, int, int]) -> Iterator[tuple[str, Vector]]:
    """Yield (name of the noise, log values); no variant differs."""
    cells = shape[1]
    yield "equal", chance.standard_normal(shape)
    yield "heavy tails", chance.standard_t(3, shape)
    for name, cell, factor in (
        ("baseline x 2", 0, 2.0), ("baseline x 3", 0, 3.0), ("baseline / 3", 0, 1 / 3),
        ("variant x 2", cells - 1, 2.0), ("variant x 3", cells - 1, 3.0), ("variant / 3", cells - 1, 1 / 3),
    ):  # fmt: skip
        logs = chance.standard_normal(shape)
        logs[:, cell] *= factor
        yield name, logs
    sizes = 2 ** np.linspace(-1, 1, cells)
    yield "from half to twice", chance.standard_normal(shape) * sizes[None, :, None]


def judged(logs: Vector) -> dict[str, str]:
    """Return rule -> coverage / worst / width."""
    ratios = logs[:, 1:] - logs[:, :1]
    means, rounds = ratios.mean(axis=2), logs.shape[2]
    found, paired = {}, 1.0
    for name, (variance, degrees) in rules(ratios).items():
        reach = special.stdtrit(degrees, 0.975) * np.sqrt(variance / rounds)
        held = np.abs(means) <= reach
        width = float(np.median(reach))
        paired = width if name == "paired" else paired
        found[name] = f"{held.mean():.1%} / {held.mean(axis=0).min():.1%} / {width / paired:.2f}"
    return found


def rules(ratios: Vector) -> Rules:
    """Intervals of each rule for log ratios of the shape (runs, ratios, rounds)."""
    count, rounds = ratios.shape[1:]
    free = rounds - 1
    of_ratio = ratios.var(axis=2, ddof=1)
    together = ratios.mean(axis=1)
    outer = together.var(axis=1, ddof=1)
    rest = ratios - together[:, None]
    squares = ((rest - rest.mean(axis=2, keepdims=True)) ** 2).sum(axis=2)
    among = squares.sum(axis=1) / ((count - 1) * free)
    inner = (1 - 1 / count) * among
    # The ratios' mean varies by the baseline's variance and an n-th of the variants'.
    common = 2 * (outer * count / (count + 1) + (count - 1) * among) / count
    apart = outer + inner
    apart_free = apart**2 / (outer**2 / free + inner**2 / ((count - 1) * free))

    def wide(values: Vector | float) -> Vector:
        return np.broadcast_to(np.asarray(values, float).reshape(-1, 1), of_ratio.shape)

    found: Rules = {
        "paired": (of_ratio, wide(float(free))),
        "common": (wide(common), wide(float(count * free))),
        "apart": (wide(apart), wide(apart_free)),
    }
    exceeds = special.fdtrc(free, (count - 1) * free, outer / (1 + 1 / count) / among)
    differ = np.ones(len(of_ratio))
    if count > 2:
        each = squares / free * count / (count - 1)
        logs = np.log(each)
        statistic = count * free * np.log(each.mean(axis=1)) - free * logs.sum(axis=1)
        differ = special.chdtrc(count - 1, statistic / (1 + (count + 1) / (3 * count * free)))
        prior = _prior_degrees(logs.var(axis=1, ddof=1) - float(special.polygamma(1, free / 2)))
        found["moderated"] = (
            (wide(prior) * wide(common) + free * of_ratio) / (wide(prior) + free),
            np.minimum(wide(prior) + free, count * free),
        )
    for level in SCREENS:
        variance = np.where(exceeds < level, apart, common)
        degrees = np.where(exceeds < level, apart_free, count * free)
        alone = wide(differ) < level
        found[f"screened {level:g}"] = (
            np.where(alone, of_ratio, wide(variance)), np.where(alone, free, wide(degrees)),
        )  # fmt: skip
    return found


def _prior_degrees(excess: Vector) -> Vector:
    """Degrees of freedom of the prior whose log variances vary by ``excess`` (Smyth 2004, section 6.2)."""
    target = np.maximum(excess, 1e-6)
    at = 0.5 + 1 / target
    for _ in range(30):
        value = special.polygamma(1, at)
        at = at + value * (1 - value / target) / special.polygamma(2, at)
    return np.where(excess > 1e-6, 2 * at, 1e6)


if __name__ == "__main__":
    main()
