"""A study of statements: bytes of WAL instead of throughput."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from walproof.analysis.summary import Analysis
from walproof.facts import Run, Trial
from walproof.report.answer import how_sure
from walproof.report.blocks import Section
from walproof.report.cells import Cells
from walproof.report.certainty import failure_blocks
from walproof.report.kinds.statements.figure import statement_data
from walproof.report.kinds.statements.tables import statement_answers, statement_sections
from walproof.report.layout import Body, FigureMaker, ReportView, lay_out
from walproof.report.words import KindWords


def statement_view(
    words: KindWords[Any], run: Run, trials: Sequence[Trial], analysis: Analysis
) -> ReportView:
    """The report of a study whose trials measure statements: bytes instead of throughput."""
    cells = Cells(run.plan, trials)
    overview = FigureMaker(run, analysis).figure(
        "statements",
        "How many bytes of WAL does each statement write under each variant?",
        "A point is a trial.",
        statement_data(cells),
    )
    sections = (
        *statement_sections(cells, analysis),
        Section("failures", "Failed trials", tuple(failure_blocks(cells, trials, analysis))),
    )
    body = Body(
        answers=statement_answers(cells, analysis),
        how_sure=how_sure(run, analysis, ()),
        overview=overview,
        sections=sections,
    )
    return lay_out(words, run, trials, analysis, body)
