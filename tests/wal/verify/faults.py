"""Faults that archives have, one a function: what is done to a whole one, and what is to be said of it.

Every function returns the problem that has to be named, and where restores end then.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.wal.verify.layouts import Laid, compress
from tests.wal.verify.source import MB, Source, segment_lsn
from walproof.units import Lsn
from walproof.wal.segment import segment_name

PAGE = 8192


@dataclass(frozen=True)
class Expected:
    """A problem, as far as it is said."""

    kind: str
    segment: str | None = None
    lsn: Lsn | None = None
    segments: int = 1
    cause: str | None = None
    end: Lsn | None = None
    """Where restores from the second backup end; None for where they end in the whole archive."""
    others: tuple[str, ...] = ()
    """Kinds of problems that follow from it."""


Fault = Callable[[Laid], Expected]


def _middle(source: Source) -> str:
    """A segment of timeline 1 after both backups that is full of small records."""
    names = [name for name in source.names(1) if segment_lsn(name) > source.backups[1].stop]
    return next(name for name in names if _records_in(source, name) > 2000)


def _records_in(source: Source, name: str) -> int:
    start = segment_lsn(name)
    return sum(start <= lsn < start + MB for lsn in source.starts)


def _flip(data: bytes, offset: int) -> bytes:
    changed = bytearray(data)
    changed[offset] ^= 0x20
    return bytes(changed)


def _record_in(source: Source, name: str, after: int = 20 * PAGE) -> Lsn:
    """The first record that begins in a segment at or after an offset, and ends on its page."""
    start = segment_lsn(name)
    return next(
        lsn
        for lsn, end in zip(source.starts, source.ends, strict=True)
        if lsn >= start + after and (end - 1) // PAGE == lsn // PAGE
    )


def missing_segment(laid: Laid) -> Expected:
    name = _middle(laid.source)
    laid.lose(name)
    return Expected("missing", name, segment_lsn(name), end=laid.source.end_before(segment_lsn(name)))


def missing_range(laid: Laid) -> Expected:
    names = laid.source.names(1)[-5:-2]
    for name in names:
        laid.lose(name)
    start = segment_lsn(names[0])
    return Expected("missing", names[0], start, 3, end=laid.source.end_before(start))


def missing_before_the_switch(laid: Laid) -> Expected:
    """The older timeline's last segment: there is no gap in any timeline's numbers."""
    name = laid.source.names(1)[-1]
    laid.lose(name)
    return Expected("missing", name, segment_lsn(name), end=laid.source.end_before(segment_lsn(name)))


def missing_after_the_switch(laid: Laid) -> Expected:
    """The newer timeline's first segment, of which the older has a partial one."""
    name = laid.source.names(2)[0]
    laid.lose(name)
    return Expected("missing", name, segment_lsn(name), end=laid.source.end_before(segment_lsn(name)))


def missing_for_the_backup(laid: Laid) -> Expected:
    name = segment_name(laid.source.backups[1].start, 1, MB)
    laid.lose(name)
    return Expected("missing", name, segment_lsn(name), end=Lsn(0), others=("backup unusable",))


def changed_record(laid: Laid) -> Expected:
    name = _middle(laid.source)
    lsn = _record_in(laid.source, name)
    laid.change(name, _flip(laid.source.segments[name], lsn - segment_lsn(name) + 25))
    return Expected("damaged", name, lsn, cause="checksum", end=lsn)


def changed_link(laid: Laid) -> Expected:
    name = next(name for name in laid.source.names(2) if _records_in(laid.source, name) > 2000)
    lsn = _record_in(laid.source, name)
    laid.change(name, _flip(laid.source.segments[name], lsn - segment_lsn(name) + 9))
    return Expected("damaged", name, lsn, cause="link", end=lsn)


def changed_length(laid: Laid) -> Expected:
    """A length of 0 where the WAL goes on."""
    name = _middle(laid.source)
    lsn = _record_in(laid.source, name)
    at = lsn - segment_lsn(name)
    data = laid.source.segments[name]
    laid.change(name, data[:at] + bytes(4) + data[at + 4 :])
    return Expected("damaged", name, lsn, cause="record", end=lsn)


def changed_page(laid: Laid) -> Expected:
    """The address of a page."""
    name = _middle(laid.source)
    page = Lsn(segment_lsn(name) + 30 * PAGE)
    laid.change(name, _flip(laid.source.segments[name], 30 * PAGE + 9))
    return Expected("damaged", name, page, cause="page", end=laid.source.end_before(page))


def zeroed_page(laid: Laid) -> Expected:
    name = _middle(laid.source)
    page = Lsn(segment_lsn(name) + 40 * PAGE)
    data = laid.source.segments[name]
    laid.change(name, data[: 40 * PAGE] + bytes(PAGE) + data[41 * PAGE :])
    return Expected("damaged", name, page, cause="page", end=laid.source.end_before(page))


def zeroed_end(laid: Laid) -> Expected:
    """Half a segment that was never written, as after a crash of the archive's machine: its size is right."""
    name = _middle(laid.source)
    page = Lsn(segment_lsn(name) + 64 * PAGE)
    laid.change(name, laid.source.segments[name][: 64 * PAGE] + bytes(MB - 64 * PAGE))
    return Expected("damaged", name, page, cause="page", end=laid.source.end_before(page))


def stale_end(laid: Laid) -> Expected:
    """Half a segment, then what was in the recycled file before."""
    name, older = _middle(laid.source), laid.source.names(1)[1]
    page = Lsn(segment_lsn(name) + 64 * PAGE)
    both = laid.source.segments[name][: 64 * PAGE] + laid.source.segments[older][64 * PAGE :]
    laid.change(name, both)
    return Expected("damaged", name, page, cause="page", end=laid.source.end_before(page))


def changed_first_page(laid: Laid) -> Expected:
    name = _middle(laid.source)
    laid.change(name, _flip(laid.source.segments[name], 0))
    start = segment_lsn(name)
    return Expected("damaged", name, start, cause="page", end=laid.source.end_before(start))


def changed_over_the_edge(laid: Laid) -> Expected:
    """In the part of a record that stands in the segment after the one that it begins in."""
    source = laid.source
    lsn, name = next(
        (lsn, segment_name(end, 1, MB))
        for lsn, end in zip(source.starts, source.ends, strict=True)
        if lsn > source.backups[1].stop and lsn // MB != (end - 1) // MB and end % MB > PAGE
    )
    laid.change(name, _flip(source.segments[name], 3000))
    end = next(end for begun, end in zip(source.starts, source.ends, strict=True) if begun == lsn)
    # A record over two edges is put together at the second.
    return Expected("damaged", segment_name(end, 1, MB), lsn, cause="checksum", end=lsn)


def of_another_history(laid: Laid) -> Expected:
    """A segment that is in order, whose first record follows another one than the last before it."""
    source = laid.source
    known = dict(zip(source.starts, source.ends, strict=True))
    name = next(
        name
        for name in source.names(1)
        if segment_lsn(name) > source.backups[1].stop
        and known.get(Lsn(segment_lsn(name) + 40), Lsn(0)) < segment_lsn(name) + PAGE
        and Lsn(segment_lsn(name) + 40) in known
    )
    data = source.segments[name]
    length = int.from_bytes(data[40:44], "little")
    record = bytearray(data[40 : 40 + length])
    record[8:16] = (int.from_bytes(record[8:16], "little") - 8).to_bytes(8, "little")
    record[20:24] = crc32c(bytes(record[24:]) + bytes(record[:20])).to_bytes(4, "little")
    changed = data[:40] + bytes(record) + data[40 + length :]
    if laid.layout == "pgBackRest":  # whose name would tell otherwise
        laid.lose(name)
        laid.put(name, changed)
    else:
        laid.change(name, changed)
    start = segment_lsn(name)
    return Expected("chain", name, Lsn(start + 40), cause="link", end=start)


def crc32c(data: bytes) -> int:
    """CRC-32C bit by bit: another implementation than that under test."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def truncated(laid: Laid) -> Expected:
    name = _middle(laid.source)
    laid.change(name, laid.source.segments[name][: 100 * PAGE + 77])
    start = segment_lsn(name)
    place = Lsn(start + 100 * PAGE + 77)
    return Expected("truncated", name, place, end=laid.source.end_before(start))


def without_bytes(laid: Laid) -> Expected:
    """A file of no bytes at all: the disk was full."""
    name = _middle(laid.source)
    laid.write(laid.files[name], b"")
    start = segment_lsn(name)
    kind = "unpack" if laid.ending and laid.layout != "Barman" else "truncated"
    return Expected(kind, name, start, end=laid.source.end_before(start))


def too_long(laid: Laid) -> Expected:
    name = _middle(laid.source)
    laid.change(name, laid.source.segments[name] + bytes(PAGE))
    start = segment_lsn(name)
    return Expected("too long", name, Lsn(start + MB), end=laid.source.end_before(start))


def cut_file(laid: Laid) -> Expected:
    """The file as it lies in the archive lacks its end."""
    name = _middle(laid.source)
    path = laid.files[name]
    packed = path.read_bytes()
    laid.write(path, packed[: len(packed) * 2 // 3])
    start = segment_lsn(name)
    kind = "unpack" if laid.ending else "truncated"
    return Expected(kind, name, None, end=laid.source.end_before(start))


def cut_by_a_few_bytes(laid: Laid) -> Expected:
    """Only what ends the compressed data is missing: every byte of WAL can be unpacked."""
    name = _middle(laid.source)
    path = laid.files[name]
    laid.write(path, path.read_bytes()[:-4])
    start = segment_lsn(name)
    kind = "unpack" if laid.ending else "truncated"
    return Expected(kind, name, None, end=laid.source.end_before(start))


def not_what_its_name_says(laid: Laid) -> Expected:
    name, other = _middle(laid.source), laid.source.names(1)[2]
    laid.change(name, laid.source.segments[other])
    start = segment_lsn(name)
    return Expected("misplaced", name, start, end=laid.source.end_before(start))


def zeros(laid: Laid) -> Expected:
    name = _middle(laid.source)
    laid.change(name, bytes(MB))
    start = segment_lsn(name)
    return Expected("empty", name, start, end=laid.source.end_before(start))


def of_another_system(laid: Laid) -> Expected:
    name = _middle(laid.source)
    data = laid.source.segments[name]
    laid.change(name, data[:24] + (42).to_bytes(8, "little") + data[32:])
    start = segment_lsn(name)
    return Expected("other system", name, start, end=laid.source.end_before(start))


def of_another_version(laid: Laid) -> Expected:
    name = _middle(laid.source)
    data = bytearray(laid.source.segments[name])
    for page in range(0, MB, PAGE):
        data[page : page + 2] = (0xD113 if laid.source.version != 16 else 0xD116).to_bytes(2, "little")
    laid.change(name, bytes(data))
    start = segment_lsn(name)
    return Expected("other version", name, start, end=laid.source.end_before(start))


def _unused_byte(source: Source) -> tuple[str, int]:
    """A segment after the second backup, unused at its end after a switch, and an offset there."""
    for lsn, end in zip(source.starts, source.ends, strict=True):
        name = segment_name(lsn, 1, MB)
        if (
            lsn > source.backups[1].stop + MB
            and end % MB == 0
            and end - lsn > 4 * PAGE
            and name in source.segments
        ):
            return name, int(lsn % MB) + 2 * PAGE
    raise AssertionError("no segment was switched away from")


def second_file(laid: Laid) -> Expected:
    """Two files for a segment, both in order, with one byte that differs where no record is."""
    name, offset = _unused_byte(laid.source)
    data = _flip(laid.source.segments[name], offset)
    if laid.layout == "pgBackRest":
        first = laid.files[name]
        laid.put(name, data)
        laid.files[name] = first
    else:
        folder = laid.files[name].parent / "again"
        folder.mkdir()
        (folder / laid.files[name].name).write_bytes(compress(data, laid.ending))
    return Expected("duplicate", name, segment_lsn(name))


def changed_where_no_record_is(laid: Laid) -> Expected:
    """Only pgBackRest's SHA-1 can tell."""
    name, offset = _unused_byte(laid.source)
    laid.change(name, _flip(laid.source.segments[name], offset))
    if laid.layout != "pgBackRest":
        return Expected("")
    return Expected("checksum", name, segment_lsn(name))


def no_history(laid: Laid) -> Expected:
    laid.lose("00000002.history")
    end = laid.source.end_before(segment_lsn(laid.source.names(2)[0]))
    return Expected("history missing", end=end)


def damaged_history(laid: Laid) -> Expected:
    _write_text(laid, "00000002.history", b"1\tnonsense\n")
    end = laid.source.end_before(segment_lsn(laid.source.names(2)[0]))
    return Expected("history damaged", end=end, others=("history missing",))


def history_of_another_place(laid: Laid) -> Expected:
    wrong = Lsn(laid.source.switch + 0x40000)
    _write_text(laid, "00000002.history", f"1\t{wrong}\tno recovery target specified\n".encode())
    return Expected("switch point", laid.source.names(2)[0], wrong)


def damaged_description(laid: Laid) -> Expected:
    """What describes the second backup."""
    path = laid.files["manifest 2"]
    text = path.read_bytes()
    others: tuple[str, ...] = ()
    if laid.layout == "pgBackRest":
        label, _, rest = text.partition(b"20261123-160002F=")[2].partition(b"\n")
        laid.write(path, text.replace(label, label.replace(b"backup-lsn-stop", b"backup-xxx-stop")))
        assert rest
    elif laid.layout == "folder":
        laid.write(path, text.replace(b'"Size": ', b'"Size": 1', 1))
    elif laid.layout == "WAL-G":
        laid.write(path, text[: len(text) // 2])
    else:
        laid.write(path, text.replace(b"end_xlog=", b"end_xxxx="))
    return Expected("backup unreadable", others=others)


def encrypted(laid: Laid) -> Expected:
    name = _middle(laid.source)
    laid.write(laid.files[name], b"Salted__12345678" + bytes(range(256)) * 64)
    return Expected("encrypted", name, end=laid.source.end_before(segment_lsn(name)))


def lost_link(laid: Laid) -> Expected:
    """A file that is a link to a disk that is not mounted."""
    name = _middle(laid.source)
    path = laid.files[name]
    path.unlink()
    path.symlink_to("/nonexistent/segment")
    start = segment_lsn(name)
    return Expected("unreadable", name, start, end=laid.source.end_before(start))


def newest_gone(laid: Laid) -> Expected:
    """The last segment is gone: names alone do not tell, Barman's catalogue does."""
    name = laid.source.names(2)[-1]
    laid.lose(name)
    end = laid.source.end_before(segment_lsn(name))
    if laid.layout != "Barman":
        return Expected("", end=end)
    return Expected("not there", name, segment_lsn(name), end=end)


def _write_text(laid: Laid, name: str, data: bytes) -> None:
    laid.write(laid.files[name], compress(data, laid.ending) if laid.layout == "WAL-G" else data)


FAULTS: tuple[Fault, ...] = (
    missing_segment, missing_range, missing_before_the_switch, missing_after_the_switch,
    missing_for_the_backup, changed_record, changed_link, changed_length, changed_page, zeroed_page,
    zeroed_end, stale_end, changed_first_page, changed_over_the_edge, of_another_history,
    truncated, without_bytes, too_long,
    cut_file, cut_by_a_few_bytes, not_what_its_name_says, zeros, of_another_system, of_another_version,
    second_file, changed_where_no_record_is, no_history, damaged_history, history_of_another_place,
    damaged_description, encrypted, lost_link, newest_gone,
)  # fmt: skip
