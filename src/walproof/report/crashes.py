"""Figures of a study whose servers are killed: how long each is away, and what it writes for that."""

from __future__ import annotations

from collections.abc import Sequence

from walproof.analysis import PredictedCrash
from walproof.report.cells import Cells
from walproof.report.figures.measured import MeasuredData, MeasuredPanel, MeasuredRow, measured_data

_MEGABYTE = 1e6


def away_data(cells: Cells, predicted: Sequence[PredictedCrash]) -> MeasuredData | None:
    """Seconds until connections are accepted; None for a study without crashes."""
    crash = cells.plan.crash
    if crash is None:
        return None
    away = {(one.install, one.workload, one.variant): one.away_s for one in predicted}
    metrics = {"warm cache": "recovery_s"}
    if crash.cold:
        metrics["cold cache"] = "recovery_cold_s"
    if crash.iops is not None:
        metrics[f"cold, {crash.iops:,} reads a second"] = "recovery_limited_s"
    return _data(cells, "time until connections are accepted", "s", metrics, 1, away)


def written_data(cells: Cells) -> MeasuredData | None:
    """WAL of the load, measured and predicted from the baseline's; None where it was not recorded."""
    predicted = {}
    for install, workload in cells.groups():
        for variant in cells.variants():
            source = (install, workload, cells.plan.baseline)
            found = cells.median(source, f"predicted_wal_bytes.{variant.name}")
            if found is not None:
                predicted[(install, workload, variant.name)] = found / _MEGABYTE
    return _data(cells, "WAL of the load", "MB", {"measured": "recorded_wal_bytes"}, _MEGABYTE, predicted)


def _data(
    cells: Cells,
    axis: str,
    unit: str,
    metrics: dict[str, str],
    divisor: float,
    predicted: dict[tuple[str, str, str], float],
) -> MeasuredData | None:
    panels = []
    for install, workload in cells.groups():
        rows = []
        for variant in cells.variants():
            cell = (install, workload, variant.name)
            values = [cells.values(cell, metric) for metric in metrics.values()]
            rows.append(
                MeasuredRow(
                    variant.name,
                    variant.durability,
                    tuple(tuple(value / divisor for value in own) for own in values),
                    predicted.get(cell),
                )
            )
        panels.append(MeasuredPanel(cells.group_title(install, workload), tuple(rows)))
    return measured_data(axis, unit, tuple(metrics), panels)
