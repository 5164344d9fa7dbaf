"""A study of throughput, offline."""

from __future__ import annotations

from collections.abc import Sequence

from walproof.advise.verdict import verdicts
from walproof.analysis.offered import LATENCY, offers_rates
from walproof.analysis.summary import analyse
from walproof.analysis.toggled import by_variant
from walproof.facts import Plan, Run, Series, Throughput, Trial
from walproof.report.kind import ReportKind
from walproof.report.kinds.throughput.view import throughput_view
from walproof.report.layout import ReportView


class ThroughputReport(ReportKind[Throughput]):
    """Throughput under each variant, and everything that explains it."""

    kind = Throughput
    metric = "tps"
    series = ("tps",)

    def metric_of(self, plan: Plan) -> str:
        """Throughput; mean latency where it is offered, and no result."""
        return LATENCY if offers_rates(plan) else self.metric

    def view(self, run: Run, trials: Sequence[Trial], series: Sequence[Series]) -> ReportView:
        """The report, with what a crash or a power cut after each window left."""
        analysis = analyse(run.plan, trials, self.metric_of(run.plan))
        found = verdicts(run.plan, by_variant(run.plan, trials), analysis)
        return throughput_view(self, run, trials, series, analysis, found)

    def outcome(self, trial: Trial) -> str:
        """Transactions per second; for a toggled start, under all of its variants together."""
        of = f" in {len(trial.slices)} slices" if trial.slices else ""
        return f"{trial.metrics['tps']:10,.0f} tps{of}"

    def added_lines(self, plan: Plan) -> list[str]:
        """Power cuts."""
        images = plan.kind.cut_images
        return [f"power cuts: one follows each window; {images} images of each are checked"] if images else []
