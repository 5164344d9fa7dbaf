"""The report of a study of a live stream: how far its standbys lag behind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from walproof.analysis.summary import Analysis
from walproof.facts import Run, Series, Trial
from walproof.report.cells import Cells
from walproof.report.figures.style import symbol_key
from walproof.report.kinds.replay.tables import starved_sentences
from walproof.report.kinds.standbys import StandbyParts, standby_view
from walproof.report.kinds.streaming.lag import lag
from walproof.report.kinds.streaming.tables import lag_tables, streaming_answers, streaming_tables
from walproof.report.layout import FigureMaker, ReportView
from walproof.report.pair import network_tables
from walproof.report.words import KindWords


def streaming_view(
    words: KindWords[Any],
    run: Run,
    trials: Sequence[Trial],
    series: Sequence[Series],
    analysis: Analysis,
) -> ReportView:
    """CPU of the startup process, and WAL that it has not replayed yet."""
    cells = Cells(run.plan, trials)
    behind = FigureMaker(run, analysis).figure(
        "lag",
        "How far does the standby lag, and where is the WAL meanwhile?",
        "For each variant, the trial whose largest lag is the median. Dashed: the load ends. Panels of a "
        "group "
        "share their axes. Durability class: " + symbol_key() + ".",
        lag(cells, series),
    )
    parts = StandbyParts(
        answers=streaming_answers(cells, analysis),
        starved=starved_sentences(cells, "the primary and its load run beside it"),
        results=streaming_tables(cells, analysis),
        lag=(*behind, *lag_tables(cells), *network_tables(cells)),
    )
    return standby_view(words, run, trials, analysis, parts)
