"""From facts to a report: the one document that terminal, HTML and Markdown show, and JSON accompanies."""

from __future__ import annotations

from collections.abc import Sequence

from walproof.advise import verdicts
from walproof.analysis import analyse
from walproof.facts import Run, Series, Trial
from walproof.report.cells import Cells
from walproof.report.figures.lag import LAG_SERIES
from walproof.report.kinds.cuts import cut_view
from walproof.report.kinds.loads import load_view
from walproof.report.kinds.replays import replay_view
from walproof.report.kinds.statements import statement_view
from walproof.report.kinds.throughput import throughput_view
from walproof.report.layout import ReportView
from walproof.report.load import LOAD_METRIC
from walproof.report.replay import REPLAY_METRIC
from walproof.report.statements import is_about_statements

SERIES_SHOWN = ("tps", *LAG_SERIES)
"""Names of the series that a report shows."""


def build_view(run: Run, trials: Sequence[Trial], series: Sequence[Series] = ()) -> ReportView:
    """Analyse the facts of a run, whole or interrupted, and lay them out.

    Of ``series`` those of SERIES_SHOWN are shown.
    Raises AnalysisError when the trials are not those of one run.
    """
    if is_about_statements(Cells(run.plan, trials)):
        return statement_view(run, trials, analyse(run.plan, trials, "wal_bytes_decoded"))
    if run.plan.power_cut is not None and run.plan.power_cut.only:
        return cut_view(run, trials, analyse(run.plan, trials, "cut_acknowledged"))
    if run.plan.replay is not None or run.plan.streaming is not None:
        return replay_view(run, trials, series, analyse(run.plan, trials, REPLAY_METRIC))
    if run.plan.load is not None:
        return load_view(run, trials, analyse(run.plan, trials, LOAD_METRIC))
    analysis = analyse(run.plan, trials)
    return throughput_view(run, trials, series, analysis, verdicts(run.plan, trials, analysis))
