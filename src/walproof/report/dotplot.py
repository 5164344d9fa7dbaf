"""The ratio chart in characters, for a terminal or a Markdown file: the same data, one line a row."""

from __future__ import annotations

import math

from walproof.report.figures.ratios import RatioData, RatioRow
from walproof.report.figures.scale import tick_label
from walproof.report.figures.style import SYMBOLS
from walproof.report.plaintext import one_line

_PLOT = 40
_LABEL = 22


def dot_plot(data: RatioData) -> str:
    """Every panel: ``·`` a trial's ratio, ``─`` the interval, ``◆`` the mean, ``│`` the baseline at 1x."""
    lines = []
    for panel in data.panels:
        lines.append(one_line(panel.title))
        current = None
        for row in panel.rows:
            if row.durability is not None and row.durability is not current:
                current = row.durability
                lines.append(f"  {SYMBOLS[current]} durability class: {current.value}")
            lines.append(f"  {_fit(one_line(row.label)):>{_LABEL}} {_draw(data, row)} {row.text}".rstrip())
        lines += [" " * (_LABEL + 3) + text for text in _axis(data)]
        lines.append("")
    return "\n".join(lines).rstrip("\n")


def _fit(label: str) -> str:
    return label if len(label) <= _LABEL else label[: _LABEL - 1] + "…"


def _column(data: RatioData, value: float) -> int:
    place = math.log(min(max(value, data.low), data.high) / data.low) / math.log(data.high / data.low)
    return round(place * (_PLOT - 1))


def _draw(data: RatioData, row: RatioRow) -> str:
    cells = [" "] * _PLOT
    cells[_column(data, 1.0)] = "│"
    if row.interval is not None:
        for column in range(_column(data, row.interval.low), _column(data, row.interval.high) + 1):
            cells[column] = "─"
    for point in row.points:
        cells[_column(data, point.ratio)] = "○" if point.outlier else "·"
    if row.ratio is not None:
        cells[_column(data, row.ratio)] = "◆"
    return "".join(cells)


def _axis(data: RatioData) -> tuple[str, str]:
    line, labels = ["─"] * _PLOT, [" "] * (_PLOT + 6)
    # 1x is the tick that must not be crowded out.
    for tick in sorted(data.ticks, key=lambda tick: tick != 1.0):
        label, column = tick_label(tick, "x"), _column(data, tick)
        start = max(0, column - len(label) // 2)
        if all(cell == " " for cell in labels[max(0, start - 1) : start + len(label) + 1]):
            labels[start : start + len(label)] = label
            line[column] = "┴"
    return "".join(line), "".join(labels).rstrip()
