"""Where the time goes: waits, the commit lock, CPU and bytes by process, the disk."""

from __future__ import annotations

from collections.abc import Sequence

from walproof.analysis.lock import CommitLock
from walproof.analysis.published import published_lock
from walproof.analysis.summary import Analysis
from walproof.facts import Plan
from walproof.report.blocks import (
    Block,
    Column,
    Paragraph,
    Table,
    TableCell,
    class_cell,
    without_empty_columns,
)
from walproof.report.cells import Cells
from walproof.report.kinds.throughput.waits import CPU, OTHER, wait_shares
from walproof.report.numbers import milliseconds, number, percent, rate, ratio, size
from walproof.report.variants import GROUPED_COLUMNS, grouped_cells
from walproof.sentences import say_count

_KINDS_MOST = 5
_EVENTS_MOST = 5
"""Columns of the table; the chart names more."""


def lock_paragraphs(plan: Plan, analysis: Analysis) -> list[Block]:
    """The commit-lock model per install, or why there is none."""
    blocks: list[Block] = [
        Paragraph(_say_lock(lock) + _say_published(plan, lock), terminal=True) for lock in analysis.locks
    ]
    blocks += [Paragraph(f"Not answered: {u.question}: {u.reason}.") for u in analysis.unanswered]
    return blocks


def _say_lock(lock: CommitLock) -> str:
    text = (
        f"Lock or disk, PostgreSQL {lock.install}, {lock.workload}: every transaction updates the same row "
        "and keeps its lock until its commit is flushed, so tps = 1 / (L + c). "
        f"From {lock.variant}, over {say_count(lock.n, 'round')}: L, the flush that a commit waits for, is "
        f"{milliseconds(lock.flush_s, lock.flush_interval_s)}; "
        "c, all other work under the lock, is "
        f"{milliseconds(lock.work_s, lock.work_interval_s)}. "
        f"Without the flush throughput is {ratio(lock.gain, lock.gain_interval)}."
    )
    if lock.sync_ms is not None and lock.predicted_gain is not None:
        text += (
            f" The server's own flush time, {number(lock.sync_ms)} ms, predicts {ratio(lock.predicted_gain)}."
        )
    if lock.share is not None and lock.large_workload is not None:
        interval = lock.share.interval
        reach = f" ({100 * interval.low:.0f} to {100 * interval.high:.0f})" if interval else ""
        text += (
            f" In {lock.large_workload}, with a row per client, it is "
            f"{ratio(lock.large_gain, lock.large_gain_interval)}: on the log scale "
            f"{percent(lock.share.lock)}{reach} of the gain is the lock "
            f"and {percent(lock.share.disk)} the disk."
        )
    elif lock.share_reason:
        text += f" It is not known how much is lock and how much disk: {lock.share_reason}."
    return text


def _say_published(plan: Plan, lock: CommitLock) -> str:
    """The same model on the published figures: why their gain differs from ours."""
    theirs = published_lock(plan, lock)
    if theirs is None:
        return ""
    return (
        f" The published figures give, by the same model, L = {number(1000 * theirs.flush_s)} ms and "
        f"c = {number(1000 * theirs.work_s)} ms, and so {ratio(theirs.gain)}."
    )


def wait_table(cells: Cells) -> list[Block]:
    """Share of active-backend samples by wait; the numbers of the chart."""
    data = wait_shares(cells)
    if data is None:
        return []
    named = [event for event in data.events if event not in (CPU, OTHER)][:_EVENTS_MOST]
    rows = []
    for panel in data.panels:
        for bar in panel.bars:
            shares = dict(zip(data.events, bar.shares, strict=True))
            shares[OTHER] += sum(shares[e] for e in data.events if e not in (CPU, OTHER, *named))
            texts = [percent(shares[event]) for event in (CPU, *named, OTHER)]
            rows.append(
                (
                    TableCell(panel.title),
                    TableCell(bar.variant),
                    class_cell(bar.durability),
                    *map(TableCell, texts),
                )
            )
    columns = (
        *GROUPED_COLUMNS,
        Column("on CPU", numeric=True),
        *(Column(event, numeric=True) for event in (*named, OTHER)),
    )
    return [
        Table(
            "What active backends wait for",
            columns,
            tuple(rows),
            "Share of active-backend samples, mean over trials.",
            terminal=False,
            grouped=True,
        )
    ]


def process_tables(cells: Cells) -> list[Block]:
    """CPU and written bytes by process kind, per transaction."""
    return [
        *_by_kind(
            cells,
            "CPU per transaction by process",
            "cpu_us_per_txn.",
            "us",
            (("host busy", "host_cpu_busy_share"), ("stolen", "host_cpu_steal_share")),
            "Median over trials. Host busy is the share of all CPUs that was used, pgbench included.",
        ),
        *_by_kind(
            cells,
            "Bytes written per transaction by process",
            "write_bytes_per_txn.",
            "B",
            (),
            "Median over trials; what each kind of process handed to write calls (wchar in /proc/PID/io).",
        ),
    ]


def _by_kind(
    cells: Cells, title: str, prefix: str, unit: str, shares: Sequence[tuple[str, str]], note: str
) -> list[Block]:
    kinds = cells.parts(prefix)[:_KINDS_MOST]
    if not kinds:
        return []
    rows = [
        (
            *grouped_cells(cells, cell),
            *(TableCell(cells.shown(cell, prefix + kind)) for kind in kinds),
            *(TableCell(cells.shown(cell, metric)) for _, metric in shares),
        )
        for cell in cells.plan.cells
        if cells.finished(cell)
    ]
    columns = (
        *GROUPED_COLUMNS,
        *(Column(f"{kind.replace('_', ' ')} {unit}", numeric=True) for kind in kinds),
        *(Column(name, numeric=True) for name, _ in shares),
    )
    return [without_empty_columns(Table(title, columns, tuple(rows), note, terminal=False, grouped=True))]


def disk_table(cells: Cells) -> list[Block]:
    """The disk in atop's terms; empty where no trial saw a disk."""
    seen = [cell for cell in cells.plan.cells if cells.median(cell, "disk_busy_share") is not None]
    if not seen:
        return []
    rows = []
    for cell in seen:
        written = cells.median(cell, "disk_write_bytes")
        window = cells.window_s(cell)
        written_per_s = written / window if written is not None and window else None
        rows.append(
            (
                *grouped_cells(cells, cell),
                TableCell(cells.shown(cell, "disk_busy_share")),
                *(
                    TableCell(cells.shown(cell, f"disk_{metric}"))
                    for metric in (
                        "writes_per_s",
                        "kib_per_write",
                        "ms_per_write",
                        "flushes_per_s",
                        "ms_per_flush",
                    )
                ),
                TableCell(rate(written_per_s)),
            )
        )
    columns = (
        *GROUPED_COLUMNS,
        Column("busy", numeric=True),
        Column("writes/s", numeric=True),
        Column("kB per write", numeric=True),
        Column("ms per write", numeric=True),
        Column("flushes/s", numeric=True),
        Column("ms per flush", numeric=True),
        Column("written", numeric=True),
    )
    note = "Median over trials, from the counters of the device under the data directory, as atop shows them."
    table = Table("The disk", columns, tuple(rows), note, terminal=False, grouped=True)
    return [without_empty_columns(table)]


def checkpoint_table(cells: Cells) -> list[Block]:
    """Checkpoints in the windows, and where in the checkpoint cycle a window began."""
    watched = [cell for cell in cells.plan.cells if cells.values(cell, "checkpoints_timed")]
    if not watched:
        return []
    rows = []
    for cell in watched:
        kinds = [cells.values(cell, f"checkpoints_{kind}") for kind in ("requested", "timed", "immediate")]
        since = cells.median(cell, "wal_since_redo_bytes_start")
        rows.append(
            (
                *grouped_cells(cells, cell),
                TableCell(str(len(cells.values(cell, "checkpoints_timed")))),
                *(TableCell(f"{sum(values):.0f}") for values in kinds),
                TableCell(cells.shown(cell, "checkpoint_active_share")),
                TableCell(size(since)),
                TableCell(cells.shown(cell, "wal_fpi_share")),
            )
        )
    columns = (
        *GROUPED_COLUMNS,
        Column("windows", numeric=True),
        Column("started by WAL volume", numeric=True),
        Column("started by time", numeric=True),
        Column("asked for", numeric=True),
        Column("active", numeric=True),
        Column("WAL since redo point at start", numeric=True),
        Column("full-page images, of WAL bytes", numeric=True),
    )
    note = (
        "Checkpoints are counted over all windows of a variant; the other figures are medians. "
        "Active is the share of a window with a checkpoint in progress."
    )
    return [Table("Checkpoints in the windows", columns, tuple(rows), note, terminal=False, grouped=True)]
