"""What was verified before, kept in a file, so that it is not read again.

The first line names the format. Each other line is the result of one file: its path, size and time of change
(of an object its etag, too), and the facts, with a checksum of the line. Lines are added while files are
verified, so that a run that is killed loses little; a line that is cut off is not believed. At the end the
file is written anew, with the files that are still there."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

from walproof.errors import WalError
from walproof.files import make_private, private_folder, sync_folder
from walproof.wal.verify.facts import FileFacts
from walproof.wal.verify.names import WalFile

_FORMAT = "walproof kept results 1"

Key = tuple[str, int, int, int, str]
"""Path, size, time of change (ns), size of segments, an object's etag."""


def _key(file: WalFile, segment_size: int) -> Key:
    return file.path, file.size, file.mtime_ns, segment_size, file.etag


class KeptResults:
    """Results of earlier runs, and where this one's are added; a context manager."""

    def __init__(self, path: Path | None, *, again: bool = False) -> None:
        """``again``: what was verified is forgotten. Without a path nothing is kept. Raises WalError."""
        self._path = path
        self._stream: TextIO | None = None
        self._results: dict[Key, Mapping[str, Any]] = {}
        self._used: set[Key] = set()
        if path is None:
            return
        try:
            private_folder(path.parent)
            make_private(path)
            self._stream = self._locked(path)
            self._stream.seek(0)
            lines = iter(self._stream)
            first = next(lines, "")
            _check_format(path, first)
            if not again:
                self._results = dict(filter(None, map(_parsed, lines)))
            if again or first.strip() == "":
                self._stream.truncate(0)
                self._stream.write(f"{_FORMAT}\n")
            else:
                # After a line that was cut off begins a new one.
                self._stream.write("\n")
        except (OSError, UnicodeDecodeError) as error:
            self._close()
            reason = error.strerror if isinstance(error, OSError) else "it is no text"
            raise WalError(f'could not use kept results "{path}": {reason}') from error
        except WalError:
            self._close()
            raise

    @staticmethod
    def _locked(path: Path) -> TextIO:
        """The file, opened and locked; who waited for nobody knows that it was not exchanged meanwhile."""
        stream = path.open("a+", encoding="utf-8")
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
            f'kept results "{path}" are in use', hint="Another walproof verifies with them: wait for its end."
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
        """The facts of that file, if it has not changed since."""
        key = _key(file, segment_size)
        plain = self._results.get(key)
        if plain is None or (wants_sha1 and plain.get("sha1") is None and not plain.get("faults")):
            return None
        try:
            facts = FileFacts.of_plain(plain)
        except (KeyError, TypeError, ValueError):
            return None
        self._used.add(key)
        return facts

    def add(self, results: Iterable[tuple[WalFile, Mapping[str, Any]]], segment_size: int) -> None:
        """Keep what was found just now. Raises WalError."""
        if self._stream is None:
            return
        try:
            for file, plain in results:
                key = _key(file, segment_size)
                self._results[key] = plain
                self._used.add(key)
                self._stream.write(_line(key, plain))
            self._stream.flush()
        except OSError as error:
            raise WalError(f'could not write kept results "{self._path}": {error.strerror}') from error

    def finish(self) -> None:
        """Write the file anew, with the results that were of use. Raises WalError."""
        if self._path is None or self._stream is None:
            return
        unfinished = self._path.with_name(self._path.name + ".tmp")
        try:
            self._write(unfinished)
            unfinished.replace(self._path)
            sync_folder(self._path.parent)
        except BaseException as error:
            with contextlib.suppress(OSError):
                unfinished.unlink(missing_ok=True)
            if not isinstance(error, OSError):
                raise
            raise WalError(f'could not write kept results "{self._path}": {error.strerror}') from error

    def _write(self, path: Path) -> None:
        path.unlink(missing_ok=True)
        make_private(path)
        with path.open("w", encoding="utf-8") as stream:
            stream.write(f"{_FORMAT}\n")
            stream.writelines(_line(key, plain) for key, plain in self._results.items() if key in self._used)
            stream.flush()
            os.fsync(stream.fileno())


def _check_format(path: Path, first: str) -> None:
    if first.strip() not in ("", _FORMAT):
        raise WalError(
            f'"{path}" holds no kept results',
            detail=f'Its first line is not "{_FORMAT}".',
            hint="Name another file with --kept, or remove this one.",
        )


def _line(key: Key, plain: Mapping[str, Any]) -> str:
    *of_file, etag = key
    text = json.dumps([*of_file, plain, *([etag] if etag else [])], separators=(",", ":"))
    return f"{zlib.crc32(text.encode()):08x} {text}\n"


def _parsed(line: str) -> tuple[Key, Mapping[str, Any]] | None:
    checksum, _, text = line.rstrip("\n").partition(" ")
    if checksum != f"{zlib.crc32(text.encode()):08x}":
        return None
    try:
        path, size, mtime_ns, segment_size, plain, *etag = json.loads(text)
    except (ValueError, TypeError):
        return None
    return (path, size, mtime_ns, segment_size, etag[0] if etag else ""), plain
