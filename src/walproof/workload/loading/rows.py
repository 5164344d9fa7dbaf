"""Rows as a client has them before the clock starts: Python values, or bytes that COPY takes as they are."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

Row = tuple[object, ...]

TEXT_FILE = "rows.copy"
"""COPY's text format, a line a row."""
VALUES_FILE = "rows.pickle"
"""A list of rows. Written and read by walproof alone, in folders that are its own."""
_BLOCK_BYTES = 1 << 16
"""Small enough that the server works while the next one is read: 256 kB took a tenth longer
(bench/load_speed.py)."""


class Rows:
    """The part of the rows that one session loads: from number ``start`` to before ``stop``.

    ``halt`` is called after the first half of them was handed out, where a load is to be broken off there.
    """

    def __init__(
        self, folder: Path, start: int, stop: int, *, as_values: bool, halt: Callable[[], None] | None = None
    ) -> None:
        self.count = stop - start
        self._halt = halt
        self._values: Sequence[Row] = ()
        self._text = folder / TEXT_FILE
        self._begin = self._end = 0
        if as_values:
            with (folder / VALUES_FILE).open("rb") as file:
                self._values = pickle.load(file)[start:stop]
        else:
            self._begin, self._end = _offsets(self._text, start, stop)

    def __iter__(self) -> Iterator[Row]:
        """Row by row, as Python values."""
        return iter(self._values) if self._halt is None else self._until_half(self._values)

    def batches(self, batch_rows: int | None) -> Iterator[Sequence[Row]]:
        """So many rows at a time; all of them for None."""
        rows, size = iter(self), batch_rows or self.count
        while batch := list(itertools.islice(rows, size)):
            yield batch

    def blocks(self) -> Iterator[bytes]:
        """COPY's text format, whole lines or not."""
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
    """Rows of whole batches that were handed out when ``halt`` is called: a client that commits every batch
    has been told that these are committed. 0 for one batch of all."""
    if batch_rows is None or batch_rows >= count:
        return 0
    if as_values:
        return count // 2 // batch_rows * batch_rows
    done = batch_rows
    while 2 * (done + min(batch_rows, count - done)) <= count:
        done += batch_rows
    return done


def _offsets(file: Path, start: int, stop: int) -> tuple[int, int]:
    """Bytes at which line ``start`` begins and line ``stop`` would."""
    begin = at = 0
    with file.open("rb") as opened:
        for number, line in enumerate(itertools.islice(opened, stop)):
            if number == start:
                begin = at
            at += len(line)
    return begin, at
