"""What a report is made of: plain values that each renderer shows in its own way.

A renderer knows these types and nothing of runs or statistics, so terminal, HTML and Markdown cannot
tell different stories. Text is plain: a renderer escapes it for its own medium.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from walproof.report.figures.figure import Figure
from walproof.report.numbers import UNKNOWN
from walproof.settings.durability import DurabilityClass


@dataclass(frozen=True, slots=True)
class Column:
    """Heading of a table's column."""

    title: str
    numeric: bool = False
    """Whether it is right-aligned, with digits under digits."""
    terminal: bool = True
    """Whether the terminal shows it: 100 columns have room for the main ones."""
    whole_most: int = 24
    """Characters up to which the terminal keeps a value on one line."""


@dataclass(frozen=True, slots=True)
class TableCell:
    """One value of a table, ready to read."""

    text: str
    durability: DurabilityClass | None = None
    """Set when the cell names a durability class, which renderers show as a badge."""
    section: str | None = None
    """The id of the section that it leads to in HTML."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under columns; every row has a cell per column."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[TableCell, ...], ...]
    note: str | None = None
    terminal: bool = True
    """Whether the terminal shows it."""
    grouped: bool = False
    """Whether the first column repeats over neighbouring rows: HTML makes it a heading above them."""


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Running text."""

    text: str
    terminal: bool = False
    links: tuple[str, ...] = ()
    """Addresses in the text that are walproof's own. Others, from names on a server, never become links."""


@dataclass(frozen=True, slots=True)
class Listing:
    """Text to be shown as it is: a command, a log, a file."""

    title: str
    text: str
    folded: bool = False
    """Whether it is long: HTML shows it closed."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was found about one variant, or about the run."""

    subject: str
    """The variant's name; empty for the run."""
    durability: DurabilityClass | None
    sentences: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Verdicts:
    """The verdicts of one workload on one install, or of the whole run."""

    title: str
    verdicts: tuple[Verdict, ...]


Block: TypeAlias = Table | Paragraph | Listing | Verdicts | Figure


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the report with its own heading."""

    id: str
    """Anchor in HTML; the same in every report."""
    title: str
    blocks: tuple[Block, ...]


def without_empty_columns(table: Table) -> Table:
    """The table without the numeric columns in which no row has a figure: nothing observed them."""
    kept = [
        index
        for index, column in enumerate(table.columns)
        if not column.numeric or any(row[index].text != UNKNOWN for row in table.rows)
    ]
    return replace(
        table,
        columns=tuple(table.columns[index] for index in kept),
        rows=tuple(tuple(row[index] for index in kept) for row in table.rows),
    )


def text_cells(values: Sequence[str]) -> tuple[TableCell, ...]:
    """A row of plain cells."""
    return tuple(TableCell(value) for value in values)


def class_cell(durability: DurabilityClass) -> TableCell:
    """The cell that names a durability class."""
    return TableCell(durability.value, durability)
