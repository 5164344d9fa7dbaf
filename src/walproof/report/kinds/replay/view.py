"""The report of a study that replays the same WAL again and again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from walproof.analysis.summary import Analysis
from walproof.facts import Run, Trial
from walproof.report.cells import Cells
from walproof.report.kinds.replay.flame import flames
from walproof.report.kinds.replay.profile import profile_tables
from walproof.report.kinds.replay.tables import (
    replay_answers,
    replay_tables,
    starved_sentences,
    syscall_tables,
)
from walproof.report.kinds.standbys import StandbyParts, standby_view
from walproof.report.layout import FigureMaker, ReportView
from walproof.report.words import KindWords


def replay_view(words: KindWords[Any], run: Run, trials: Sequence[Trial], analysis: Analysis) -> ReportView:
    """CPU of the startup process, and where it goes."""
    cells = Cells(run.plan, trials)
    profile = FigureMaker(run, analysis).figure(
        "flames",
        "What does the startup process spend its CPU on?",
        "A box is a function, as wide as its share of the samples; it calls the functions on top of it.",
        flames(cells),
    )
    parts = StandbyParts(
        answers=replay_answers(cells, analysis),
        starved=starved_sentences(cells, "others used the machine"),
        results=replay_tables(cells, analysis),
        syscalls=syscall_tables(cells),
        profile=(*profile, *profile_tables(cells)),
    )
    return standby_view(words, run, trials, analysis, parts)
