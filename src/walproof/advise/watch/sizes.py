"""max_wal_size of a watched server: the curve of the last hours, with today's point and what is advised."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from walproof.advise.server.sizing import choice
from walproof.analysis.server_limits import ServerLimits
from walproof.analysis.whatif import Question, ServerPrediction, study
from walproof.facts.watch_sizes import SizeCurve, SizePoint
from walproof.wal.whatif import WhatIf

LEAST_S = 60.0
LEAST_BYTES = 16 << 20
"""Of WAL; less says nothing."""


def size_curve(
    found: WhatIf,
    question: Question,
    limits: ServerLimits,
    time_away_s: Callable[[float], float] | None,
    memory_bytes: int,
) -> SizeCurve | None:
    """``time_away_s``: of a crash recovery that reads so much WAL. None where too little was seen."""
    recorded = found.recorded
    first_us, last_us = recorded.first_time_us, recorded.last_time_us
    if first_us is None or last_us is None or not recorded.tells_time:
        return None
    if last_us - first_us < LEAST_S * 1e6 or found.wal_bytes < LEAST_BYTES:
        return None
    if time_away_s is None:
        # No answer can keep within what is not known.
        limits = replace(limits, recovery_s=None)
        told = study(found, question)
    else:
        away = time_away_s
        told = study(found, question, lambda prediction: away(prediction.distance_most))
    present = question.present
    chosen = choice(told, limits)
    also_mb = None if chosen is None else chosen.size_mb
    points = tuple(_point(prediction) for prediction in told.curve(present.checkpoint_timeout_s, also_mb))
    return SizeCurve(
        since=first_us / 1e6,
        until=last_us / 1e6,
        wal_bytes=found.wal_bytes,
        gaps=len(found.gaps),
        present_mb=present.max_wal_size_mb or 0,
        points=points,
        advised=None if chosen is None else replace(
            _point(chosen.prediction), max_wal_size_mb=chosen.size_mb or 0
        ),
        changes=() if chosen is None else tuple((change.name, change.value) for change in chosen.changes),
        pages=recorded.pages,
        held_pages=recorded.held_pages,
        sample_error=told.present.sample_error,
        memory_bytes=memory_bytes,
    )  # fmt: skip


def _point(prediction: ServerPrediction) -> SizePoint:
    return SizePoint(
        max_wal_size_mb=prediction.target.max_wal_size_mb or 0,
        checkpoint_timeout_s=prediction.target.checkpoint_timeout_s,
        wal_bytes_per_hour=prediction.wal_bytes,
        low=prediction.wal_span.low,
        high=prediction.wal_span.high,
        whole_cycles=prediction.cycles,
        redo_bytes_most=prediction.distance_most,
        pg_wal_bytes_most=prediction.pg_wal_most,
        recovery_s=prediction.recovery_s,
        sure=prediction.confidence,
    )
