"""A study of a live stream, offline."""

from __future__ import annotations

from collections.abc import Sequence

from walproof.analysis.summary import analyse
from walproof.facts import Plan, Run, Series, Streaming, StreamingConditions, Trial, Variant, Workload
from walproof.report.kind import ReportKind
from walproof.report.kinds.replay.tables import REPLAY_METRIC
from walproof.report.kinds.streaming.lag import LAG_SERIES
from walproof.report.kinds.streaming.view import streaming_view
from walproof.report.layout import ReportView
from walproof.report.pair import way_of


class StreamingReport(ReportKind[Streaming]):
    """Whether standbys keep up, and what a row costs them."""

    kind = Streaming
    metric = REPLAY_METRIC
    series = LAG_SERIES

    def view(self, run: Run, trials: Sequence[Trial], series: Sequence[Series]) -> ReportView:
        """How far standbys lag, and CPU instead of throughput."""
        return streaming_view(self, run, trials, series, analyse(run.plan, trials, self.metric))

    def outcome(self, trial: Trial) -> str:
        """CPU of a row."""
        return f"{trial.metrics[REPLAY_METRIC]:8.2f} us of CPU a row"

    def script(self, plan: Plan, workload: Workload) -> str:
        """What the primary is loaded with."""
        return "prepared INSERTs"

    def driven_by(self, plan: Plan) -> str:
        """The rows of a transaction, and of the tables."""
        streaming = plan.kind_as(Streaming)
        return (
            f"Each transaction inserts {streaming.rows_per_commit} rows into five partitioned tables "
            f"that hold {streaming.preloaded_rows:,}. Driven by pgbench {plan.driver.version}."
        )

    def conditions(self, variant: Variant) -> dict[str, str]:
        """The clusters, the way between them, and the standby's share of a core."""
        conditions = variant.conditions_as(StreamingConditions)
        found = {"data_checksums": "on"} if conditions.checksums else {}
        found |= way_of(
            conditions.distance_s,
            conditions.bandwidth_bytes_per_s,
            between_hosts=conditions.between_hosts,
        )
        if conditions.replay_cpu_share < 1:
            found["replay_cpu"] = f"{conditions.replay_cpu_share * 100:g}%"
        return found

    def transaction(self, workload: Workload, plan: Plan) -> str:
        """Rows of a commit."""
        streaming = plan.kind_as(Streaming)
        return (
            f"inserts, {streaming.rows_per_commit} rows a commit into tables that hold "
            f"{streaming.preloaded_rows:,}"
        )
