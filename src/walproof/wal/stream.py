"""What recovery of one server's WAL would take, and what causes that WAL, kept up to date while it arrives.

    >>> from walproof.wal.stream import WalStream
    >>> stream = WalStream(buffers=[16384], segment_size=16 << 20, redo=redo)  # doctest: +SKIP
    >>> stream.observe(lsn, data)  # doctest: +SKIP
    >>> stream.snapshot().clock.pools[16384].reads  # doctest: +SKIP

The clock is what ``walproof.wal.recovery.analyse`` counts of the WAL from the redo point of the last complete
checkpoint to the last record that has come; pages that the server had written before (``crashed`` there) are
not simulated. crates/walproof-recovery/src/live does the work, without holding the GIL. Time is the business
of ``walproof.analysis``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from enum import StrEnum
from typing import Any

from walproof._native import WalLive
from walproof.errors import WalError
from walproof.units import Lsn
from walproof.wal.native import from_native
from walproof.wal.recovery import PAGE_BYTES, READ_AHEAD_KB, RecoveryWork, check_buffers
from walproof.wal.rolling import RollingWhatIf
from walproof.wal.totals import Gap, WalTotals, gaps_of

RelationKey = tuple[int, int, int]
"""OIDs of tablespace and database, and the relation's file number."""
_TRACE_BYTES = 1 << 30
"""13 to 16 keep so many bytes of the records since a checkpoint at most."""


class ClockState(StrEnum):
    """Why there is a crash clock, or none."""

    KNOWN = "known"
    RECOMPUTING = "recomputing"
    """A checkpoint has completed: the clock is still the earlier answer, up to its ``end``."""
    NO_CHECKPOINT = "no checkpoint"
    """No redo point is known yet."""
    HOLE = "hole"
    """WAL has been missing since then."""
    TRACE_TOO_LONG = "trace too long"
    """13 to 16: the redo point lay before what the trace still had. Known again after the next checkpoint."""


@dataclass(frozen=True, slots=True)
class Changes:
    """What is done to a relation, as far as it causes storms of WAL. Bytes include page images."""

    updates: int = 0
    """Records that update a row."""
    update_bytes: int = 0
    update_runs: int = 0
    """Runs of them by the same transaction. Many updates in each run mean a transaction that changes many
    rows."""
    freezes: int = 0
    """Records that freeze rows."""
    freeze_bytes: int = 0
    keys: int = 0
    """Records that bring a key into an index; not those that clean or build it."""
    key_images: int = 0
    """Those with an image of the key's page."""
    key_image_bytes: int = 0

    def __sub__(self, earlier: Changes) -> Changes:
        return Changes(*(now - then for now, then in zip(astuple(self), astuple(earlier), strict=True)))


@dataclass(frozen=True, slots=True)
class RelationWal:
    """A relation, its forks together."""

    tablespace: int
    database: int
    relation: int
    """File number (pg_class.relfilenode)."""
    counted_from: Lsn
    """From where it is told apart; what came before is among the other relations."""
    totals: WalTotals
    changes: Changes = Changes()


@dataclass(frozen=True, slots=True)
class StreamCheckpoint:
    """A complete checkpoint."""

    lsn: Lsn
    redo: Lsn
    is_shutdown: bool
    at: float
    """Unix time at which it began, in whole seconds."""


@dataclass(frozen=True, slots=True)
class WalByCause:
    """Totals between two snapshots."""

    all: WalTotals
    by_rmgr: Mapping[str, WalTotals]
    by_relation: Mapping[RelationKey, WalTotals]
    """Those with any."""
    changes: Mapping[RelationKey, Changes]
    """The same relations."""
    other_relations: WalTotals
    no_relation: WalTotals
    commits: int
    aborts: int


@dataclass(frozen=True, slots=True)
class StreamSnapshot:
    """Everything at a moment."""

    version: int | None
    """None until the first page."""
    system_identifier: int | None
    """None until the first page of a segment."""
    segment_size: int
    """Bytes."""
    timeline: int
    """0 until the first page."""
    received: Lsn
    """End of the bytes fed."""
    start: Lsn | None
    """First record."""
    end: Lsn | None
    """End of the last complete record, padding included; None before the first."""
    state: ClockState
    clock: RecoveryWork | None
    """The work from the redo point to ``clock.end``, which is ``end`` unless it is being recomputed."""
    redo: Lsn | None
    """Redo point of the clock."""
    next_redo: Lsn | None
    """From 17 on: redo point of the checkpoint that is running."""
    checkpoint: StreamCheckpoint | None
    """The last complete checkpoint that was seen."""
    all: WalTotals
    by_rmgr: Mapping[str, WalTotals]
    """Totals by name: ``Heap``, ``Btree``, ``XLOG``."""
    by_relation: Mapping[RelationKey, RelationWal]
    other_relations: WalTotals
    """Totals of the relations that are not told apart."""
    no_relation: WalTotals
    """Records without blocks."""
    commits: int
    aborts: int
    gaps: tuple[Gap, ...]
    """WAL that was not seen."""
    memory_bytes: int
    """Bytes that the simulations hold, roughly."""

    @property
    def recomputing(self) -> bool:
        """Whether the clock is still the answer from before a checkpoint."""
        return self.state is ClockState.RECOMPUTING

    def since(self, earlier: StreamSnapshot) -> WalByCause:
        """Totals since an earlier snapshot of the same stream. They are exact even if relations are no longer
        told apart, or are again."""
        others = self.other_relations - earlier.other_relations
        by_relation, changes = {}, {}
        for key, row in self.by_relation.items():
            before = earlier.by_relation.get(key)
            if before is None or before.counted_from != row.counted_from:
                before = RelationWal(*key, row.counted_from, WalTotals())
            by_relation[key] = row.totals - before.totals
            changes[key] = row.changes - before.changes
        for key, before in earlier.by_relation.items():
            now = self.by_relation.get(key)
            if now is None or now.counted_from != before.counted_from:
                # Since then it is among the others, with what it had.
                others = others - before.totals
        none = WalTotals()
        return WalByCause(
            all=self.all - earlier.all,
            by_rmgr={
                name: totals - earlier.by_rmgr.get(name, none)
                for name, totals in self.by_rmgr.items()
                if totals != earlier.by_rmgr.get(name, none)
            },
            by_relation={key: totals for key, totals in by_relation.items() if totals != none},
            changes={key: changes[key] for key, totals in by_relation.items() if totals != none},
            other_relations=others,
            no_relation=self.no_relation - earlier.no_relation,
            commits=self.commits - earlier.commits,
            aborts=self.aborts - earlier.aborts,
        )


class WalStream:
    """One server's WAL as it arrives. For one thread at a time."""

    def __init__(
        self,
        *,
        buffers: Sequence[int],
        segment_size: int,
        redo: Lsn | None = None,
        concurrency: int | None = None,
        read_ahead_kb: int = READ_AHEAD_KB,
        relations_most: int = 1000,
        trace_folder: str | os.PathLike[str] | None = None,
        also: RollingWhatIf | None = None,
    ) -> None:
        """``buffers``: sizes of shared_buffers, in buffers of 8 kB; ``segment_size``: wal_segment_size, in
        bytes; ``redo``: redo point of the last complete checkpoint (pg_control_checkpoint()), from which the
        clock runs if what is fed begins on its page or before; ``concurrency``: maintenance_io_concurrency,
        by default that of the version; ``read_ahead_kb``: of the server's disk; ``relations_most``: relations
        told apart, at least (the sum of the others is kept); ``trace_folder``: where 13 to 16 keep the
        records since a checkpoint beyond 32 MB, in a file without a name (without it all are in memory, at
        most 64 MB); ``also``: takes every record, too, and the timelines.

        Raises WalError: sizes that no server can have, or a folder where no file can be made.
        """
        self._sizes = check_buffers(buffers)
        if not (1 << 20 <= segment_size <= 1 << 30 and segment_size.bit_count() == 1):
            raise WalError(
                f"no server has segments of {segment_size} bytes",
                detail="wal_segment_size is a power of two from 1 MB to 1 GB.",
            )
        self._segment_size = segment_size
        self.also = also
        """May be exchanged at any time."""
        self._live = WalLive(
            segment_size,
            buffers=self._sizes,
            concurrency=concurrency,
            read_ahead=read_ahead_kb * 1024 // PAGE_BYTES,
            redo=redo,
            relations=relations_most,
            trace_bytes=_TRACE_BYTES,
            trace_folder=trace_folder,
        )

    def observe(self, lsn: Lsn, data: bytes) -> None:
        """Take any number of bytes of WAL from ``lsn`` on; those that came before are passed over. After a
        start in the middle of a page, bytes up to the next page are passed over. Raises WalError for a hole,
        when nothing is taken, and for bytes that are not WAL, after which no more are taken; `restart` helps.
        """
        also = self.also
        if also is None:
            self._live.observe(lsn, data)
            return
        with also.lock:
            self._live.observe(lsn, data, also.native)

    def restart(self) -> None:
        """Let what is fed next begin anywhere. Totals stay; the clock is unknown until a checkpoint whose
        redo point was seen, or `set_redo`."""
        self._live.restart()

    def set_redo(self, redo: Lsn) -> None:
        """Set the redo point after `restart`, or before the first bytes, as ``redo`` of the constructor."""
        self._live.set_redo(redo)

    def switch_timeline(self, timeline: int, lsn: Lsn) -> None:
        """Note that the server's WAL goes on at ``lsn`` on a newer timeline: bytes after it on the old one
        are dropped. If records after it have already been counted, this is a `restart`. Raises WalError if it
        is not newer."""
        self._live.switch_timeline(timeline, lsn)
        if self.also is not None:
            self.also.switch_timeline(timeline, lsn)

    def recompute(self, records: int = 1_000_000) -> bool:
        """Simulate so many records again (13 to 16, after a checkpoint); return whether there are more.
        `observe` does some each time, too."""
        return self._live.recompute(records)

    def snapshot(self) -> StreamSnapshot:
        """What is known at this moment."""
        raw = self._live.snapshot()
        rmgrs = {name: WalTotals(*columns) for name, columns in raw["rmgrs"]}
        return StreamSnapshot(
            version=raw["version"],
            system_identifier=raw["system_identifier"],
            segment_size=self._segment_size,
            timeline=raw["timeline"],
            received=Lsn(raw["received"]),
            start=_lsn(raw["start"]),
            end=_lsn(raw["end"]),
            state=ClockState(raw["state"]),
            clock=None if raw["clock"] is None else self._work(raw["clock"]),
            redo=_lsn(raw["redo"]),
            next_redo=_lsn(raw["next_redo"]),
            checkpoint=_checkpoint(raw["checkpoint"]),
            all=sum(rmgrs.values(), WalTotals()),
            by_rmgr=rmgrs,
            by_relation={
                (tablespace, database, relation): RelationWal(
                    tablespace, database, relation, Lsn(counted_from), WalTotals(*columns), Changes(*changes)
                )
                for (tablespace, database, relation), counted_from, columns, changes in raw["relations"]
            },
            other_relations=WalTotals(*raw["others"]),
            no_relation=WalTotals(*raw["none"]),
            commits=raw["commits"],
            aborts=raw["aborts"],
            gaps=gaps_of(raw["gaps"]),
            memory_bytes=raw["memory_bytes"],
        )

    def _work(self, told: Mapping[str, Any]) -> RecoveryWork:
        return from_native(
            RecoveryWork,
            {
                **told["work"],
                "start": told["start"],
                "end": told["end"],
                "segment_size": self._segment_size,
                "pools": dict(zip(self._sizes, told["pools"], strict=True)),
                "pools_off": dict(zip(self._sizes, told["pools_off"], strict=True)),
            },
        )


def _lsn(told: int | None) -> Lsn | None:
    return None if told is None else Lsn(told)


def _checkpoint(told: tuple[int, int, bool, int] | None) -> StreamCheckpoint | None:
    if told is None:
        return None
    lsn, redo, is_shutdown, at = told
    return StreamCheckpoint(Lsn(lsn), Lsn(redo), is_shutdown, float(at))
