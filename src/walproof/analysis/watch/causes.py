"""Who writes the WAL, live: relations and resource managers, page images against records.

Totals of a stream grow only, so rates are differences of two snapshots some seconds apart.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import astuple, replace
from itertools import pairwise

from walproof.facts.wal_causes import RmgrWal, WalCause, WalCauses
from walproof.wal.relations import Relation
from walproof.wal.stream import Changes, StreamSnapshot, WalByCause
from walproof.wal.totals import WalTotals

WINDOW_S = 60.0
"""Length of the window of rates."""
RECENT_S = 15.0
"""Least length of what is judged as happening now, once it is there: with the steps it is up to 20 s."""
_STEP_S = 5.0
"""Seconds between two kept snapshots: each knows a thousand relations."""
_TOP = 5
_BEGUN = 0.25
"""Share of a relation's present rate: while it wrote less than that, its present activity had not begun."""
Place = tuple[int, int, int]
"""Tablespace, database, file number of a relation."""


class CauseWatch:
    """Follows the totals of a stream, and of those that follow it."""

    def __init__(self) -> None:
        self._totals: dict[str, WalTotals] = {}
        self._counted: StreamSnapshot | None = None
        """Up to where ``_totals`` count."""
        self._kept: deque[tuple[float, StreamSnapshot]] = deque()
        self._last: tuple[float, StreamSnapshot] | None = None

    def see(self, seen_s: float, snapshot: StreamSnapshot, *, is_live: bool = True) -> None:
        """Take note of a snapshot; ``seen_s``: the observer's monotonic clock.

        ``is_live``: whether the stream is up to date; until then it reads again what one before it may have
        counted.
        """
        self._count(snapshot, is_live=is_live)
        if self._kept and snapshot.all.records < self._kept[-1][1].all.records:
            self._kept.clear()  # another stream
        if not self._kept or seen_s - self._kept[-1][0] >= _STEP_S:
            self._kept.append((seen_s, snapshot))
        while seen_s - self._kept[0][0] > WINDOW_S and len(self._kept) > 1:
            self._kept.popleft()
        self._last = seen_s, snapshot

    def forget(self) -> None:
        """Forget everything but the totals: the stream has ended."""
        self._kept.clear()
        self._last = self._counted = None

    def _count(self, snapshot: StreamSnapshot, *, is_live: bool) -> None:
        before, none = self._counted, WalTotals()
        self._counted = snapshot if is_live else None
        if not is_live:
            return
        if before is None or snapshot.all.records < before.all.records:
            before = snapshot
        for name, totals in snapshot.by_rmgr.items():
            grown = totals - before.by_rmgr.get(name, none)
            self._totals[name] = self._totals.get(name, none) + grown

    def causes(self, names: Mapping[Place, Relation]) -> WalCauses | None:
        """The causes within the window; None until there are two snapshots."""
        if self._last is None or self._last[0] <= self._kept[0][0]:
            return None
        (then_s, then), (now_s, now) = self._kept[0], self._last
        seconds, grown = now_s - then_s, now.since(then)
        total = grown.all.combined_bytes
        recent_s, recent = next(
            ((at_s, kept) for at_s, kept in reversed(self._kept) if now_s - at_s >= RECENT_S), (then_s, then)
        )
        return WalCauses(
            seconds=seconds,
            bytes_per_s=total / seconds,
            image_share=grown.all.image_bytes / total if total else 0.0,
            commits_per_s=grown.commits / seconds,
            top=self._top(grown, seconds, names),
            totals={name: RmgrWal(*astuple(totals)) for name, totals in self._totals.items()},
            recent_s=now_s - recent_s,
            recent=self._top(now.since(recent), now_s - recent_s, names),
        )

    def _top(
        self, grown: WalByCause, seconds: float, names: Mapping[Place, Relation]
    ) -> tuple[WalCause, ...]:
        total = grown.all.combined_bytes
        ranked = sorted(grown.by_relation.items(), key=lambda row: -row[1].combined_bytes)[:_TOP]
        return tuple(
            replace(
                _cause(place, totals, grown.changes[place], total, seconds, names.get(place)),
                begun_s=self._begun_s(place),
            )
            for place, totals in ranked
        )

    def _begun_s(self, place: Place) -> float | None:
        """How long a relation has been writing as much as in the last whole step."""
        assert self._last is not None
        points = [(at_s, _written(snapshot, place)) for at_s, snapshot in (*self._kept, self._last)]
        if points[-1][0] - points[-2][0] < _STEP_S and len(points) > 2:
            points.pop(-2)
        (then_s, then), (now_s, now) = points[-2:]
        rate = (now - then) / (now_s - then_s)
        for (then_s, then), (later_s, later) in reversed(list(pairwise(points))):
            if later - then < _BEGUN * rate * (later_s - then_s):
                return now_s - later_s
        return None


def _written(snapshot: StreamSnapshot, place: Place) -> int:
    written = snapshot.by_relation.get(place)
    return 0 if written is None else written.totals.combined_bytes


def _cause(
    place: Place, wal: WalTotals, changes: Changes, total: int, seconds: float, relation: Relation | None
) -> WalCause:
    space, database, number = place
    combined = wal.combined_bytes
    return WalCause(
        place=place,
        name=f"file {space}/{database}/{number}" if relation is None else relation.label,
        kind="" if relation is None else relation.kind,
        bytes_per_s=combined / seconds,
        share=combined / total if total else 0.0,
        image_share=wal.image_bytes / combined if combined else 0.0,
        images_per_record=wal.image_count / wal.records if wal.records else 0.0,
        update_share=min(1.0, changes.update_bytes / combined) if combined else 0.0,
        updates_per_s=changes.updates / seconds,
        # A run that began before the window is none that begins in it.
        updates_per_run=changes.updates / max(1, changes.update_runs),
        freeze_share=min(1.0, changes.freeze_bytes / combined) if combined else 0.0,
        key_image_share=min(1.0, changes.key_image_bytes / combined) if combined else 0.0,
        images_per_key=changes.key_images / changes.keys if changes.keys else 0.0,
    )
