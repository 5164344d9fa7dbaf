"""Records over the edges of segments that are in order, though they look like damage: one that a server gave
up after a crash, and one that fills the segment in which it begins."""

from __future__ import annotations

import struct
from itertools import pairwise

from tests.wal.verify.conftest import Layer
from tests.wal.verify.faults import PAGE, crc32c
from tests.wal.verify.layouts import Laid
from tests.wal.verify.source import MB, Source, segment_lsn
from walproof.units import Lsn
from walproof.wal.segment import segment_name
from walproof.wal.verify.verify import VerifiedArchive, verify

NOOP, OVERWRITE_CONTRECORD = 0x20, 0xD0
CONTINUES, LONG, OVERWRITES = 0x1, 0x2, 0x8
"""Bits of a page's header, to PostgreSQL 18."""


def _header(like: bytes, page: int, bits: int, remaining: int) -> bytes:
    """A page's short header; format and timeline are those of ``like``."""
    return like[:2] + struct.pack("<H", bits) + like[4:8] + struct.pack("<QI4x", page, remaining)


def _record(previous: Lsn, info: int, data: bytes) -> bytes:
    """A record of the resource manager XLOG that has no blocks."""
    is_short = len(data) < 256
    length = bytes([255, len(data)]) if is_short else bytes([254]) + len(data).to_bytes(4, "little")
    body = length + data
    head = struct.pack("<IIQBBxx", 24 + len(body), 0, previous, info, 0)
    return head + crc32c(body + head).to_bytes(4, "little") + body


def _pages(like: bytes, edge: Lsn, record: bytes) -> bytes:
    """Pages from a segment's first on that hold nothing but one record."""
    pages, rest = b"", record
    while rest:
        page = edge + len(pages)
        is_first, remaining = page % MB == 0, len(rest) if pages else 0
        bits = (CONTINUES if remaining else 0) | (LONG if is_first else 0)
        header = _header(like, page, bits, remaining) + (like[24:40] if is_first else b"")
        room = PAGE - len(header)
        pages += (header + rest[:room]).ljust(PAGE, b"\0")
        rest = rest[room:]
    return pages


def _end_with(laid: Laid, name: str) -> None:
    """Let a segment of timeline 1 be the newest."""
    source = laid.source
    later = [other for other in source.segments if segment_lsn(other) > segment_lsn(name)]
    for lost in (*later, *source.histories, *source.partials):
        laid.lose(lost)


def _only(laid: Laid) -> VerifiedArchive:
    (archive,) = verify([laid.root]).archives
    return archive


def _kinds(archive: VerifiedArchive) -> list[str]:
    return [problem.kind for problem in archive.problems]


def _given_up(source: Source) -> tuple[Lsn, Lsn]:
    """A record that ends more than two pages after its segment's edge, and the record before it."""
    records = pairwise(zip(source.starts, source.ends, strict=True))
    return next(
        (lsn, previous)
        for (previous, _), (lsn, end) in records
        if lsn > source.backups[1].stop and end > (lsn // MB + 1) * MB + 2 * PAGE
    )


def _give_up(laid: Laid, lsn: Lsn, previous: Lsn) -> Lsn:
    """A server crashed when one page of the record's rest was written. Returns where it went on."""
    edge = Lsn((lsn // MB + 1) * MB)
    name = segment_name(edge, 1, MB)
    data = laid.source.segments[name]
    header = _header(data, edge + PAGE, OVERWRITES, 0)
    written = data[:PAGE] + header + _record(previous, OVERWRITE_CONTRECORD, struct.pack("<QQ", lsn, 0))
    laid.change(name, written.ljust(MB, b"\0"))
    return Lsn(edge + PAGE + len(header))


def test_the_rest_of_a_record_was_given_up_after_a_crash(source: Source, layer: Layer) -> None:
    """On the second page of the next segment."""
    laid = layer("folder", "")
    lsn, previous = _given_up(source)
    _end_with(laid, segment_name(Lsn(lsn + MB), 1, MB))
    place = _give_up(laid, lsn, previous)
    archive = _only(laid)
    assert _kinds(archive) == ["unfinished"]
    assert [(window.end, window.last_record) for window in archive.windows] == [(place + 48, place)] * 2
    # Without the segment before, the WAL begins after the rest.
    laid.lose(segment_name(lsn, 1, MB))
    archive = _only(laid)
    assert "missing" in _kinds(archive)
    assert (archive.ranges[-1].start, archive.ranges[-1].end) == (place, place + 48)


def test_what_follows_a_record_that_was_given_up_has_to_follow_the_one_before(
    source: Source, layer: Layer
) -> None:
    laid = layer("folder", "")
    lsn, previous = _given_up(source)
    _end_with(laid, segment_name(Lsn(lsn + MB), 1, MB))
    place = _give_up(laid, lsn, Lsn(previous - 8))
    archive = _only(laid)
    problem = archive.problems[0]
    assert (problem.kind, problem.cause, problem.lsn) == ("chain", "link", place)
    assert {window.end for window in archive.windows} == {source.end_before(lsn)}


def test_a_record_fills_the_segment_in_which_it_begins(source: Source, layer: Layer) -> None:
    """At its first byte: no record ends in the segment."""
    laid = layer("folder", "")
    previous, edge = next(
        (lsn, end)
        for lsn, end in zip(source.starts, source.ends, strict=True)
        if lsn > source.backups[1].stop and end % MB == 0
    )
    name = segment_name(edge, 1, MB)
    like = source.segments[name]
    pages = _pages(like, edge, _record(previous, NOOP, bytes(MB)))
    _end_with(laid, name)
    laid.change(name, pages[:MB])
    archive = _only(laid)
    assert archive.problems == ()
    assert [(window.end, window.last_record) for window in archive.windows] == [(edge, previous)] * 2
    laid.put(segment_name(Lsn(edge + MB), 1, MB), pages[MB:].ljust(MB, b"\0"))
    archive = _only(laid)
    assert _kinds(archive) == ["unfinished"]
    begun = edge + 40
    assert {window.last_record for window in archive.windows} == {begun}
    assert {window.end for window in archive.windows} == {edge + MB + 40 + 3120}
