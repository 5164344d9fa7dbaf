"""Figures of a study whose servers are killed: how long each is away, and what it wrote before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from walproof.analysis.crashes import PredictedCrash
from walproof.facts import Cell, Crash
from walproof.report.cells import Cells
from walproof.report.kinds.throughput.measured import MeasuredData, MeasuredPanel, MeasuredRow, measured_data

_MEGABYTE = 1 << 20
"""As the table beside the chart has it."""


@dataclass(frozen=True, slots=True)
class MoreRecovery:
    """A recovery of the same crash without the page cache."""

    prefix: str
    """``recovery_PREFIX_redo_s`` and so on are its metrics."""
    label: str
    after: str
    """After what it is, in a sentence about the time until connections are accepted."""
    note: str


def more_recoveries(crash: Crash) -> tuple[MoreRecovery, ...]:
    """Further recoveries in addition to the warm one, in the order of columns."""
    found = []
    if crash.cold:
        note = '"cold": nothing in the page cache, as after a reboot'
        found.append(MoreRecovery("cold", "cold cache", "with a cold page cache", note))
    if crash.iops is not None:
        note = f'"limited": cold, and the kernel lets the server do {crash.iops:,} reads a second'
        reads = f"{crash.iops:,} reads a second"
        found.append(MoreRecovery("limited", f"cold, {reads}", f"with a cold page cache and {reads}", note))
    if crash.power_cut:
        note = '"cut": cold, and the files have only what was flushed, as after a power cut'
        found.append(MoreRecovery("cut", "after a power cut", "as after a power cut", note))
    return tuple(found)


def away_data(cells: Cells, predicted: Sequence[PredictedCrash]) -> MeasuredData | None:
    """Seconds until connections are accepted; None for a study without crashes."""
    crash = cells.plan.kind.added_crash
    if crash is None:
        return None
    away = {Cell(crash.install, crash.workload, crash.variant): crash.away_s for crash in predicted}
    metrics = {"warm cache": "recovery_s"}
    metrics |= {more.label: f"recovery_{more.prefix}_s" for more in more_recoveries(crash)}
    return _data(cells, "time until connections are accepted", "s", metrics, 1, away)


def written_data(cells: Cells) -> MeasuredData | None:
    """WAL of the load, measured and predicted from the baseline's; None where it was not recorded."""
    predicted = {}
    for install, workload in cells.groups():
        for variant in cells.variants():
            source = Cell(install, workload, cells.plan.baseline)
            found = cells.median(source, f"predicted_wal_bytes.{variant.name}")
            if found is not None:
                predicted[Cell(install, workload, variant.name)] = found / _MEGABYTE
    return _data(cells, "WAL of the load", "MB", {"measured": "recorded_wal_bytes"}, _MEGABYTE, predicted)


def _data(
    cells: Cells,
    axis: str,
    unit: str,
    metrics: dict[str, str],
    divisor: float,
    predicted: dict[Cell, float],
) -> MeasuredData | None:
    panels = []
    for install, workload in cells.groups():
        rows = []
        for variant in cells.variants():
            cell = Cell(install, workload, variant.name)
            values = [cells.values(cell, metric) for metric in metrics.values()]
            rows.append(
                MeasuredRow(
                    variant.name,
                    variant.durability,
                    tuple(tuple(value / divisor for value in values_of_cache) for values_of_cache in values),
                    predicted.get(cell),
                )
            )
        panels.append(MeasuredPanel(cells.group_title(install, workload), tuple(rows)))
    return measured_data(axis, unit, tuple(metrics), panels)
