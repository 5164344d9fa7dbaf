"""Servers that are watched without a server: looks a second apart, made from rates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from walproof.advise.replica.diagnosis import Diagnosis
from walproof.advise.watch.concern import Concern, Thresholds
from walproof.advise.watch.concerns import Concerns
from walproof.analysis.watch.assessment import Assessment, Assessor, Limits
from walproof.facts.wal_causes import WalCauses
from walproof.facts.watch import (
    CrashClock,
    NoAnswer,
    Span,
    StreamPhase,
    StreamState,
    WatchedArchiver,
    WatchedCheckpoint,
    WatchedSlot,
    WatchedStandby,
    WatchLook,
)
from walproof.facts.watch_sizes import SizeCurve, SizePoint
from walproof.report.watch.view import ServerView

MB = 1 << 20
SEGMENT = 16 * MB
BEGAN = 1_790_000_000.0
START = 1000 * SEGMENT
SETTINGS = {
    "archive_mode": "on", "checkpoint_timeout": "5min", "max_wal_size": "1GB", "wal_keep_size": "0",
    "max_slot_wal_keep_size": "-1", "checkpoint_completion_target": "0.9", "wal_segment_size": "16MB",
}  # fmt: skip


@dataclass(frozen=True)
class Server:
    """What a server does each second; a healthy one with a standby and an archive by default."""

    wal_bytes_per_s: int = 2 * MB
    archived_share: float = 1.0
    """Of the segments that are made."""
    is_failing: bool = False
    slots: Sequence[WatchedSlot] = ()
    standby: Callable[[int, int], WatchedStandby | None] = field(
        default=lambda lsn, second: standby(lsn, lsn, lsn)
    )
    """From end of WAL and second."""
    settings: Mapping[str, str] = field(default_factory=dict)
    lists_files: bool = True

    def look(self, second: int) -> WatchLook:
        made = self.wal_bytes_per_s * second
        lsn = START + made
        archived = int(made * self.archived_share) // SEGMENT
        waiting = made // SEGMENT - archived
        own = self.standby(lsn, second)
        return WatchLook(
            seen_s=float(second),
            at=BEGAN + second,
            version="18.4",
            version_num=180004,
            system_identifier="1",
            started_at=BEGAN - 3600,
            is_in_recovery=False,
            lsn=lsn,
            settings={**SETTINGS, **self.settings},
            checkpoint=WatchedCheckpoint(lsn - min(made, 100 * MB), BEGAN + second - 30, 1),
            pg_wal_bytes=(waiting + 10) * SEGMENT if self.lists_files else None,
            archiver=WatchedArchiver(
                archived=500 + archived,
                failed=second if self.is_failing else 0,
                last_segment=segment_name(START // SEGMENT - 1 + archived),
                last_at=BEGAN - 60 if self.is_failing else BEGAN + second,
                failed_segment=segment_name(START // SEGMENT) if self.is_failing else None,
                failed_at=BEGAN + second if self.is_failing else None,
                ready=waiting if self.lists_files else None,
            ),
            slots=tuple(self.slots),
            standbys=() if own is None else (own,),
            lacks=() if self.lists_files else ("the size of pg_wal: permission denied",),
        )


def segment_name(number: int) -> str:
    return f"{1:08X}{number // 256:08X}{number % 256:08X}"


def slot(
    name: str = "etl",
    *,
    is_active: bool = False,
    restart: int = START - MB,
    wal_status: str = "extended",
    safe_bytes: int | None = None,
) -> WatchedSlot:
    return WatchedSlot(name, "physical", is_active, False, restart, wal_status, safe_bytes)


def standby(sent: int, flushed: int, replayed: int, wait: str = "Activity/WalSenderMain") -> WatchedStandby:
    return WatchedStandby("a", 7, "streaming", "async", None, sent, flushed, flushed, replayed, 0.5, wait)


def clock(seconds: float, factor: float = 1.4) -> CrashClock:
    span = Span(seconds, seconds / factor, seconds * factor)
    return CrashClock(
        span, seconds * 0.9, seconds * 0.1, span, seconds, 1.0, 300 * MB, "changing pages", "calibrated",
        is_recomputing=False,
    )  # fmt: skip


def size_curve() -> SizeCurve:
    """Of a server at 1 GB, to which 4 GB are advised."""
    gb = 1 << 30

    def point(size_mb: int, wal: float, cycles: int) -> SizePoint:
        return SizePoint(
            size_mb, 300, wal * gb, 0.93 * wal * gb, 1.08 * wal * gb, cycles, 1.9 * size_mb * MB,
            2 * size_mb * MB, size_mb / 64, "high" if cycles > 5 else "medium",
        )  # fmt: skip

    points = [(256, 81.0, 96), (512, 52.0, 48), (1024, 33.0, 24), (2048, 19.0, 12), (4096, 12.0, 6),
              (8192, 11.8, 3)]  # fmt: skip
    made = tuple(point(*one) for one in points)
    return SizeCurve(
        BEGAN - 4 * 3600, BEGAN, 132 * gb, 1, 1024, made, made[4], (("max_wal_size", "4GB"),), 310_000,
        27_950, 0.008, 1_400_000,
    )  # fmt: skip


def assessor(room_bytes: int | None = None) -> Assessor:
    return Assessor("db1", Limits(room_bytes), 1.0)


def assessed(server: Server, seconds: int = 30, room_bytes: int | None = None) -> Assessment:
    """What is known about a server that was watched for so long."""
    found = assessor(room_bytes)
    found.see([server.look(second) for second in range(seconds + 1)])
    return found.assess(float(seconds), BEGAN + seconds)


def concerns(
    seen: Assessment,
    limits: Thresholds | None = None,
    crash: CrashClock | None = None,
    causes: WalCauses | None = None,
    pairs: Mapping[str, Diagnosis] | None = None,
) -> tuple[Concern, ...]:
    return Concerns(limits or Thresholds()).of(seen, crash, causes, pairs or {}, BEGAN)


def view(
    server: Server, *, room_bytes: int | None = None, crash: CrashClock | None = None, seconds: int = 30
) -> ServerView:
    limits = Thresholds(recovery_s=60.0)
    seen = assessed(server, seconds, room_bytes=room_bytes)
    return ServerView(
        seen, concerns(seen, limits, crash), StreamState(StreamPhase.LIVE), crash, target_s=60.0,
        sizes=size_curve(),
    )  # fmt: skip


def gone(since: float = BEGAN, seen_s: float = 0.0) -> NoAnswer:
    return NoAnswer(seen_s, since, "connection refused", "Is it running?")
