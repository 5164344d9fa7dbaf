"""A folder of received segments, named, padded and completed as by pg_receivewal.

An incomplete segment ends in ``.partial``, has its full size from the beginning, and is zeros where nothing
has arrived. Space is reserved, not written, so a full disk is noticed before a segment begins
(src/bin/pg_basebackup/receivelog.c, open_walfile, writes the zeros).
"""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType

from walproof._native import WalStripper
from walproof.units import Lsn
from walproof.wal.images import ImageSamples

SYNC_BYTES = 16 << 20
"""The most bytes received between two flushes to disk, whatever the size of a segment."""


class SegmentFolder:
    """Context manager: writes WAL that arrives in order. Raises OSError, ENOSPC among them."""

    def __init__(self, folder: Path, timeline: int, segment_bytes: int, start: Lsn) -> None:
        """``start``: where the first segment begins."""
        assert start % segment_bytes == 0, "received from the start of a segment on"
        self._folder = folder
        self._timeline = timeline
        self._segment_bytes = segment_bytes
        self._file: int | None = None
        self._path = folder
        self._is_listed = False
        self.written = self.flushed = int(start)
        """End of what was written, and of what is on disk."""

    @property
    def received(self) -> int:
        """Where the next bytes to arrive begin."""
        return self.written

    def write(self, data: memoryview) -> None:
        """Append; a segment that is full is flushed, renamed and closed."""
        while data:
            if self._file is None:
                self._open()
            assert self._file is not None
            offset = self.written % self._segment_bytes
            done = os.pwrite(self._file, data[: self._segment_bytes - offset], offset)
            data = data[done:]
            self.written += done
            if self.written % self._segment_bytes == 0:
                self._complete()
            elif self.written - self.flushed >= SYNC_BYTES:
                self.flush()

    def finish(self) -> ImageSamples | None:
        """What the images told, if they are not kept."""
        return None

    def flush(self) -> None:
        """Return when everything written is on disk."""
        if self._file is not None and self.flushed < self.written:
            os.fdatasync(self._file)
            if not self._is_listed:
                self._flush_folder()
                self._is_listed = True
        self.flushed = self.written

    def __enter__(self) -> SegmentFolder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _open(self) -> None:
        number = self.written // self._segment_bytes
        a_log = 0x1_0000_0000 // self._segment_bytes
        name = f"{self._timeline:08X}{number // a_log:08X}{number % a_log:08X}"
        self._path = self._folder / f"{name}.partial"
        file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.posix_fallocate(file, 0, self._segment_bytes)
        except OSError:
            os.close(file)
            self._path.unlink()
            raise
        self._file, self._is_listed = file, False

    def _complete(self) -> None:
        assert self._file is not None
        os.fdatasync(self._file)
        os.close(self._file)
        self._file = None
        self._path.rename(self._path.with_suffix(""))
        self._flush_folder()
        self.flushed = self.written

    def _flush_folder(self) -> None:
        folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


class StrippedFolder(SegmentFolder):
    """The same, but without contents, which never reach the disk. Raises WalError for WAL that cannot be
    read. What has arrived of an incomplete record is only in memory, and not confirmed."""

    def __init__(self, folder: Path, timeline: int, segment_bytes: int, start: Lsn) -> None:
        super().__init__(folder, timeline, segment_bytes, start)
        self._stripper = WalStripper(int(start), segment_bytes)
        self._received = int(start)

    @property
    def received(self) -> int:
        """Where the next bytes to arrive begin."""
        return self._received

    def write(self, data: memoryview) -> None:
        """Append what can be kept of it."""
        self._received += len(data)
        super().write(memoryview(self._stripper.push(bytes(data))))

    def finish(self) -> ImageSamples:
        """What the images told before they were blanked out."""
        forks, nanoseconds = self._stripper.samples()
        return ImageSamples(tuple(forks), nanoseconds)
