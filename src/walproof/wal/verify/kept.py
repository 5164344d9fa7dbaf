"""Keeps what was verified in a file, so that it is not read again.

The first line names the format. Each other line is the result of one file: its path, size and time of change
(for an object also its etag), and the facts, with a checksum of the line. Lines are added while files are
verified, so that a run that is killed loses little; a line that is cut off is not believed. At the end the
file is rewritten, with the files that are still there.

In memory is only where each line is: the facts of an archive of many segments would not fit."""

from __future__ import annotations

import fcntl
import json
import os
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

from walproof.errors import WalError
from walproof.files import make_private, private_folder, written_whole
from walproof.wal.verify.facts import FileFacts
from walproof.wal.verify.names import WalFile

_FORMAT = "walproof kept results 1"
_FIRST_MOST = 1000

Key = tuple[str, int, int, int, str]
"""Path, size, time of change (ns), size of segments, an object's etag."""


def _key(file: WalFile, segment_size: int) -> Key:
    return file.path, file.size, file.mtime_ns, segment_size, file.etag


class KeptResults:
    """The results of earlier runs, to which those of this run are added; a context manager."""

    def __init__(self, path: Path | None, *, again: bool = False) -> None:
        """With ``again``, earlier results are forgotten. Without a path nothing is kept. Raises WalError."""
        self._path = path
        self._stream: BinaryIO | None = None
        self._lines: dict[Key, int] = {}
        """Where in the file the newest line of each is."""
        self._used: dict[int, None] = {}
        """Places of lines that go on being kept, in order."""
        self._end = 0
        if path is None:
            return
        try:
            private_folder(path.parent)
            make_private(path)
            self._stream = self._locked(path)
            self._stream.seek(0)
            first = self._stream.readline(_FIRST_MOST)
            _check_format(path, first)
            if again or first.strip() == b"":
                self._stream.truncate(0)
                self._write(f"{_FORMAT}\n".encode())
            else:
                self._find_lines(len(first))
                # A new line begins after one that was cut off.
                self._write(b"\n")
        except OSError as error:
            self._close()
            raise WalError(f'could not use kept results "{path}": {error.strerror}') from error
        except WalError:
            self._close()
            raise

    @staticmethod
    def _locked(path: Path) -> BinaryIO:
        """The file, opened and locked. Whoever did not have to wait knows that it was not replaced
        meanwhile."""
        stream = path.open("a+b")
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(stream.fileno()), path.stat()):
                return stream
        except BlockingIOError:
            pass
        except BaseException:
            stream.close()
            raise
        stream.close()
        raise WalError(
            f'kept results "{path}" are in use', hint="Another walproof is using them: wait until it ends."
        )

    def __enter__(self) -> KeptResults:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def _close(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def find(self, file: WalFile, segment_size: int, *, wants_sha1: bool) -> FileFacts | None:
        """The facts of a file, if it has not changed since."""
        place = self._lines.get(_key(file, segment_size))
        if place is None:
            return None
        parsed = _parsed(self._line_at(place))
        if parsed is None:
            return None
        _, plain = parsed
        if wants_sha1 and plain.get("sha1") is None and not plain.get("faults"):
            return None
        try:
            facts = FileFacts.of_plain(plain)
        except (KeyError, TypeError, ValueError):
            return None
        self._used[place] = None
        return facts

    def add(self, results: Iterable[tuple[WalFile, Mapping[str, Any]]], segment_size: int) -> None:
        """Keep what was found just now. Raises WalError."""
        if self._stream is None:
            return
        try:
            for file, plain in results:
                key = _key(file, segment_size)
                self._used.pop(self._lines.get(key, -1), None)
                self._lines[key] = self._end
                self._used[self._end] = None
                self._write(_line(key, plain))
            self._stream.flush()
        except OSError as error:
            raise WalError(f'could not write kept results "{self._path}": {error.strerror}') from error

    def finish(self) -> None:
        """Rewrite the file with the results that were of use. Raises WalError."""
        if self._path is None or self._stream is None:
            return
        try:
            with written_whole(self._path) as stream:
                stream.write(f"{_FORMAT}\n".encode())
                stream.writelines(map(self._line_at, self._used))
        except OSError as error:
            raise WalError(f'could not write kept results "{self._path}": {error.strerror}') from error

    def _find_lines(self, start: int) -> None:
        assert self._stream is not None
        self._end = start
        for line in self._stream:
            if (parsed := _parsed(line)) is not None:
                self._lines[parsed[0]] = self._end
            self._end += len(line)

    def _line_at(self, place: int) -> bytes:
        assert self._stream is not None
        self._stream.seek(place)
        return self._stream.readline()

    def _write(self, line: bytes) -> None:
        """At the end, wherever was read before."""
        assert self._stream is not None
        self._stream.write(line)
        self._end += len(line)


def _check_format(path: Path, first: bytes) -> None:
    if first.strip() not in (b"", _FORMAT.encode()):
        raise WalError(
            f'"{path}" holds no kept results',
            detail=f'Its first line is not "{_FORMAT}".',
            hint="Name another file with --kept, or remove this one.",
        )


def _line(key: Key, plain: Mapping[str, Any]) -> bytes:
    *of_file, etag = key
    text = json.dumps([*of_file, plain, *([etag] if etag else [])], separators=(",", ":")).encode()
    return b"%08x %s\n" % (zlib.crc32(text), text)


def _parsed(line: bytes) -> tuple[Key, Mapping[str, Any]] | None:
    checksum, _, text = line.rstrip(b"\n").partition(b" ")
    if checksum != b"%08x" % zlib.crc32(text):
        return None
    try:
        path, size, mtime_ns, segment_size, plain, *etag = json.loads(text)
    except (ValueError, TypeError):
        return None
    return (path, size, mtime_ns, segment_size, etag[0] if etag else ""), plain
