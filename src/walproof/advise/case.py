"""What a rule looks at: one cell with its trials, its mean metrics and those of its baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from walproof.advise.finding import Finding, FindingKind
from walproof.analysis.effect import Effect
from walproof.analysis.summary import Analysis
from walproof.facts import Cell, Plan, Trial, TrialState, Variant

_WAIT = "wait_share."


@dataclass(frozen=True, slots=True)
class Case:
    """One cell of a run, as the rules see it."""

    plan: Plan
    analysis: Analysis
    trials: tuple[Trial, ...]
    """The trials of the whole run."""
    cell: Cell
    variant: Variant
    finished: tuple[Trial, ...]
    """The cell's finished trials."""
    mean: Mapping[str, float]
    """Mean metrics over ``finished``."""
    baseline_mean: Mapping[str, float]
    """The same of the baseline's cell: equal to ``mean`` for the baseline itself."""
    effect: Effect | None
    """None for the baseline itself."""

    @property
    def waits(self) -> Mapping[str, float]:
        """Wait event -> share of active-backend samples, the largest first."""
        found = {name.removeprefix(_WAIT): v for name, v in self.mean.items() if name.startswith(_WAIT)}
        return dict(sorted(found.items(), key=lambda pair: -pair[1]))

    def find(
        self,
        kind: FindingKind,
        sentence: str,
        metrics: Mapping[str, float],
        trials: Sequence[int] | None = None,
    ) -> Finding:
        """A finding about this cell, resting on its finished trials or on those given."""
        if trials is None:
            trials = [trial.number for trial in self.finished]
        return Finding(
            kind=kind,
            install=self.cell[0],
            workload=self.cell[1],
            variant=self.cell[2],
            durability=self.variant.durability,
            sentence=sentence,
            trials=tuple(sorted(trials)),
            metrics=dict(metrics),
        )

    def numbers(self, workloads: Sequence[str], variants: Sequence[str]) -> list[int]:
        """Numbers of the finished trials of these workloads and variants on the cell's install."""
        return [
            trial.number
            for trial in self.trials
            if trial.state is TrialState.DONE
            and trial.install == self.cell[0]
            and trial.workload in workloads
            and trial.variant in variants
        ]

    def pick(self, *names: str) -> dict[str, float]:
        """Those of the named mean metrics that exist."""
        return {name: self.mean[name] for name in names if name in self.mean}


def pair_numbers(effect: Effect) -> list[int]:
    """Numbers of the trials of both sides that an effect rests on."""
    return [number for pair in effect.ratios for number in (pair.trial, pair.baseline_trial)]


def cases(plan: Plan, trials: Sequence[Trial], analysis: Analysis) -> tuple[Case, ...]:
    """One case per cell of the plan, in its order."""
    done: dict[Cell, list[Trial]] = {cell: [] for cell in plan.cells}
    for trial in trials:
        if trial.state is TrialState.DONE and trial.cell in done:
            done[trial.cell].append(trial)
    means = {cell: mean_metrics(cell_trials) for cell, cell_trials in done.items()}
    return tuple(
        Case(
            plan=plan,
            analysis=analysis,
            trials=tuple(trials),
            cell=cell,
            variant=plan.variant(cell[2]),
            finished=tuple(cell_trials),
            mean=means[cell],
            baseline_mean=means[Cell(cell[0], cell[1], plan.baseline)],
            effect=analysis.effect(*cell),
        )
        for cell, cell_trials in done.items()
    )


def mean_metrics(trials: Sequence[Trial]) -> dict[str, float]:
    """Mean of each metric over the trials that have it.

    A wait event is stored only where it was seen, so a trial that sampled waits at all counts as 0 for
    the events that it did not see.
    """
    names = dict.fromkeys(name for trial in trials for name in trial.metrics)
    means = {}
    for name in names:
        if name.startswith(_WAIT):
            values = [
                trial.metrics.get(name, 0.0)
                for trial in trials
                if any(other.startswith(_WAIT) for other in trial.metrics)
            ]
        else:
            values = [trial.metrics[name] for trial in trials if name in trial.metrics]
        means[name] = fmean(values)
    return means
