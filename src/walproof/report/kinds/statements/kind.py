"""A study of statements, offline."""

from __future__ import annotations

from collections.abc import Sequence

from walproof.analysis.summary import analyse
from walproof.facts import Plan, Run, Series, Statements, Trial, Workload
from walproof.report.kind import ReportKind
from walproof.report.kinds.statements.view import statement_view
from walproof.report.layout import ReportView


class StatementsReport(ReportKind[Statements]):
    """Bytes of WAL, statement by statement."""

    kind = Statements
    metric = "wal_bytes_decoded"

    def view(self, run: Run, trials: Sequence[Trial], series: Sequence[Series]) -> ReportView:
        """Bytes instead of throughput."""
        return statement_view(self, run, trials, analyse(run.plan, trials, self.metric))

    def outcome(self, trial: Trial) -> str:
        """Bytes of all statements."""
        return f"{trial.metrics['wal_bytes_decoded']:10,.0f} bytes of WAL"

    def script(self, plan: Plan, workload: Workload) -> str:
        """How many there are."""
        return f"{len(workload.statements)} statements"

    def driven_by(self, plan: Plan) -> str:
        """One by one."""
        return "Each statement is measured by itself, on a quiet server, by walproof itself."

    def workload_line(self, workload: Workload, plan: Plan) -> str:
        """How many there are."""
        return f"{workload.name}: {len(workload.statements)} statements, each measured apart"
