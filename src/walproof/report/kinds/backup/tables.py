"""The tables of a study of backup: what it costs the load, how large it is, how long until back."""

from __future__ import annotations

from functools import partial

from walproof.analysis.summary import Analysis
from walproof.facts import Cell
from walproof.report.blocks import Block, Column, TableCell, class_cell, text_cells, without_empty_columns
from walproof.report.cells import Cells
from walproof.report.variants import compared, variant_table, variant_tables

BACKUP_METRIC = "back_s"
"""What variants are compared by."""

_COLUMNS = (
    Column("variant"),
    Column("durability class", terminal=False),
    Column("tps before", numeric=True),
    Column("tps during", numeric=True),
    Column("kept", numeric=True),
    Column("backup s", numeric=True),
    Column("size", numeric=True),
    Column("until back s", numeric=True),
    Column("ratio to baseline", numeric=True),
    Column("trials", numeric=True, terminal=False),
)
_NOTE = (
    "Medians over trials; the ratio is of the time until back, the geometric mean of ratios within rounds. "
    "Before, during: the load's throughput before the backup and while it was taken; kept: the second as a "
    "share of the first in each trial, and the median of these shares, which need not be that of the two "
    "medians. Size: of the files of the backup; of an incremental one, without the full one before it. Until "
    "back: until a restored server accepts writes at a moment after the backup."
)
_LOAD = (
    Column("variant"),
    Column("durability class", terminal=False),
    Column("p99 ms before", numeric=True),
    Column("p99 ms during", numeric=True),
    Column("WAL written during", numeric=True),
    Column("WAL archived during", numeric=True),
    Column("WAL needed", numeric=True),
    Column("WAL summaries", numeric=True),
)
_LOAD_NOTE = (
    "Needed: from the redo point of the backup to its end, without which it cannot be restored. Archived: "
    "whole segments, of which the end of a backup completes one. Summaries: what summarize_wal had written "
    "when an incremental backup had been taken."
)
_BACK = (
    Column("variant"),
    Column("durability class", terminal=False),
    Column("full before it", numeric=True),
    Column("restore s", numeric=True),
    Column("combine s", numeric=True),
    Column("recovery s", numeric=True),
    Column("WAL replayed", numeric=True),
    Column("verify s", numeric=True),
    Column("commits checked", numeric=True),
)
_BACK_NOTE = (
    "Restore: copying the backup, or unpacking it. Combine: pg_combinebackup. Recovery: from the start of "
    "the restored server until it accepts writes at the moment. Verify: pg_verifybackup, which no server "
    "waits for. Commits checked: acknowledged before the moment; each was found, none that began later, and "
    "what "
    "can be checked of balances, indexes and pages was right. A trial that finds otherwise has failed."
)


def backup_tables(cells: Cells, analysis: Analysis) -> list[Block]:
    """Cost, size and time; a table a workload and install."""
    return variant_tables(cells, _COLUMNS, partial(_row, cells, analysis), _NOTE)


def load_tables(cells: Cells) -> list[Block]:
    """What the load and the WAL felt."""
    return [
        without_empty_columns(
            variant_table(
                cells,
                group,
                _LOAD,
                partial(_load_row, cells),
                _LOAD_NOTE,
                about="Beside the backup",
                terminal=False,
            )
        )
        for group in cells.groups()
    ]


def back_tables(cells: Cells) -> list[Block]:
    """The parts of the time until back, and what was found."""
    return [
        without_empty_columns(
            variant_table(cells, group, _BACK, partial(_back_row, cells), _BACK_NOTE, about="The way back")
        )
        for group in cells.groups()
    ]


def _row(cells: Cells, analysis: Analysis, cell: Cell) -> tuple[TableCell, ...]:
    return (
        *_named(cells, cell),
        *_shown(cells, cell, "before_tps", "backup_tps", "backup_tps_share", "backup_s", "backup_bytes"),
        *_shown(cells, cell, BACKUP_METRIC),
        TableCell(compared(analysis, cell)),
        TableCell(str(len(cells.finished(cell)))),
    )


def _load_row(cells: Cells, cell: Cell) -> tuple[TableCell, ...]:
    return (
        *_named(cells, cell),
        *_shown(cells, cell, "before_latency_ms_p99", "backup_latency_ms_p99", "backup_wal_bytes"),
        *_shown(cells, cell, "backup_archived_wal_bytes", "backup_needed_wal_bytes", "wal_summary_bytes"),
    )


def _back_row(cells: Cells, cell: Cell) -> tuple[TableCell, ...]:
    checked = cells.values(cell, "restored_commits")
    return (
        *_named(cells, cell),
        *_shown(cells, cell, "full_backup_bytes", "restore_s", "combine_s", "recover_s"),
        *_shown(cells, cell, "replayed_wal_bytes", "verify_s"),
        TableCell(f"{sum(checked):,.0f}"),
    )


def _named(cells: Cells, cell: Cell) -> tuple[TableCell, ...]:
    variant = cells.plan.variant(cell.variant)
    return (TableCell(variant.name), class_cell(variant.durability))


def _shown(cells: Cells, cell: Cell, *metrics: str) -> tuple[TableCell, ...]:
    return text_cells([cells.shown(cell, metric) for metric in metrics])
