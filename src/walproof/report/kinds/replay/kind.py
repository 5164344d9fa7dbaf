"""A study of replay, offline."""

from __future__ import annotations

from collections.abc import Sequence

from walproof.analysis.summary import analyse
from walproof.facts import Plan, Replay, ReplayConditions, Run, Series, Trial, Variant, Workload
from walproof.report.kind import ReportKind
from walproof.report.kinds.replay.tables import REPLAY_METRIC
from walproof.report.kinds.replay.view import replay_view
from walproof.report.layout import ReportView


class ReplayReport(ReportKind[Replay]):
    """CPU of the startup process for a row of the same load."""

    kind = Replay
    metric = REPLAY_METRIC

    def view(self, run: Run, trials: Sequence[Trial], series: Sequence[Series]) -> ReportView:
        """CPU instead of throughput."""
        return replay_view(self, run, trials, analyse(run.plan, trials, self.metric))

    def outcome(self, trial: Trial) -> str:
        """CPU of a row."""
        return f"{trial.metrics[REPLAY_METRIC]:8.2f} us of CPU a row"

    def script(self, plan: Plan, workload: Workload) -> str:
        """What made the WAL."""
        return "prepared INSERTs"

    def driven_by(self, plan: Plan) -> str:
        """The rows whose WAL is replayed."""
        replay = plan.kind_as(Replay)
        return (
            f"{replay.rows:,} rows into five partitioned tables that hold "
            f"{replay.preloaded_rows:,}, {replay.rows_per_commit} a commit, by walproof itself."
        )

    def conditions(self, variant: Variant) -> dict[str, str]:
        """What its WAL is made with and replayed under."""
        conditions = variant.conditions_as(ReplayConditions)
        said = {
            "data_checksums": ("on", conditions.checksums),
            "cache": ("cold", conditions.is_cold),
            "kernel_audit": (conditions.kernel_audit, conditions.kernel_audit != "off"),
        }
        return {name: value for name, (value, is_said) in said.items() if is_said}

    def load_lines(self, plan: Plan) -> list[str]:
        """The rows, without pgbench."""
        return ["", "load", f"  {self.driven_by(plan)}"]
