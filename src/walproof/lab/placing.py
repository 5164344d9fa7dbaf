"""Where windows and slices lie after the checkpoint that precedes the load: right after it, or where the load
is steady. It is the same for all variants: so much load runs before the first slice or window of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from walproof.errors import StudyError
from walproof.facts import Placing, Workload
from walproof.lab.asked import Asked
from walproof.lab.kind import LabKind


def placed(asked: Asked, half: LabKind[Any], workloads: Sequence[Workload]) -> tuple[Workload, ...]:
    """The workloads, with a warm-up that ends where the study's place begins. Raises StudyError."""
    design = asked.study.design
    if asked.place is not Placing.STEADY:
        return tuple(workloads)
    reason = None
    if not half.toggles:
        reason = f"a study of {half.kind.noun} has no load that could become steady"
    elif asked.settle_s <= 0:
        reason = "the load before windows and slices has no length"
    elif design.checkpoint == "none":
        reason = 'it is a place after the checkpoint before the load, and checkpoint is "none"'
    elif any(workload.transactions is not None for workload in workloads):
        reason = "a number of transactions has no warm-up that could be left out"
    if reason is not None:
        raise StudyError('the study cannot have place = "steady" (--settle)', detail=reason)
    return tuple(replace(prepared, warmup_s=max(prepared.warmup_s, asked.settle_s)) for prepared in workloads)
