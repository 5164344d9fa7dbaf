"""A study of power cuts, offline."""

from __future__ import annotations

from collections.abc import Sequence

from walproof.analysis.summary import analyse
from walproof.facts import Plan, PowerCuts, Run, Series, Trial
from walproof.report.kind import ReportKind
from walproof.report.kinds.power_cuts.view import cut_view
from walproof.report.layout import ReportView


class PowerCutsReport(ReportKind[PowerCuts]):
    """What is left after power cuts."""

    kind = PowerCuts
    metric = "cut_acknowledged"

    def view(self, run: Run, trials: Sequence[Trial], series: Sequence[Series]) -> ReportView:
        """What is left instead of throughput."""
        return cut_view(self, run, trials, analyse(run.plan, trials, self.metric))

    def outcome(self, trial: Trial) -> str:
        """The moment, and what servers made of the images."""
        if trial.cut is None:
            return ""
        states = ", ".join(f"{count} {state.value}" for state, count in trial.cut.counts.items() if count)
        return f"{trial.cut.moment}: {states}"

    def added_lines(self, plan: Plan) -> list[str]:
        """How many images."""
        return [f"power cuts: each trial is one; {plan.kind.cut_images} images of each are checked"]
