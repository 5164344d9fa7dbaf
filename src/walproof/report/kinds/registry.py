"""Every kind of study, one line each."""

from __future__ import annotations

from typing import Any

from walproof.facts import Kind
from walproof.report.kind import ReportKind
from walproof.report.kinds.backup.kind import BackupReport
from walproof.report.kinds.failover.kind import FailoverReport
from walproof.report.kinds.loading.kind import LoadingReport
from walproof.report.kinds.power_cuts.kind import PowerCutsReport
from walproof.report.kinds.replay.kind import ReplayReport
from walproof.report.kinds.statements.kind import StatementsReport
from walproof.report.kinds.streaming.kind import StreamingReport
from walproof.report.kinds.throughput.kind import ThroughputReport

KINDS: tuple[ReportKind[Any], ...] = (
    BackupReport(),
    FailoverReport(),
    LoadingReport(),
    PowerCutsReport(),
    ReplayReport(),
    StreamingReport(),
    StatementsReport(),
    ThroughputReport(),
)


def report_kind(kind: Kind) -> ReportKind[Any]:
    """The offline half of a plan's kind."""
    return next(half for half in KINDS if type(kind) is half.kind)
