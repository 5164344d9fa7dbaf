"""What a failover loses: acknowledged commits that the promoted standby does not have."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from walproof.facts import Cell
from walproof.report.blocks import Block, Column, TableCell
from walproof.report.cells import Cells
from walproof.report.numbers import UNKNOWN, number
from walproof.report.variants import variant_cells, variant_tables
from walproof.sentences import say_count, say_list

_COLUMNS = (
    Column("variant"),
    Column("durability class", terminal=False),
    Column("failovers", numeric=True),
    Column("with a loss", numeric=True),
    Column("commits acknowledged", numeric=True),
    Column("lost", numeric=True),
    Column("lost at most", numeric=True),
    Column("window ms at most", numeric=True),
    Column("p50 ms", numeric=True),
    Column("p99 ms", numeric=True),
)
_NOTE = (
    "The primary and the link to its synchronous standby end at once, under load; the standby is promoted "
    "(of several the one that has most of the WAL; of a cascade the last, and the one before it ends with "
    "the primary). Between hosts the network goes on, and carries what the kernel was given. "
    "Commits and losses are sums over the trials, latencies medians. Window: from the acknowledgement of the "
    "oldest lost commit to the end of the primary. The durability class covers a power cut of one server and "
    "a failover. That nothing was lost in so many trials is no proof that nothing can be."
)


def failover_tables(cells: Cells) -> list[Block]:
    """One table an install."""
    return variant_tables(cells, _COLUMNS, partial(_row, cells), _NOTE, about="Lost at a failover")


def failover_answers(cells: Cells) -> dict[str, tuple[str, ...]]:
    """Title of each group of cells -> what its failovers lost, which is what was asked first."""
    found: dict[str, tuple[str, ...]] = {}
    for install, workload in cells.groups():
        safe: list[Cell] = []
        sentences = []
        for variant in cells.plan.variants:
            cell = Cell(install, workload, variant.name)
            lost = cells.values(cell, "commits_lost")
            if not any(lost):
                safe += [cell] if lost else []
                continue
            times = say_count(len(lost), "failover")
            sentences.append(
                f"{variant.name} lost {sum(lost):,.0f} of {_commits(cells, [cell])} acknowledged commits, "
                f"in {sum(count > 0 for count in lost)} of {times}."
            )
        if safe:
            times = say_count(sum(len(cells.values(cell, "commits_lost")) for cell in safe), "failover")
            under = f" under {say_list([cell.variant for cell in safe])}" if sentences else ""
            sentences.insert(
                0,
                f"No acknowledged commit was lost{under} in {times} ({_commits(cells, safe)} commits).",
            )
        found[cells.group_title(install, workload)] = tuple(sentences)
    return found


def _commits(cells: Cells, of: Sequence[Cell]) -> str:
    return f"{sum(sum(cells.values(cell, 'commits_acknowledged')) for cell in of):,.0f}"


def _row(cells: Cells, cell: Cell) -> tuple[TableCell, ...]:
    lost = cells.values(cell, "commits_lost")
    windows = cells.values(cell, "loss_window_ms")
    return (
        *variant_cells(cells.plan.variant(cell[2])),
        TableCell(str(len(lost))),
        TableCell(str(sum(count > 0 for count in lost))),
        TableCell(number(sum(cells.values(cell, "commits_acknowledged")))),
        TableCell(number(sum(lost))),
        TableCell(number(max(lost, default=None))),
        TableCell(number(max(windows)) if windows else UNKNOWN),
        TableCell(cells.shown(cell, "latency_ms_p50")),
        TableCell(cells.shown(cell, "latency_ms_p99")),
    )
