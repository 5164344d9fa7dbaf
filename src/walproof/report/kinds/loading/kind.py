"""A study of loading, offline."""

from __future__ import annotations

from collections.abc import Sequence

from walproof.analysis.summary import analyse
from walproof.facts import Load, LoadMethod, Plan, Run, Series, Trial, Variant, Workload
from walproof.report.kind import ReportKind
from walproof.report.kinds.loading.tables import LOAD_METRIC
from walproof.report.kinds.loading.view import load_view
from walproof.report.layout import ReportView


class LoadingReport(ReportKind[Load]):
    """Rows a second until the table is complete."""

    kind = Load
    metric = LOAD_METRIC

    def view(self, run: Run, trials: Sequence[Trial], series: Sequence[Series]) -> ReportView:
        """Rows a second until the table is complete."""
        return load_view(self, run, trials, analyse(run.plan, trials, self.metric))

    def outcome(self, trial: Trial) -> str:
        """Rows a second."""
        return f"{trial.metrics[LOAD_METRIC]:10,.0f} complete rows/s"

    def script(self, plan: Plan, workload: Workload) -> str:
        """Where the rows go."""
        return f"rows into {plan.kind_as(Load).table}"

    def driven_by(self, plan: Plan) -> str:
        """Where the rows come from."""
        load = plan.kind_as(Load)
        source = "generated from the seed" if load.file is None else f"from {load.file}"
        return f"{load.rows:,} rows into {load.table}, {source}; clients are walproof's own processes."

    def method(self, variant: Variant) -> str | None:
        """How the rows get there."""
        method = variant.conditions_as(LoadMethod)
        if method == LoadMethod():
            return None
        parts: list[str] = [method.feed]
        if method.batch_rows:
            parts.append(f"{method.batch_rows:,} rows a batch")
        if method.sessions > 1:
            parts.append(f"{method.sessions} sessions")
        if method.rows_most:
            parts.append(f"{method.rows_most:,} rows at most")
        return ", ".join([*parts, *method.steps])

    def load_lines(self, plan: Plan) -> list[str]:
        """Rows and table."""
        load = plan.kind_as(Load)
        source = "generated" if load.file is None else load.file
        lines = ["", "load", f"  {load.rows:,} rows into {load.table}, {source}"]
        return lines + ([f"  which holds {load.filled:,} rows"] if load.filled else [])
