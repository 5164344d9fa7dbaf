"""A recording of a server that lets nobody stream its WAL, made from what pg_walinspect tells."""

from __future__ import annotations

import errno
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from walproof.errors import DiskError, ProbeError, WalError, WalproofError
from walproof.units import Lsn, format_bytes, format_duration

if TYPE_CHECKING:
    from walproof.observe.walinspect import WalInspector
    from walproof.wal.recording import Position

MOST_BYTES = 512 << 20
"""Most WAL to ask for: the server decodes every record for it."""
_CATCH_UP_S = 30.0
"""How long to continue after the window for what was written in it."""
_IDLE_S = 0.5


@dataclass(frozen=True, slots=True)
class ToldOutcome:
    """What became of the recording."""

    records: int
    wal_bytes: int
    spent_s: float
    """Time that the questions took on the server."""
    ended_because: str

    @property
    def sentence(self) -> str:
        """The sentence for the reader of the advice."""
        from walproof.lab.receiver import DISK

        why = "until the disk was nearly full" if self.ended_because == DISK else self.ended_because
        return (
            f"pg_walinspect told {format_bytes(self.wal_bytes)} of it instead ({self.records:,} records, "
            f"{format_duration(self.spent_s)} of queries, {why}), without contents: how well "
            "images compress is not known"
        )


def record_told(
    conninfo: str, seconds: float, folder: Path, most: int, tick: Callable[[float, int], None]
) -> ToldOutcome:
    """Record what the server tells of its WAL for that long. Raises ProbeError, WalError, and DiskError for
    a folder that cannot be used.

    ``tick`` is told the seconds and bytes so far, often.
    """
    from walproof.observe.walinspect import WalInspector

    with WalInspector(conninfo) as inspector:
        made = _Recorder(inspector, folder, min(most, MOST_BYTES))
        return made.run(seconds, tick)


class _Recorder:
    def __init__(self, inspector: WalInspector, folder: Path, most: int) -> None:
        from walproof.wal.recording import Position
        from walproof.wal.told import ToldWal

        self._inspector, self._folder, self._most = inspector, folder, most
        server = inspector.server
        self._wal = ToldWal(
            server.major, server.system_identifier, server.timeline, server.segment_bytes, inspector.began
        )
        self._positions: list[Position] = [Position(_now(), inspector.began)]

    def run(self, seconds: float, tick: Callable[[float, int], None]) -> ToldOutcome:
        from walproof.files import private_folder
        from walproof.lab.receiver import DISK
        from walproof.lab.segments import SegmentFolder
        from walproof.wal.segment import segment_holding

        server = self._inspector.server
        start = segment_holding(self._inspector.began, server.segment_bytes)
        try:
            private_folder(self._folder)
            if any(self._folder.iterdir()):
                # The recording of before, whose server ended it: nothing that the user could put away.
                raise ProbeError(f'folder "{self._folder}" is not empty')
            with SegmentFolder(self._folder, server.timeline, server.segment_bytes, start) as segments:
                try:
                    why = self._follow(seconds, tick, segments.write)
                    segments.flush()
                except OSError as error:
                    if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                        raise
                    why = DISK
                # What no longer fitted is not part of it.
                end = self._wal.position if why != DISK else min(self._wal.position, Lsn(segments.flushed))
            return self._kept(why, end)
        except OSError as error:
            raise DiskError(f'could not write to "{self._folder}": {error.strerror}') from error

    def _kept(self, why: str, end: Lsn) -> ToldOutcome:
        try:
            self._write(why, end)
        except WalError as error:
            # Nobody can read the segments without it, and the look goes on without them.
            for segment in self._folder.glob("0*"):
                segment.unlink()
            return ToldOutcome(0, 0, self._inspector.spent_s, error.message)
        told = max(0, end - (self._wal.first or end))
        return ToldOutcome(self._wal.records, told, self._inspector.spent_s, why)

    def _follow(
        self, seconds: float, tick: Callable[[float, int], None], write: Callable[[memoryview], None]
    ) -> str:
        """Pieces until the window, and what was written in it, or the disk's room are over; why it ended.
        Raises OSError."""
        from walproof.lab.capture import LEAST_FREE_BYTES
        from walproof.lab.receiver import DISK
        from walproof.observe.walinspect import REST

        began_s = rested_until_s = time.monotonic()
        until: Lsn | None = None
        try:
            while True:
                now_s = time.monotonic()
                passed_s, read = now_s - began_s, self._wal.position - self._inspector.began
                if read > self._most:
                    return f"more than {format_bytes(self._most)} were not wanted"
                if shutil.disk_usage(self._folder).free < LEAST_FREE_BYTES:
                    return DISK
                if until is None:
                    tick(passed_s, read)
                    if passed_s >= seconds:
                        until = self._look()
                elif passed_s > seconds + _CATCH_UP_S:
                    return "the server writes faster than it is asked"
                if now_s < rested_until_s:
                    time.sleep(min(_IDLE_S / 2, rested_until_s - now_s))
                    continue
                piece = self._inspector.piece(until)
                if piece is not None:
                    self._look()
                    write(memoryview(self._wal.push(piece.records, piece.data, _now())))
                elif until is not None:
                    return "time"
                rest_s = _IDLE_S if piece is None else piece.took_s * REST
                rested_until_s = time.monotonic() + (rest_s if until is None else 0.0)
        except WalproofError as error:
            return error.detail or error.message

    def _look(self) -> Lsn:
        """The current end of WAL."""
        from walproof.wal.recording import Position

        tip = self._inspector.tip()
        self._positions.append(Position(_now(), tip))
        return tip

    def _write(self, why: str, end: Lsn) -> None:
        from walproof.wal.recording import Position, Recording, write_recording
        from walproof.wal.strip import without_words

        server, wal = self._inspector.server, self._wal
        first, last = self._positions[0], self._positions[-1]
        began = Position(first.at, wal.first or first.lsn)
        recording = Recording(
            system_identifier=server.system_identifier,
            version_num=server.version_num,
            timeline=server.timeline,
            segment_bytes=server.segment_bytes,
            settings=server.settings,
            began=began,
            ended=Position(last.at, Lsn(max(end, began.lsn))),
            positions=tuple(self._positions),
            ended_because=why,
        )
        write_recording(self._folder, without_words(recording))


def _now() -> float:
    """Unix time in ms, which is what a recording keeps."""
    return round(time.time(), 3)
