"""From facts to a report: the one document that terminal, HTML and Markdown show, and JSON accompanies."""

from __future__ import annotations

from collections.abc import Sequence

from walproof.advise.verdict import verdicts
from walproof.analysis.summary import analyse
from walproof.facts import Load, PowerCuts, Replay, Run, Series, Statements, Streaming, Trial
from walproof.report.figures.lag import LAG_SERIES
from walproof.report.kinds.cuts import cut_view
from walproof.report.kinds.loads import load_view
from walproof.report.kinds.replays import replay_view
from walproof.report.kinds.statements import statement_view
from walproof.report.kinds.throughput import throughput_view
from walproof.report.layout import ReportView
from walproof.report.load import LOAD_METRIC
from walproof.report.replay import REPLAY_METRIC

SERIES_SHOWN = ("tps", *LAG_SERIES)
"""Names of the series that a report shows."""


def build_view(run: Run, trials: Sequence[Trial], series: Sequence[Series] = ()) -> ReportView:
    """Analyse the facts of a run, whole or interrupted, and lay them out.

    Of ``series`` those of SERIES_SHOWN are shown.
    Raises AnalysisError when the trials are not those of one run.
    """
    match run.plan.kind:
        case Statements():
            return statement_view(run, trials, analyse(run.plan, trials, "wal_bytes_decoded"))
        case PowerCuts():
            return cut_view(run, trials, analyse(run.plan, trials, "cut_acknowledged"))
        case Replay() | Streaming():
            return replay_view(run, trials, series, analyse(run.plan, trials, REPLAY_METRIC))
        case Load():
            return load_view(run, trials, analyse(run.plan, trials, LOAD_METRIC))
    analysis = analyse(run.plan, trials)
    return throughput_view(run, trials, series, analysis, verdicts(run.plan, trials, analysis))
