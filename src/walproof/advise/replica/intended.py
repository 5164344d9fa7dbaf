"""What of a pair's lag nobody intends: a standby that is meant to replay late may receive late, too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import takewhile

from walproof.advise.replica.cause import Cause, NamedCause
from walproof.advise.replica.diagnosis import Diagnosis
from walproof.analysis.replication import LagSplit, Stage, StageLag

_STAGES: Mapping[Cause, frozenset[Stage]] = {
    Cause.APPLY_DELAY: frozenset({Stage.APPLY_DELAY, Stage.REPLAY, Stage.CONFLICT}),
    Cause.ARCHIVE_RECOVERY: frozenset({Stage.NETWORK, Stage.WRITE}),
    Cause.LOCAL_REPLAY: frozenset({Stage.NETWORK, Stage.WRITE}),
}
"""Stages whose lag an intended cause explains."""


def unintended(found: Diagnosis) -> tuple[NamedCause | None, LagSplit]:
    """The first cause, after intended ones, that nobody intends, and the lag without the stages that those
    explain."""
    intended = list(takewhile(lambda cause: cause.is_intended, found.causes))
    cause = next(iter(found.causes[len(intended) :]), None)
    explained = frozenset[Stage]().union(*(_STAGES.get(each.cause, frozenset()) for each in intended))
    if not explained:
        return cause, found.split
    stages = tuple(
        StageLag(stage.stage, 0, 0.0, False, 0.0) if stage.stage in explained else stage
        for stage in found.split.stages
    )
    left = replace(
        found.split,
        stages=stages,
        lag_bytes=sum(stage.lag_bytes for stage in stages),
        lag_s=sum(stage.lag_s for stage in stages),
        is_least=any(stage.is_least for stage in stages),
    )
    return cause, left
