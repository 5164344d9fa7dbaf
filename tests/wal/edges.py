"""WAL in which every kind of record that some WAL has lies over an edge between two segments.

An archive is cut at the edges of segments, so this is where ranges have to be put together again. Records are
laid at new places, with their links and checksums made right; what is between them is filled with NOOP.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.wal.damage import crc32c
from walproof.units import Lsn
from walproof.wal import records
from walproof.wal.records import Record
from walproof.wal.segment import segment_name

MB, PAGE = 1 << 20, 8192
HEADER, FIRST_HEADER, RECORD_HEADER = 24, 40, 24
CONTINUES, LONG, NOOP, SWITCH = 0x01, 0x02, 0x20, 0x40
ELSEWHERE = "XLOG/OVERWRITE_CONTRECORD"
"""Only ever the first record of a page, after the record that was given up."""
_FILLING = (1_000_000, 900_000, 500_000)


class Laid:
    """Records that are laid one after the other from the second segment on."""

    def __init__(self, first_page: bytes) -> None:
        """``first_page``: whose magic number and system identifier all pages have."""
        self._first_page = first_page
        self._wal = bytearray()
        self._previous = 0

    @property
    def at(self) -> int:
        """Where the next record begins."""
        at = MB + len(self._wal)
        return at + _header_bytes(at) if at % PAGE == 0 else at

    def put(self, record: bytes) -> None:
        """Lay a record, whatever its link and checksum were."""
        begin = self.at
        head = record[:8] + self._previous.to_bytes(8, "little") + record[16:20]
        checksum = crc32c(head, _checksum(record[RECORD_HEADER:]))
        rest = head + checksum.to_bytes(4, "little") + record[RECORD_HEADER:]
        is_continued = False
        while rest:
            if len(self._wal) % PAGE == 0:
                self._wal += self._page_header(len(rest) if is_continued else 0)
            room = PAGE - len(self._wal) % PAGE
            self._wal += rest[:room]
            rest, is_continued = rest[room:], True
        self._wal += bytes(-len(self._wal) % 8)
        self._previous = begin
        if record[16] & 0xF0 == SWITCH and record[17] == 0:
            self._wal += bytes(-len(self._wal) % MB)

    def fill_up_to(self, end: int) -> None:
        """NOOP records up to a location, which must be far enough away."""
        while room := _room(self.at, end):
            length = next((size for size in _FILLING if room >= size + 64), room)
            data = bytes(length - RECORD_HEADER - 5)
            head = length.to_bytes(4, "little") + bytes(12) + bytes([NOOP, 0, 0, 0]) + bytes(4)
            self.put(head + bytes([254]) + len(data).to_bytes(4, "little") + data)

    def write(self, folder: Path) -> None:
        """Segments of 1 MB; the last one is filled with zeros."""
        wal = self._wal + bytes(-len(self._wal) % MB)
        for at in range(0, len(wal), MB):
            (folder / segment_name(Lsn(MB + at), 1, MB)).write_bytes(wal[at : at + MB])

    def _page_header(self, left: int) -> bytes:
        at = MB + len(self._wal)
        is_first = at % MB == 0
        info = (LONG if is_first else 0) | (CONTINUES if left else 0)
        header = self._first_page[:2] + info.to_bytes(2, "little") + (1).to_bytes(4, "little")
        header += at.to_bytes(8, "little") + left.to_bytes(4, "little") + bytes(4)
        return header + (self._first_page[HEADER:FIRST_HEADER] if is_first else b"")


def lay_over_edges(source: Path, folder: Path, *, without: str = ELSEWHERE) -> dict[str, int]:
    """Write the archive; return kind of record -> the edge in it.

    ``source``: a folder with segments of 1 MB. ``without``: a kind that is left out.
    """
    laid: Laid | None = None
    edges: dict[str, int] = {}
    for name, raw in _kinds(source, {ELSEWHERE, without}):
        laid = laid or Laid(min(source.glob("0*")).read_bytes()[:FIRST_HEADER])
        inside = len(raw) // 8 - 1
        before = 8 * (1 + len(edges) * 7 % min(inside, 900))
        edge = (laid.at // MB + 1) * MB
        laid.fill_up_to(edge - before)
        laid.put(raw)
        edges[name] = edge
    assert laid is not None
    laid.fill_up_to(laid.at + 1000)
    laid.write(folder)
    return edges


def _kinds(source: Path, seen: set[str]) -> Iterator[tuple[str, bytes]]:
    """The first record of each kind that was not seen."""
    for record in records(source):
        name = f"{record.rmgr}/{record.operation}"
        if name not in seen:
            seen.add(name)
            yield name, _raw(source, record)


def _raw(source: Path, record: Record) -> bytes:
    """Its bytes, on whichever timeline they are."""
    number = segment_name(Lsn(record.lsn // MB * MB), 1, MB)[8:]
    found = [
        _bytes_at(source, timeline, record.lsn, record.total_length)
        for timeline in sorted({file.name[:8] for file in source.glob(f"*{number}")})
    ]
    (raw, *_) = (
        raw
        for raw in found
        if raw[:4] == record.total_length.to_bytes(4, "little")
        and int.from_bytes(raw[20:24], "little") == crc32c(raw[:20], _checksum(raw[RECORD_HEADER:]))
    )
    return raw


def _bytes_at(source: Path, timeline: str, at: int, length: int) -> bytes:
    raw = b""
    while len(raw) < length:
        if at % PAGE == 0:
            at += _header_bytes(at)
        file = source / (timeline + segment_name(Lsn(at // MB * MB), 1, MB)[8:])
        piece = min(PAGE - at % PAGE, length - len(raw))
        data = file.read_bytes()[at % MB : at % MB + piece] if file.exists() else b""
        raw += data.ljust(piece, b"\0")
        at += piece
    return raw


def _header_bytes(at: int) -> int:
    return FIRST_HEADER if at % MB == 0 else HEADER


def _room(at: int, end: int) -> int:
    """Bytes of records between two locations."""
    first = -(-at // PAGE) * PAGE
    return end - at - sum(_header_bytes(page) for page in range(first, end, PAGE) if page > at)


@cache
def _checksum(data: bytes) -> int:
    return crc32c(data)
