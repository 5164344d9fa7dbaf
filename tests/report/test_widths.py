"""Every kind of report in terminals of three widths: lines fit, and figures have all their words."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.console import Console

from tests.golden.unpack import unpack
from tests.report.kinds import every_page, every_report
from walproof.report.blocks import Section, Table
from walproof.report.figures.ratios import RatioData
from walproof.report.terminal import print_sections, print_terminal
from walproof.wal import stats

WIDTHS = (60, 80, 100, 120)


@pytest.mark.parametrize("width", WIDTHS)
def test_no_figure_of_a_report_is_cut(width: int) -> None:
    for view in every_report():
        out = io.StringIO()
        print_terminal(view, Console(file=out, width=width))
        _check(out.getvalue(), view.sections, width)
        for figure in view.overview:
            if isinstance(figure.data, RatioData):
                for row in (row for panel in figure.data.panels for row in panel.rows):
                    assert f" {row.text}\n" in out.getvalue()


@pytest.mark.parametrize("width", WIDTHS)
def test_no_figure_of_a_page_about_wal_is_cut(width: int, tmp_path: Path) -> None:
    unpack(18, tmp_path)
    for sections in every_page(stats(tmp_path)):
        out = io.StringIO()
        print_sections(sections, Console(file=out, width=width))
        _check(out.getvalue(), sections, width)


def _check(text: str, sections: Sequence[Section], width: int) -> None:
    # The commands at the end are to be copied: the terminal breaks them.
    for line in text.partition("\nNext\n")[0].splitlines():
        assert cell_len(line) <= width, line
    figures = Counter(
        word
        for section in sections
        for table in section.blocks
        if isinstance(table, Table) and table.terminal
        for row in table.rows
        for column, cell in zip(table.columns, row, strict=True)
        if column.terminal and column.numeric
        for word in cell.text.split()
    )
    assert not figures - Counter(text.split())
