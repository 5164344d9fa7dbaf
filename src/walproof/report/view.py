"""From facts to a report: the one document that terminal, HTML and Markdown show, and JSON accompanies."""

from __future__ import annotations

from collections.abc import Sequence

from walproof.facts import Run, Series, Trial
from walproof.report.kinds.registry import report_kind
from walproof.report.layout import ReportView


def build_view(run: Run, trials: Sequence[Trial], series: Sequence[Series] = ()) -> ReportView:
    """Analyse the facts of a run, whole or interrupted, and lay them out.

    Only those ``series`` are shown that its kind names.
    Raises AnalysisError when the trials are not those of one run.
    """
    return report_kind(run.plan.kind).view(run, trials, series)
