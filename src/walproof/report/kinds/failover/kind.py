"""A study of failover, offline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from walproof.advise.verdict import verdicts
from walproof.analysis.summary import analyse
from walproof.facts import Failover, FailoverConditions, Plan, Run, Series, Trial, Variant, Workload
from walproof.report.blocks import Section
from walproof.report.cells import Cells
from walproof.report.kind import ReportKind
from walproof.report.kinds.failover.tables import failover_answers, failover_tables
from walproof.report.kinds.throughput.view import throughput_view
from walproof.report.layout import ReportView
from walproof.report.pair import network_tables, way_of
from walproof.units import format_duration


class FailoverReport(ReportKind[Failover]):
    """What a failover loses, and what waiting for a standby costs."""

    kind = Failover
    metric = "tps"
    series = ("tps",)

    def view(self, run: Run, trials: Sequence[Trial], series: Sequence[Series]) -> ReportView:
        """The report of throughput, after what was lost."""
        analysis = analyse(run.plan, trials, self.metric)
        cells = Cells(run.plan, trials)
        lost = Section("failover", "What a failover loses", (*failover_tables(cells), *network_tables(cells)))
        found = verdicts(run.plan, trials, analysis)
        view = throughput_view(self, run, trials, series, analysis, found, first=(lost,))
        told = failover_answers(cells)
        return replace(
            view,
            answers=tuple(
                replace(answer, sentences=(*told.get(answer.title, ()), *answer.sentences))
                for answer in view.answers
            ),
        )

    def outcome(self, trial: Trial) -> str:
        """Transactions a second of the ledger."""
        return f"{trial.metrics['tps']:10,.0f} tps"

    def script(self, plan: Plan, workload: Workload) -> str:
        """The ledger, whatever the workload."""
        return "ledger"

    def driven_by(self, plan: Plan) -> str:
        """The ledger's sessions."""
        return f"A ledger in {plan.kind_as(Failover).sessions} sessions, by walproof itself."

    def conditions(self, variant: Variant) -> dict[str, str]:
        """The standbys, the way to them, and their disk."""
        found = variant.conditions_as(FailoverConditions)
        said = way_of(found.distance_s, found.bandwidth_bytes_per_s, between_hosts=found.between_hosts)
        if found.standbys != "one":
            said["standbys"] = found.standbys
        if found.standby_device is not None:
            said["standby_device"] = found.standby_device
        return said

    def load_lines(self, plan: Plan) -> list[str]:
        """The ledger, and then the failover."""
        failover = plan.kind_as(Failover)
        length = format_duration(failover.load_s)
        return ["", "load", f"  a ledger in {failover.sessions} sessions for {length}, then a failover"]
