"""A study of backup, offline."""

from __future__ import annotations

from collections.abc import Sequence

from walproof.analysis.summary import analyse
from walproof.facts import Plan, Run, Series, Trial, Variant
from walproof.facts.kinds import Backup, BackupConditions
from walproof.report.kind import ReportKind
from walproof.report.kinds.backup.tables import BACKUP_METRIC
from walproof.report.kinds.backup.view import backup_view
from walproof.report.layout import ReportView
from walproof.report.numbers import number, size
from walproof.units import format_bytes, format_duration


class BackupReport(ReportKind[Backup]):
    """What a base backup costs the load, how large it is, and how long until its server is back."""

    kind = Backup
    metric = BACKUP_METRIC
    series = ("tps",)

    def view(self, run: Run, trials: Sequence[Trial], series: Sequence[Series]) -> ReportView:
        """Variants are compared by the time until a server is back."""
        return backup_view(self, run, trials, series, analyse(run.plan, trials, self.metric))

    def outcome(self, trial: Trial) -> str:
        """Time until back, and the size of the backup."""
        metrics = trial.metrics
        return f"{number(metrics[BACKUP_METRIC]):>8} s until back, {size(metrics['backup_bytes'])}"

    def driven_by(self, plan: Plan) -> str:
        """The load: pgbench and the ledger."""
        after = format_duration(plan.kind_as(Backup).after_s)
        return (
            f"Driven by pgbench {plan.driver.version}, beside a ledger by walproof itself. The window is "
            f"that of the load before the backup; it goes on for {after} after it."
        )

    def conditions(self, variant: Variant) -> dict[str, str]:
        """How its backup is taken."""
        conditions = variant.conditions_as(BackupConditions)
        rate = conditions.rate_bytes_per_s
        said = {
            "mode": (conditions.mode, conditions.mode != "full"),
            "checkpoint": (conditions.checkpoint, conditions.checkpoint != "fast"),
            "compress": (conditions.compress, conditions.compress != "none"),
            "rate": ("" if rate is None else f"{format_bytes(rate)}/s", rate is not None),
            "load": ("off", not conditions.is_loaded),
        }
        return {name: value for name, (value, is_said) in said.items() if is_said}

    def added_lines(self, plan: Plan) -> list[str]:
        """What comes after the load before the backup."""
        after = format_duration(plan.kind_as(Backup).after_s)
        return [
            f"  then a base backup, {after} more of the load beside a ledger, and a restore to that moment"
        ]
