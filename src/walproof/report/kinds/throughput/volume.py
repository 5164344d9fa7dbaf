"""What wal_compression buys and what it costs: volume, images, CPU, and who wrote how much.

Who writes WAL is a matter of timing: the WAL writer wakes every wal_writer_delay, a backend writes when it
commits or needs room. So bytes that move from one process to another are not saved; the split always stands
beside its total.
"""

from __future__ import annotations

from dataclasses import replace

from walproof.analysis.effect import effects
from walproof.analysis.summary import Analysis
from walproof.facts import Cell, Trial
from walproof.report.blocks import Block, Column, Paragraph, Table, TableCell, class_cell, text_cells
from walproof.report.cells import Cells
from walproof.report.kinds.throughput.writers import WRITERS, WriterData
from walproof.report.numbers import UNKNOWN, percent, ratio
from walproof.report.variants import GROUPED_COLUMNS, grouped_cells
from walproof.settings.catalogue import as_shown
from walproof.units import format_bytes

_METRICS = (
    ("WAL per transaction", "wal_bytes_per_txn"),
    ("full-page images per transaction", "wal_fpi_per_txn"),
    ("server CPU per transaction", "server_cpu_us_per_txn"),
    ("throughput", "tps"),
)


def is_about_volume(cells: Cells) -> bool:
    """Whether the study compares methods of compression; one of crashes may have it for one variant."""
    return cells.plan.kind.added_crash is None and any(
        "wal_compression" in as_shown(variant.settings) for variant in cells.plan.variants
    )


def volume_blocks(cells: Cells, analysis: Analysis, trials: list[Trial]) -> list[Block]:
    """Ratios to the baseline with their intervals, then bytes by writer with their total."""
    if not is_about_volume(cells):
        return []
    plan = cells.plan
    with_cpu = [_with_server_cpu(trial) for trial in trials]
    found = {metric: effects(plan, with_cpu, metric) for _, metric in _METRICS}
    rows = []
    for install, workload in cells.groups():
        for variant in cells.variants():
            cell = Cell(install, workload, variant.name)
            texts = []
            for _, metric in _METRICS:
                effect = next((candidate for candidate in found[metric] if candidate.cell == cell), None)
                texts.append("baseline" if effect is None else ratio(effect.ratio, effect.interval))
            share = cells.median(cell, "wal_fpi_share")
            rows.append(
                (
                    *grouped_cells(cells, cell),
                    TableCell(percent(share)),
                    *text_cells(texts),
                )
            )
    columns = (
        *GROUPED_COLUMNS,
        Column("images, of WAL bytes", numeric=True),
        *(Column(name, numeric=True) for name, _ in _METRICS),
    )
    note = (
        f"Ratios to {plan.baseline}: geometric mean over rounds with the {percent(analysis.level)} interval. "
        "CPU is that of all processes of the server."
    )
    return [
        Table("What compression buys and costs", columns, tuple(rows), note, grouped=True),
        *_writer_table(cells),
    ]


def _with_server_cpu(trial: Trial) -> Trial:
    """The trial with the sum of its processes' CPU per transaction."""
    parts = [v for name, v in trial.metrics.items() if name.startswith("cpu_us_per_txn.")]
    if not parts:
        return trial
    return replace(trial, metrics={**trial.metrics, "server_cpu_us_per_txn": sum(parts)})


def writer_data(cells: Cells) -> WriterData | None:
    """Bytes by writer of every finished trial; None for another kind of study."""
    if not is_about_volume(cells):
        return None
    return WriterData.of(cells)


def _writer_table(cells: Cells) -> list[Block]:
    data = WriterData.of(cells)
    if data is None:
        return []
    rows = []
    for panel in data.panels:
        published = {r.variant: r.metrics for r in cells.plan.references_of(panel.workload)}
        for bar in panel.bars:
            theirs = published.get(bar.variant, {})
            shown = [theirs.get(f"write_bytes.{kind}") for kind in WRITERS[:3]]
            known = [value for value in shown if value is not None]
            rows.append(
                (
                    TableCell(panel.title),
                    TableCell(bar.variant),
                    class_cell(bar.durability),
                    *(TableCell(format_bytes(value)) for value in bar.medians),
                    TableCell(format_bytes(sum(bar.medians))),
                    TableCell(" + ".join(format_bytes(value) for value in known) or UNKNOWN),
                    TableCell(format_bytes(sum(known)) if known else UNKNOWN),
                )
            )
    has_published = any(row[-1].text != UNKNOWN for row in rows)
    columns = [
        *GROUPED_COLUMNS,
        *(Column(kind.replace("_", " "), numeric=True) for kind in WRITERS),
        Column("total", numeric=True),
        Column("published: backend + walwriter + checkpointer", numeric=True, terminal=False),
        Column("published total", numeric=True, terminal=False),
    ]
    if not has_published:
        columns, rows = columns[:-2], [row[:-2] for row in rows]
    blocks: list[Block] = [
        Table(
            "Who wrote how much, and the total",
            tuple(columns),
            tuple(rows),
            "Bytes in the whole window, median over trials, as handed to write calls (wchar in "
            "/proc/PID/io), data files included. Read the total first: a smaller share of one process saves "
            "nothing by itself." + (f" Published: {cells.plan.reference_source}." if has_published else ""),
            grouped=True,
        )
    ]
    if has_published:
        blocks.append(
            Paragraph(
                "Which process writes WAL is decided by who comes first. The WAL writer writes every "
                "wal_writer_delay, or when wal_writer_flush_after has been filled; a backend writes when its "
                "buffers run out or when it commits. A backend that spends time compressing changes that "
                "timing, and with it the split, whatever the volume is."
            )
        )
    return blocks
