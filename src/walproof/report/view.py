"""From facts to a report: the one document that terminal, HTML and Markdown show, and JSON accompanies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from walproof.facts import Run, Series, Trial
from walproof.report.answer import open_command
from walproof.report.kinds.registry import report_kind
from walproof.report.layout import ReportView


def build_view(run: Run, trials: Sequence[Trial], series: Sequence[Series] = ()) -> ReportView:
    """Analyse the facts of a run, whole or interrupted, and lay them out.

    Only those ``series`` are shown that its kind names.
    Raises AnalysisError when the trials are not those of one run.
    """
    return report_kind(run.plan.kind).view(run, trials, series)


def read_from(view: ReportView, place: Sequence[str]) -> ReportView:
    """The report as somebody sees it who read the run with these ``--out`` and ``--store``: whoever measured
    it may have had others."""
    opening = open_command(view.run.id, place)
    commands = (opening if told.purpose == opening.purpose else told for told in view.next_commands)
    return replace(view, next_commands=tuple(commands))
