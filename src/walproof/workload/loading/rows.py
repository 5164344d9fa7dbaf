"""Rows as a client has them before the clock starts: Python values, or bytes that COPY takes as they are."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from psycopg import adapters, postgres
from psycopg.pq import Format

from walproof.workload.loading.load_target import NATIVE

Row = tuple[object, ...]
Loader = Callable[[bytes], object]
"""Makes a value from its text."""

TEXT_FILE = "rows.copy"
"""COPY's text format, a line a row."""
OUTPUT_SETTINGS = "SET datestyle = ISO; SET timezone = 'UTC'; SET bytea_output = hex"
"""What a session needs that writes the file, so that values can be read from it."""
_ESCAPED = re.compile(rb"\\(.)", re.DOTALL)
_ESCAPES = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}
"""The escapes that the server writes in COPY's text format (manual, "COPY", "Text Format")."""
_BLOCK_BYTES = 1 << 16
"""Bytes of a piece: small enough that the server works while the next one is read. 256 kB took a tenth longer
(bench/load_speed.py)."""


class Rows:
    """The part of the rows that one session loads: from number ``start`` to before ``stop``.

    ``loaders`` are those of the columns if Python values are wanted; None for bytes. ``halt`` is called after
    the first half of the rows has been handed out, if a load is to be broken off there."""

    def __init__(
        self,
        folder: Path,
        start: int,
        stop: int,
        *,
        loaders: Sequence[Loader] | None,
        halt: Callable[[], None] | None = None,
    ) -> None:
        self.count = stop - start
        self._halt = halt
        self._values: Sequence[Row] = ()
        self._text = folder / TEXT_FILE
        self._begin = self._end = 0
        if loaders is not None:
            with self._text.open("rb") as file:
                self._values = list(read_values(itertools.islice(file, start, stop), loaders))
        else:
            self._begin, self._end = _offsets(self._text, start, stop)

    def __iter__(self) -> Iterator[Row]:
        """Row by row, as Python values."""
        return iter(self._values) if self._halt is None else self._until_half(self._values)

    def batches(self, batch_rows: int | None) -> Iterator[Sequence[Row]]:
        """Yield so many rows at a time, all of them for None."""
        rows, size = iter(self), batch_rows or self.count
        while batch := list(itertools.islice(rows, size)):
            yield batch

    def blocks(self) -> Iterator[bytes]:
        """COPY's text format, in pieces that need not end with a line."""
        half = (self._begin + self._end) // 2
        with self._text.open("rb") as file:
            file.seek(self._begin)
            at = self._begin
            while at < self._end:
                block = file.read(min(_BLOCK_BYTES, self._end - at))
                if self._halt is not None and at + len(block) > half:
                    yield block[: half - at]
                    self._halt()
                yield block
                at += len(block)

    def line_batches(self, batch_rows: int) -> Iterator[bytes]:
        """COPY's text format, so many lines at a time."""
        with self._text.open("rb") as file:
            file.seek(self._begin)
            done = 0
            while done < self.count:
                size = min(batch_rows, self.count - done)
                if self._halt is not None and 2 * (done + size) > self.count and done > 0:
                    self._halt()
                yield b"".join(itertools.islice(file, size))
                done += size

    def _until_half(self, rows: Sequence[Row]) -> Iterator[Row]:
        assert self._halt is not None
        yield from rows[: self.count // 2]
        self._halt()


def rows_done_at_half(count: int, batch_rows: int | None, *, as_values: bool) -> int:
    """How many rows of whole batches have been handed out when ``halt`` is called. A client that commits
    every batch has been told that these are committed. 0 if all rows are one batch."""
    if batch_rows is None or batch_rows >= count:
        return 0
    if as_values:
        return count // 2 // batch_rows * batch_rows
    done = batch_rows
    while 2 * (done + min(batch_rows, count - done)) <= count:
        done += batch_rows
    return done


def value_loaders(bases: Sequence[str]) -> list[Loader]:
    """Functions that make Python values from text, as psycopg does, for types given by pg_type's names; most
    stay text."""
    found: list[Loader] = []
    for base in bases:
        oid = postgres.types[base if base in NATIVE else "text"].oid
        loader = adapters.get_loader(oid, Format.TEXT)
        assert loader is not None, base
        found.append(loader(oid, None).load)
    return found


def read_values(lines: Iterable[bytes], loaders: Sequence[Loader]) -> Iterator[Row]:
    """Rows of COPY's text format as Python values. Raises psycopg.DataError for a value that Python does not
    have."""
    for line in lines:
        fields = line.removesuffix(b"\n").split(b"\t")
        yield tuple(
            None if field == b"\\N" else load(_unescape(field))
            for load, field in zip(loaders, fields, strict=True)
        )


def _unescape(field: bytes) -> bytes:
    if b"\\" not in field:
        return field
    return _ESCAPED.sub(lambda found: _ESCAPES.get(found[1], found[1]), field)


def _offsets(file: Path, start: int, stop: int) -> tuple[int, int]:
    """The offsets at which line ``start`` begins and line ``stop`` would begin."""
    begin = at = 0
    with file.open("rb") as opened:
        for number, line in enumerate(itertools.islice(opened, stop)):
            if number == start:
                begin = at
            at += len(line)
    return begin, at
