"""What the stream of one server tells: crash clock and causes of WAL, and the costs of the clock."""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass, replace

from walproof.analysis.forecast import Costs
from walproof.analysis.watch.causes import CauseWatch
from walproof.analysis.watch.clock import crash_clock
from walproof.analysis.watch.disk import watched_keepers
from walproof.cli.costs import find_costs
from walproof.cli.watch_order import ServerOrder
from walproof.cli.watch_sizes import NAMES, WatchedSizes
from walproof.errors import WalproofError
from walproof.facts.wal_causes import WalCauses
from walproof.facts.watch import CrashClock, DataDirectory, StreamPhase, StreamState, WatchLook
from walproof.facts.watch_sizes import SizeCurve
from walproof.observe.data_files import DataFiles, dirty_bytes
from walproof.observe.feed import FeedBeginning, WalFeed, WalSink
from walproof.observe.leaving import Observer, join_all, stop_all
from walproof.observe.names import RelationNames
from walproof.units import Lsn, parse_bytes
from walproof.wal.recovery import PAGE_BYTES
from walproof.wal.stream import ClockState, StreamSnapshot, WalStream

_REASONS = {
    ClockState.NO_CHECKPOINT: "no redo point is known yet; the next checkpoint brings one",
    ClockState.HOLE: "WAL is missing since the redo point; the next checkpoint ends that",
    ClockState.TRACE_TOO_LONG: "the last checkpoint took longer than what is remembered; the next one ends "
    "that",
}
_FILES_A_RELATION, _OTHER_FILES = 1.2, 400
"""Free space and visibility maps of some relations; template0, which nobody may look into; and WAL."""


@dataclass(frozen=True, slots=True)
class StreamMoment:
    """What the stream tells at one moment."""

    state: StreamState
    clock: CrashClock | None = None
    causes: WalCauses | None = None
    notes: tuple[str, ...] = ()
    sizes: SizeCurve | None = None


class Clock:
    """Streams from ``start`` to ``stop``."""

    def __init__(self, server: ServerOrder, max_retained_bytes: int) -> None:
        self._feed = WalFeed(server.conninfo, self._begin, max_retained_bytes, server.bytes_per_s_most, NAMES)
        self._wal_disk_bytes = server.wal_disk_bytes
        self._sizes = WatchedSizes(server.recovery_s, server.wal_disk_bytes)
        self._stream: WalStream | None = None
        self._names = RelationNames(server.conninfo)
        self._files = DataFiles()
        self._beginning: FeedBeginning | None = None
        self._causes = CauseWatch()
        self._costs = Costs()
        self._buffers = 0
        self._observers: tuple[Observer, ...] = (self._feed, self._names, self._files)
        # A file that cannot be read is said before anything is watched, and is not asked again: weeks later
        # it may be gone.
        self._given = (
            None if server.calibration is None else find_costs(server.calibration, 0, other_machine=True)
        )

    def start(self) -> None:
        """Begin to stream, to read names and to count files."""
        self._feed.__enter__()
        self._names.__enter__()
        self._files.__enter__()

    def stop(self) -> None:
        """End soon; nobody waits for that."""
        stop_all(self._observers)

    def join(self, patience_s: float) -> None:
        """Wait for the end of all threads, together no longer than that."""
        join_all(self._observers, patience_s)

    def hurry(self) -> None:
        """Stream again at once: the server answers again."""
        self._feed.hurry()

    @property
    def is_settled(self) -> bool:
        """Whether the end of WAL was reached, or never will be."""
        return self._feed.state.phase in (StreamPhase.LIVE, StreamPhase.BROKEN)

    def now(self, look: WatchLook | None = None) -> StreamMoment:
        """The clock, the causes, how the stream is doing, where the costs come from, and the what-if curve.

        ``look``: the newest; None where the server does not answer.
        """
        told = self._told()
        settings = None if look is None else look.settings
        keepers = None if look is None else watched_keepers(look, self._wal_disk_bytes)
        sizes = self._sizes.now(settings, told.clock, keepers)
        told = replace(told, sizes=sizes, notes=(*told.notes, *self._sizes.notes))
        if self._stream is not None:
            # Another one where settings were changed.
            self._stream.also = self._sizes.rolling
        return told

    def _told(self) -> StreamMoment:
        state, snapshot = self._feed.state, self._feed.snapshot()
        if snapshot is None:
            self._causes.forget()
            return StreamMoment(state)
        assert isinstance(snapshot, StreamSnapshot)
        is_live = state.phase is StreamPhase.LIVE
        self._causes.see(time.monotonic(), snapshot, is_live=is_live)
        causes = self._causes.causes(self._names.by_place)
        if causes is not None and any(not cause.kind for cause in (*causes.top, *causes.recent)):
            self._names.want()
        if snapshot.clock is None:
            return StreamMoment(replace(state, reason=_REASONS.get(snapshot.state, "")), None, causes)
        clock = crash_clock(
            snapshot.clock, self._buffers, self._costs, is_recomputing=snapshot.recomputing,
            directory=self._directory(),
        )  # fmt: skip
        return StreamMoment(state, clock, causes, self._costs.notes)

    def _directory(self) -> DataDirectory | None:
        """The size as seen on this machine, else as catalogs tell it."""
        begun, count = self._beginning, self._files.count
        if begun is None:
            return None
        if count is not None:
            return DataDirectory(
                begun.is_synced, begun.sync_method, count.files, count.recent, dirty_bytes(), True
            )  # fmt: skip
        relations = len(self._names.by_place)
        if not relations and begun.is_synced:
            return None
        files = round(relations * _FILES_A_RELATION) + _OTHER_FILES
        return DataDirectory(begun.is_synced, begun.sync_method, files, None, None, False)

    def _begin(self, beginning: FeedBeginning) -> WalSink:
        self._beginning = beginning
        self._files.count_in(
            beginning.data_directory if beginning.is_here else None, beginning.system_identifier
        )
        self._buffers = parse_bytes(beginning.shared_buffers) // PAGE_BYTES
        self._costs = self._costs_of(beginning)
        self._stream = WalStream(
            buffers=[self._buffers],
            segment_size=beginning.segment_bytes,
            redo=Lsn(beginning.redo),
            concurrency=beginning.io_concurrency,
            read_ahead_kb=self._costs.disk.read_ahead_kb,
            trace_folder=tempfile.gettempdir(),
            also=self._sizes.begin(beginning),
        )
        return self._stream

    def _costs_of(self, beginning: FeedBeginning) -> Costs:
        """This machine's calibrations say nothing about a server elsewhere."""
        if self._given is not None:
            return self._given
        if not beginning.is_here:
            return Costs()
        try:
            return find_costs(None, beginning.version_num // 10000)
        except WalproofError:
            # One that cannot be read, or no home folder: the shipped ones serve, and other servers go on.
            return Costs()
