"""The trials of a run by cell, and one figure per cell: the median over its finished trials."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean, median

from walproof.facts import Cell, Plan, Trial, TrialState, Variant
from walproof.report.numbers import shown


class Cells:
    """Read-only index of a run's trials."""

    def __init__(self, plan: Plan, trials: Sequence[Trial]) -> None:
        self.plan = plan
        self._finished: dict[Cell, list[Trial]] = {cell: [] for cell in plan.cells}
        self._failed: dict[Cell, list[Trial]] = {cell: [] for cell in plan.cells}
        for trial in trials:
            if trial.state is TrialState.DONE:
                self._finished.setdefault(trial.cell, []).append(trial)
            else:
                self._failed.setdefault(trial.cell, []).append(trial)

    def groups(self) -> tuple[tuple[str, str], ...]:
        """Each (install, workload) of the plan, in order: the subject of one table or chart panel."""
        return tuple((i.label, w.name) for i in self.plan.installs for w in self.plan.workloads)

    def group_title(self, install: str, workload: str) -> str:
        """``scale 50``, or ``scale 50, PostgreSQL 18.3`` where the plan has several installs."""
        return workload if len(self.plan.installs) == 1 else f"{workload}, PostgreSQL {install}"

    def variants(self) -> tuple[Variant, ...]:
        """In the plan's order, which is the order of every table."""
        return self.plan.variants

    def variants_by_class(self) -> tuple[Variant, ...]:
        """Variants by class, the safest first; within a class in the plan's order, with the baseline
        first."""
        return tuple(
            sorted(self.plan.variants, key=lambda v: (v.durability.rank, v.name != self.plan.baseline))
        )

    def finished(self, cell: Cell) -> Sequence[Trial]:
        """Trials that ended well, in run order."""
        return self._finished.get(cell, [])

    def failed(self, cell: Cell) -> Sequence[Trial]:
        """Trials that did not, in run order."""
        return self._failed.get(cell, [])

    def values(self, cell: Cell, metric: str) -> list[float]:
        """The metric of each finished trial that has it."""
        found = (trial.metrics.get(metric) for trial in self.finished(cell))
        return [value for value in found if value is not None and math.isfinite(value)]

    def median(self, cell: Cell, metric: str) -> float | None:
        """Median over the finished trials; None if none has the metric."""
        values = self.values(cell, metric)
        return median(values) if values else None

    def shown(self, cell: Cell, metric: str) -> str:
        """That median in the form that the table of metrics sets (:func:`walproof.report.numbers.shown`)."""
        return shown(metric, self.median(cell, metric))

    def window_s(self, cell: Cell) -> float | None:
        """Median length of the measurement window in seconds."""
        lengths = [trial.window_s for trial in self.finished(cell) if trial.window_s]
        return median(lengths) if lengths else None

    def shares(self, cell: Cell, prefix: str) -> Mapping[str, float]:
        """A breakdown into shares (``wait_share.``): mean over the trials that have it, at most 1 in sum.

        A part that a trial does not name was not seen there: 0. The mean keeps the sum, a median would not.
        """
        trials = [t for t in self.finished(cell) if any(name.startswith(prefix) for name in t.metrics)]
        names = {name for trial in trials for name in trial.metrics if name.startswith(prefix)}
        return {
            name.removeprefix(prefix): fmean(trial.metrics.get(name, 0.0) for trial in trials)
            for name in sorted(names)
        }

    def parts(self, prefix: str) -> tuple[str, ...]:
        """Names after ``prefix`` of the run's metrics, the largest sum over cells first; none that is 0."""
        totals: dict[str, float] = {}
        for cell in self.plan.cells:
            names = {n for t in self.finished(cell) for n in t.metrics if n.startswith(prefix)}
            for name in names:
                part = name.removeprefix(prefix)
                totals[part] = totals.get(part, 0.0) + (self.median(cell, name) or 0.0)
        seen = [part for part, total in totals.items() if total > 0]
        return tuple(sorted(seen, key=lambda part: (-totals[part], part)))
