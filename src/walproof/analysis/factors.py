"""What does each factor do, and do factors help each other? Main effects and two-way interactions.

A linear model of log(metric): one mean per round, a term per factor, a term per pair of factors. Levels
are coded so that a main effect is the ratio of a level to the reference level, averaged over the levels
of all other factors, and an interaction is a ratio of ratios: how much larger a's effect is where b is at
its level than where b is at its reference.

A fraction of a factorial cannot tell some terms apart. Of such terms only the lower-order one is fitted,
and it says in ``aliases`` what else its figure holds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, TypeAlias

from walproof.analysis.comparisons import adjust_p_values
from walproof.analysis.interval import LEVEL, Interval, t_p_value, t_quantile
from walproof.analysis.rounds import positive_metric
from walproof.facts import Plan, Trial

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Matrix: TypeAlias = NDArray[np.float64]

Levels: TypeAlias = Mapping[str, str]
Contrast: TypeAlias = tuple[str, ...]
"""One level per factor of a term."""


@dataclass(frozen=True, slots=True)
class FactorTerm:
    """One contrast of the model: a level of one factor, or a pair of levels of two."""

    factors: tuple[str, ...]
    """One name for a main effect, two for an interaction."""
    levels: tuple[str, ...]
    references: tuple[str, ...]
    """What the levels are compared with: each factor's first level."""
    ratio: float
    """Of the metric (one factor), or ratio of two such ratios (two factors)."""
    interval: Interval | None
    """None when no trials are left over to judge the spread by."""
    p: float | None
    p_holm: float | None
    """Adjusted for all terms of the model."""
    aliases: tuple[str, ...]
    """Terms that the design cannot tell from this one, for instance ``fsync*wal_level``."""

    @property
    def name(self) -> str:
        """``fsync`` or ``fsync*wal_level``."""
        return "*".join(self.factors)


@dataclass(frozen=True, slots=True)
class Unfitted:
    """A term that the model does not hold, and why."""

    factors: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class FactorModel:
    """The fitted model of one install and workload."""

    metric: str
    install: str
    workload: str
    n: int
    """Trials used."""
    left_out: int
    """Trials that failed or have no such metric."""
    degrees: int
    """Trials left over, after the terms, to judge the spread by."""
    residual_sd: float | None
    """Standard deviation of what the model leaves, as a share (0.05 is 5 %)."""
    terms: tuple[FactorTerm, ...]
    unfitted: tuple[Unfitted, ...]


def factor_models(plan: Plan, trials: Sequence[Trial], metric: str = "tps") -> tuple[FactorModel, ...]:
    """One model per install and workload; empty when the plan has no factors or no usable trial."""
    cells = {v.name: v.levels for v in plan.variants if set(v.levels) >= set(plan.factors)}
    if not plan.factors or not cells:
        return ()
    models = []
    for install in plan.installs:
        for workload in plan.workloads:
            of_group = [
                trial
                for trial in trials
                if trial.variant in cells and trial.cell[:2] == (install.label, workload.name)
            ]
            rows = [
                (cells[trial.variant], trial.round, math.log(value))
                for trial in of_group
                if (value := positive_metric(trial, metric)) is not None
            ]
            if rows:
                fitted = _fit(plan.factors, tuple(cells.values()), rows)
                models.append(
                    FactorModel(
                        metric, install.label, workload.name, len(rows), len(of_group) - len(rows), *fitted
                    )
                )
    return tuple(models)


def _fit(
    factors: Mapping[str, Sequence[str]],
    design: Sequence[Levels],
    rows: Sequence[tuple[Levels, int, float]],
) -> tuple[int, float | None, tuple[FactorTerm, ...], tuple[Unfitted, ...]]:
    import numpy as np

    chosen, unfitted, aliases = _choose_terms(factors, design)
    observed = [row[0] for row in rows]
    rounds = sorted({row[1] for row in rows})
    columns = [np.array([float(row[1] == number) for row in rows]) for number in rounds]
    labels: list[tuple[tuple[str, ...], Contrast]] = []
    rank = len(columns)
    for term in chosen:
        added = _columns(factors, term, observed)
        grown = columns + [column for _, column in added]
        # Failed trials can take a whole level away, which the design alone does not show.
        if _rank(np.column_stack(grown)) < rank + len(added):
            unfitted.append(Unfitted(term, "the trials that could tell it failed"))
            continue
        columns, rank = grown, rank + len(added)
        labels += [(term, contrast) for contrast, _ in added]
    x, y = np.column_stack(columns), np.array([row[2] for row in rows])
    beta = np.linalg.lstsq(x, y, rcond=None)[0]
    degrees = len(y) - rank
    rest = y - x @ beta
    variance = float(rest @ rest) / degrees if degrees > 0 else None
    inverse = np.linalg.inv(x.T @ x)
    terms = []
    for index, (term, contrast) in enumerate(labels, start=len(rounds)):
        estimate = float(beta[index])
        interval, p = _judge(estimate, variance, float(inverse[index, index]), degrees)
        terms.append(
            FactorTerm(
                factors=term,
                levels=contrast,
                references=tuple(factors[name][0] for name in term),
                ratio=math.exp(estimate),
                interval=interval,
                p=p,
                p_holm=None,
                aliases=aliases.get(term, ()),
            )
        )
    adjusted = adjust_p_values([term.p for term in terms])
    return (
        degrees,
        math.sqrt(variance) if variance is not None else None,
        tuple(replace(term, p_holm=p) for term, p in zip(terms, adjusted, strict=True)),
        tuple(unfitted),
    )


def _judge(
    estimate: float, variance: float | None, leverage: float, degrees: int
) -> tuple[Interval | None, float | None]:
    """Interval of the ratio and p value of "the ratio is 1"."""
    if variance is None:
        return None, None
    error = math.sqrt(variance * leverage)
    reach = t_quantile(LEVEL, degrees) * error
    p = t_p_value(estimate / error, degrees) if error > 0 else float(estimate == 0)
    return Interval(estimate - reach, estimate + reach, LEVEL, "t").exp(), p


def _choose_terms(
    factors: Mapping[str, Sequence[str]], design: Sequence[Levels]
) -> tuple[list[tuple[str, ...]], list[Unfitted], dict[tuple[str, ...], tuple[str, ...]]]:
    """(terms to fit, terms not to fit, aliases of the fitted ones), from the cells of the design alone."""
    import numpy as np

    fitted: dict[tuple[str, ...], Matrix] = {}
    unfitted: list[Unfitted] = []
    aliases: dict[tuple[str, ...], list[str]] = {}
    base = np.ones((len(design), 1))
    for term in [(name,) for name in factors] + list(combinations(factors, 2)):
        added = _columns(factors, term, design)
        if not added:
            unfitted.append(Unfitted(term, "the design holds one level of it"))
            continue
        block = np.column_stack([column for _, column in added])
        block = block - block.mean(axis=0)
        kin = [other for other, matrix in fitted.items() if _overlap(block, matrix)]
        everything = np.column_stack([base, *fitted.values(), block])
        separable = _rank(everything) == _rank(everything[:, : -block.shape[1]]) + block.shape[1]
        # Main effects are fitted whenever they can be; an interaction only where nothing overlaps it,
        # since half a dozen overlapping pairs would share one another's figures at random.
        if separable and (len(term) == 1 or not kin):
            fitted[term] = block
            continue
        name = "*".join(term)
        for other in kin:
            aliases.setdefault(other, []).append(name)
        with_what = ", ".join("*".join(other) for other in kin) or "the other terms"
        unfitted.append(Unfitted(term, f"the design cannot tell it from {with_what}"))
    return list(fitted), unfitted, {term: tuple(names) for term, names in aliases.items()}


def _columns(
    factors: Mapping[str, Sequence[str]], term: tuple[str, ...], rows: Sequence[Levels]
) -> list[tuple[Contrast, Matrix]]:
    """The term's contrasts with their columns: products of (is this level) - 1 / (number of levels)."""
    import numpy as np

    contrasts: list[tuple[Contrast, Matrix]] = [((), np.ones(len(rows)))]
    for name in term:
        count = len(factors[name])
        contrasts = [
            (
                (*levels, level),
                column * np.array([float(row[name] == level) - 1 / count for row in rows]),
            )
            for levels, column in contrasts
            for level in factors[name][1:]
        ]
    return contrasts


def _overlap(a: Matrix, b: Matrix) -> bool:
    """Whether any centred column of one is correlated with any of the other."""
    import numpy as np

    return bool(np.abs(a.T @ b).max() > 1e-9)


def _rank(matrix: Matrix) -> int:
    import numpy as np

    return int(np.linalg.matrix_rank(matrix, tol=1e-9))
