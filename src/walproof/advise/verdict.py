"""The verdicts of a run: every rule asked about every cell, then about the run.

A rule is a function of facts that answers with one finding or None. The two tables below hold all rules, in
the order of reading."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from walproof.advise.case import Case, cases
from walproof.advise.effects import failed_trials, throughput
from walproof.advise.finding import Finding
from walproof.advise.limits import client, commit_flush, disk, lock_share, other_wait, processors, row_lock
from walproof.advise.machine import no_checkpoint, steadiness, stolen_processors
from walproof.advise.volume import changed_level, uneven_checkpoints, wal_volume
from walproof.analysis.summary import Analysis
from walproof.facts import Plan, Trial

CellRule: TypeAlias = Callable[[Case], Finding | None]
RunRule: TypeAlias = Callable[[Plan, Sequence[Trial], Analysis], Finding | None]

CELL_RULES: tuple[CellRule, ...] = (
    throughput,
    failed_trials,
    commit_flush,
    row_lock,
    lock_share,
    processors,
    disk,
    client,
    other_wait,
    wal_volume,
    changed_level,
    uneven_checkpoints,
)
RUN_RULES: tuple[RunRule, ...] = (stolen_processors, no_checkpoint, steadiness)


def verdicts(plan: Plan, trials: Sequence[Trial], analysis: Analysis) -> tuple[Finding, ...]:
    """All findings: cell by cell in the plan's order, then those about the whole run."""
    asked = [rule(case) for case in cases(plan, trials, analysis) for rule in CELL_RULES]
    asked += [rule(plan, trials, analysis) for rule in RUN_RULES]
    return tuple(finding for finding in asked if finding is not None)
