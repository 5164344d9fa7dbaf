"""The offline half of a kind of study; its other half is ``walproof.lab.kind.LabKind``."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from walproof.facts import Plan, Run, Series, Trial
from walproof.report.layout import ReportView
from walproof.report.words import K, KindWords


class ReportKind(KindWords[K]):
    """What a report shows of a kind, and the kind's name."""

    metric: ClassVar[str]
    """Metric by which its variants are compared, as a rule."""
    series: ClassVar[tuple[str, ...]] = ()
    """Names of the series that its report shows."""

    def metric_of(self, plan: Plan) -> str:
        """Metric by which the variants of this plan are compared."""
        return self.metric

    @abstractmethod
    def view(self, run: Run, trials: Sequence[Trial], series: Sequence[Series]) -> ReportView:
        """Analyse the facts of a run, whole or interrupted, and lay them out.

        Raises AnalysisError when the trials are not those of one run.
        """
