"""Slices as they were cut, and as they are stored, the same for one server and for several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from walproof.facts import Slice
from walproof.probe.slices import Counted, Edge


@dataclass(frozen=True, slots=True)
class SliceSeen:
    """A slice, before its transactions are counted."""

    pass_number: int
    position: int
    variant: str
    begin: Edge
    end: Edge
    cpu_s: float | None

    @property
    def length_s(self) -> float:
        """Seconds from its beginning to its end."""
        return self.end.at - self.begin.at


def stored(
    seen: Sequence[SliceSeen], counted: Sequence[Counted], *, has_latencies: bool
) -> tuple[Slice, ...]:
    """The slices of a start in order, each with what was counted in it."""
    before = [None, *(slice_.variant for slice_ in seen)]
    return tuple(
        Slice(
            number=number,
            pass_number=slice_.pass_number,
            position=slice_.position,
            variant=slice_.variant,
            predecessor=predecessor,
            began_at=slice_.begin.at,
            ended_at=slice_.end.at,
            lsn_begin=slice_.begin.lsn,
            lsn_end=slice_.end.lsn,
            transactions=found.transactions,
            latency_ms_sum=found.latency_ms_sum if has_latencies else 0.0,
            latency_ms_p50=found.latency_ms_p50 if has_latencies else None,
            latency_ms_p95=found.latency_ms_p95 if has_latencies else None,
            latency_ms_p99=found.latency_ms_p99 if has_latencies else None,
            cpu_s=slice_.cpu_s,
        )
        for number, (slice_, found, predecessor) in enumerate(zip(seen, counted, before, strict=False), 1)
    )
