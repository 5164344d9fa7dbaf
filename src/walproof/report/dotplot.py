"""The ratio chart in characters, for a terminal or a Markdown file: the same data, one line per row.

On narrow lines the plot shrinks first, then labels lose their middle, and finally label, plot and figures of
a row get separate lines. Figures are never cut.
"""

from __future__ import annotations

import math
import textwrap
from dataclasses import dataclass

from walproof.report.figures.ratios import RatioData, RatioRow
from walproof.report.figures.scale import tick_label
from walproof.report.figures.style import SYMBOLS
from walproof.report.plaintext import one_line, shortened, text_width

_PLOT_MOST = 40
_PLOT_SHARE = 5
"""Smallest part of the line to which a plot shrinks for the sake of labels."""
_LABEL_LEAST = 12
"""Characters that a label needs to stay distinct."""
_INDENT = 2
_TICK = 6
"""Characters that the last tick's label may reach past the plot."""
_MEAN = "×"
"""No mark of SYMBOLS: those say what a crash may cost."""


@dataclass(frozen=True, slots=True)
class _Columns:
    """Widths of a chart's parts."""

    width: int
    plot: int
    label: int
    """Width of labels; 0 where label and figures have separate lines."""


def dot_plot(data: RatioData, width: int = 100) -> str:
    """Every panel, and what its marks mean.

    No line is longer than ``width`` columns of the terminal.
    """
    columns = _columns(data, width)
    lines = []
    for panel in data.panels:
        lines += _wrapped(panel.title, width)
        current = None
        for row in panel.rows:
            if row.durability is not None and row.durability is not current:
                current = row.durability
                lines += _wrapped(f"{SYMBOLS[current]} durability class: {current.value}", width, _INDENT)
            lines += _row(data, row, columns)
        before = " " * (_INDENT + columns.label + (columns.label > 0))
        lines += [before + text for text in _axis(data, columns.plot)]
        lines.append("")
    return "\n".join([*lines, *_key(data, width)])


def _columns(data: RatioData, width: int) -> _Columns:
    rows = [row for panel in data.panels for row in panel.rows]
    longest = max(text_width(one_line(row.label)) for row in rows)
    # A space stands before the plot, and one behind it.
    room = width - _INDENT - 2 - max(_TICK, *(text_width(row.text) for row in rows))
    plot = min(_PLOT_MOST, max(width // _PLOT_SHARE, room - longest))
    label = min(longest, room - plot)
    if label >= min(longest, _LABEL_LEAST):
        return _Columns(width, plot, label)
    return _Columns(width, max(1, min(_PLOT_MOST, width - _INDENT - _TICK)), 0)


def _row(data: RatioData, row: RatioRow, columns: _Columns) -> list[str]:
    name, plot = one_line(row.label), _draw(data, row, columns.plot)
    if columns.label == 0:
        figures = _wrapped(row.text, columns.width, _INDENT)
        return [*_wrapped(name, columns.width, _INDENT), " " * _INDENT + plot.rstrip(), *figures]
    label = shortened(name, columns.label)
    before = " " * (_INDENT + columns.label - text_width(label))
    return [f"{before}{label} {plot} {row.text}".rstrip()]


def _wrapped(text: str, width: int, indent: int = 0) -> list[str]:
    before = " " * indent
    # Wide characters count twice, so that lines of them are short rather than long.
    room = width if text_width(text) == len(text) else (width + indent) // 2
    return textwrap.wrap(one_line(text), room, initial_indent=before, subsequent_indent=before)


def _column(data: RatioData, value: float, plot: int) -> int:
    place = math.log(min(max(value, data.low), data.high) / data.low) / math.log(data.high / data.low)
    return round(place * (plot - 1))


def _draw(data: RatioData, row: RatioRow, plot: int) -> str:
    cells = [" "] * plot
    cells[_column(data, 1.0, plot)] = "│"
    if row.interval is not None:
        for column in range(
            _column(data, row.interval.low, plot), _column(data, row.interval.high, plot) + 1
        ):
            cells[column] = "─"
    for point in row.points:
        cells[_column(data, point.ratio, plot)] = "○" if point.outlier else "·"
    if row.ratio is not None:
        cells[_column(data, row.ratio, plot)] = _MEAN
    return "".join(cells)


def _key(data: RatioData, width: int) -> list[str]:
    """What the marks mean; those that no row has are left out."""
    rows = [row for panel in data.panels for row in panel.rows]
    outliers = [point.outlier for row in rows for point in row.points]
    marks = [
        f"· a {data.single}" if not all(outliers) else "",
        f"○ a {data.single} that stands apart" if any(outliers) else "",
        f"{_MEAN} geometric mean" if outliers else f"{_MEAN} estimate",
        "─ interval" if any(row.interval for row in rows) else "",
        "│ 1x",
    ]
    # A mark and its words stay on one line.
    whole = "  ".join(mark.replace(" ", "\N{NO-BREAK SPACE}") for mark in marks if mark)
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in textwrap.wrap(whole, width)]


def _axis(data: RatioData, plot: int) -> tuple[str, str]:
    line, labels = ["─"] * plot, [" "] * (plot + _TICK)
    # 1x is the tick that must not be crowded out.
    for tick in sorted(data.ticks, key=lambda tick: tick != 1.0):
        label, column = tick_label(tick, "x"), _column(data, tick, plot)
        start = max(0, column - len(label) // 2)
        if all(cell == " " for cell in labels[max(0, start - 1) : start + len(label) + 1]):
            labels[start : start + len(label)] = label
            line[column] = "┴"
    return "".join(line), "".join(labels).rstrip()
