"""The form of most results: a table for each group, a row for each variant, and the first cells of a row."""

from __future__ import annotations

from collections.abc import Callable

from walproof.analysis.summary import Analysis
from walproof.facts import Cell, Variant
from walproof.report.blocks import Block, Column, Table, TableCell, class_cell
from walproof.report.cells import Cells
from walproof.report.numbers import ratio

Row = Callable[[Cell], tuple[TableCell, ...]]
"""From (install, workload, variant) to the cells of its row, one for each column."""


def variant_tables(
    cells: Cells,
    columns: tuple[Column, ...],
    row: Row,
    note: str | None = None,
    *,
    about: str | None = None,
    terminal: bool = True,
) -> list[Block]:
    """A table for each group; what it is ``about`` stands before the group's title."""
    return [
        variant_table(cells, group, columns, row, note, about=about, terminal=terminal)
        for group in cells.groups()
    ]


def variant_table(
    cells: Cells,
    group: tuple[str, str],
    columns: tuple[Column, ...],
    row: Row,
    note: str | None = None,
    *,
    about: str | None = None,
    terminal: bool = True,
) -> Table:
    """The table of one group, (install, workload)."""
    title = cells.group_title(*group)
    return Table(
        title if about is None else f"{about}: {title}",
        columns,
        tuple(row(Cell(*group, variant.name)) for variant in cells.variants()),
        note,
        terminal=terminal,
    )


VARIANT = Column("variant")
VARIANT_COLUMNS = (VARIANT, Column("durability class"))
GROUPED_COLUMNS = (Column("workload"), *VARIANT_COLUMNS)
"""The columns when one table has the rows of every group."""


def variant_cells(variant: Variant) -> tuple[TableCell, ...]:
    """The cells under VARIANT_COLUMNS."""
    return (TableCell(variant.name), class_cell(variant.durability))


def grouped_cells(cells: Cells, cell: Cell) -> tuple[TableCell, ...]:
    """The cells under GROUPED_COLUMNS."""
    install, workload, variant = cell
    return (TableCell(cells.group_title(install, workload)), *variant_cells(cells.plan.variant(variant)))


def compared(analysis: Analysis, cell: Cell) -> str:
    """The cell's ratio to the baseline with its interval; ``1x`` for the baseline."""
    effect = analysis.effect(*cell)
    return "1x" if effect is None else ratio(effect.ratio, effect.interval)
