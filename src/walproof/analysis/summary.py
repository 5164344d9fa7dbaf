"""All questions at once: what a report is made from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from walproof.analysis.carry_over import CarryOver, WindowPlace, carry_overs, places_of
from walproof.analysis.cells import Absolute, absolute
from walproof.analysis.drift import Drift, measure_drift
from walproof.analysis.effect import Effect, effects, install_effects
from walproof.analysis.factors import FactorModel, factor_models
from walproof.analysis.interval import LEVEL
from walproof.analysis.lock import CommitLock, commit_lock
from walproof.analysis.precision import RoundsNeeded, rounds_table
from walproof.analysis.rounds import rounds_of
from walproof.analysis.toggled import by_variant
from walproof.facts import Cell, Design, Plan, Trial, TrialState


@dataclass(frozen=True, slots=True)
class Failure:
    """The failed trials of one cell that failed for the same reason."""

    install: str
    workload: str
    variant: str
    reason: str
    trials: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Unanswered:
    """A question that the facts do not answer, and why."""

    question: str
    reason: str


@dataclass(frozen=True, slots=True)
class EffectPrecision:
    """How many more rounds one effect needs, for a few half-widths."""

    cell: Cell
    baseline: Cell
    needed: tuple[RoundsNeeded, ...]


@dataclass(frozen=True, slots=True)
class Analysis:
    """What the trials of a run say about one metric. Plain values: JSON after ``dataclasses.asdict``
    with each enum replaced by its value."""

    metric: str
    level: float
    """Level of every interval."""
    rounds: int
    """Rounds that hold at least one trial."""
    trials: int
    """Stored trials, failed ones included."""
    failed: int
    absolute: tuple[Absolute, ...]
    effects: tuple[Effect, ...]
    install_effects: tuple[Effect, ...]
    precision: tuple[EffectPrecision, ...]
    """One entry per effect and install effect, in that order."""
    drift: Drift
    factors: tuple[FactorModel, ...]
    locks: tuple[CommitLock, ...]
    failures: tuple[Failure, ...]
    unanswered: tuple[Unanswered, ...]
    carry_overs: tuple[CarryOver, ...] = ()
    """Carry-overs of variants that are toggled on one server."""
    places: tuple[WindowPlace, ...] = ()
    """Where after the checkpoint slices and windows lie, by design."""

    def effect(self, install: str, workload: str, variant: str) -> Effect | None:
        """The effect of that variant against the baseline; None for the baseline itself."""
        return next((e for e in self.effects if e.cell == (install, workload, variant)), None)


def analyse(plan: Plan, trials: Sequence[Trial], metric: str = "tps") -> Analysis:
    """Answer every question about a metric from the trials of one run, whole or interrupted.

    Raises AnalysisError when a round holds a cell twice (trials of two runs).
    """
    found, across = effects(plan, trials, metric), install_effects(plan, trials, metric)
    fresh = [trial for trial in trials if plan.variant(trial.variant).design is Design.FRESH]
    of_one_design = plan.slices_all and None in (plan.toggling, plan.slicing)
    compared = by_variant(plan, trials) if of_one_design else fresh
    locks = [(install.label, commit_lock(plan, compared, install.label)) for install in plan.installs]
    return Analysis(
        metric=metric,
        level=LEVEL,
        rounds=len(rounds_of(trials)),
        trials=len(trials),
        failed=sum(trial.state is TrialState.FAILED for trial in trials),
        absolute=absolute(plan, by_variant(plan, trials), metric),
        effects=found,
        install_effects=across,
        precision=tuple(EffectPrecision(e.cell, e.baseline, rounds_table(e)) for e in (*found, *across)),
        drift=measure_drift(plan, fresh, metric),
        factors=factor_models(plan, trials, metric),
        locks=tuple(lock for _, lock in locks if isinstance(lock, CommitLock)),
        failures=_failures(trials),
        unanswered=tuple(
            Unanswered(f"lock or disk ({label})", lock) for label, lock in locks if isinstance(lock, str)
        ),
        carry_overs=carry_overs(plan, trials, metric),
        places=places_of(plan, trials),
    )


def _failures(trials: Sequence[Trial]) -> tuple[Failure, ...]:
    grouped: dict[tuple[Cell, str], list[int]] = {}
    for trial in trials:
        if trial.state is TrialState.FAILED:
            grouped.setdefault((trial.cell, trial.reason or "no reason stored"), []).append(trial.number)
    return tuple(Failure(*cell, reason, tuple(numbers)) for (cell, reason), numbers in grouped.items())
