"""Slices as they were cut, and as they are stored: the same for one server and for several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from walproof.facts import Slice
from walproof.probe.slices import Counted, Edge


@dataclass(frozen=True, slots=True)
class Seen:
    """A slice, before its transactions are counted."""

    pass_number: int
    position: int
    variant: str
    begin: Edge
    end: Edge
    cpu_s: float | None

    @property
    def length_s(self) -> float:
        """From its begin to its end."""
        return self.end.at - self.begin.at


def stored(seen: Sequence[Seen], counted: Sequence[Counted], *, has_latencies: bool) -> tuple[Slice, ...]:
    """A start's slices in their order, each with what was counted in it."""
    before = [None, *(one.variant for one in seen)]
    return tuple(
        Slice(
            number=number,
            pass_number=one.pass_number,
            position=one.position,
            variant=one.variant,
            predecessor=predecessor,
            began_at=one.begin.at,
            ended_at=one.end.at,
            lsn_begin=one.begin.lsn,
            lsn_end=one.end.lsn,
            transactions=found.transactions,
            latency_ms_sum=found.latency_ms_sum if has_latencies else 0.0,
            latency_ms_p50=found.latency_ms_p50 if has_latencies else None,
            latency_ms_p95=found.latency_ms_p95 if has_latencies else None,
            latency_ms_p99=found.latency_ms_p99 if has_latencies else None,
            cpu_s=one.cpu_s,
        )
        for number, (one, found, predecessor) in enumerate(zip(seen, counted, before, strict=False), 1)
    )
