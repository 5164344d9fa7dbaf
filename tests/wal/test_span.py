"""Where a time is in the WAL: the same place as by reading all of it, in a few looks, whatever is missing."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest

from tests.golden.unpack import VERSIONS, unpack
from tests.wal.damage import crc32c
from tests.wal.test_names import segment_of
from walproof.errors import WalError
from walproof.units import Lsn
from walproof.wal import lines, records
from walproof.wal.span import Span, find_span


@dataclass(frozen=True)
class Ended:
    """The end of a transaction."""

    at_us: int
    lsn: Lsn
    end: Lsn


def ends(folder: Path, start: Lsn | None = None) -> list[Ended]:
    told = (
        json.loads(line)
        for text in lines(folder, style="json", allow_gaps=True, start=start)
        for line in text.splitlines()
    )
    return [
        Ended(record["time_unix_us"], Lsn.parse(record["lsn"]), Lsn.parse(record["end"]))
        for record in told
        if "time_unix_us" in record
    ]


def expected(found: Sequence[Ended], since_us: int, until_us: int) -> Span:
    """By reading everything; in golden WAL ends are in order of their times."""
    first = next(number for number, ended in enumerate(found) if ended.at_us >= since_us)
    later = [number for number, ended in enumerate(found) if ended.at_us > until_us]
    start = found[first - 1].end if first else None
    if not later:
        return Span(start, None)
    # As far as the last one that ended in time; if none did, up to the next one.
    return Span(start, found[later[0] - 1].end if later[0] > first else found[later[0]].lsn)


def asked(folder: Path, since_us: int, until_us: int) -> Span:
    return find_span(folder, since_s=since_us / 1e6, until_s=until_us / 1e6)


@pytest.mark.parametrize("version", VERSIONS)
def test_it_is_where_reading_everything_finds_it(version: int, tmp_path: Path) -> None:
    unpack(version, tmp_path)
    found = ends(tmp_path)
    assert len(found) > 50
    draw = random.Random(version)
    moments = [ended.at_us for ended in found]
    for _ in range(40):
        since, until = sorted(draw.choice(moments) + draw.randint(-2, 2) * 1000 for _ in range(2))
        if until < moments[0] or since > moments[-1]:
            continue
        wanted = expected(found, since, until)
        if wanted.start is not None and wanted.end is not None and wanted.end <= wanted.start:
            continue
        span = asked(tmp_path, since, until)
        assert (span.start, span.end) == (wanted.start, wanted.end), (since, until)
        has_end = any(since <= moment <= until for moment in moments)
        assert (span.doubt or "").startswith("No transaction ended since 20") is not has_end
    assert asked(tmp_path, moments[0], moments[-1]) == Span(None, None)
    assert find_span(tmp_path) == Span(None, None)


def test_records_of_a_span_are_those_between(tmp_path: Path) -> None:
    unpack(18, tmp_path)
    found = ends(tmp_path)
    first, last = found[len(found) // 3], found[len(found) // 2]
    span = asked(tmp_path, first.at_us, last.at_us)
    chosen = [record.lsn for record in records(tmp_path, start=span.start, end=span.end)]
    assert chosen == [
        record.lsn for record in records(tmp_path) if found[len(found) // 3 - 1].lsn < record.lsn <= last.lsn
    ]
    assert {first.lsn, last.lsn} <= set(chosen)


def test_a_segment_that_is_missing_or_damaged_does_not_hide_later_ones(tmp_path: Path) -> None:
    unpack(18, tmp_path)
    segments = sorted(file for file in tmp_path.iterdir() if len(file.name) == 24)
    assert len(segments) >= 3
    whole = ends(tmp_path)
    first, second = Lsn(int(segments[1].name[-8:], 16) << 20), Lsn(int(segments[2].name[-8:], 16) << 20)
    later = [ended for ended in whole if ended.lsn > second]
    since, until = later[-1].at_us, later[-1].at_us
    wanted = Span(later[-2].end, None)
    data = segments[1].read_bytes()
    segments[1].write_bytes(data[:100_000] + b"\xff" * 100 + data[100_100:])
    assert asked(tmp_path, since, until) == wanted
    segments[1].unlink()
    before = [ended for ended in whole if ended.end <= first]
    assert asked(tmp_path, since, until) == wanted
    assert asked(tmp_path, before[5].at_us, before[7].at_us) == Span(before[4].end, before[7].end)


def test_a_time_that_the_wal_does_not_cover(tmp_path: Path) -> None:
    unpack(17, tmp_path)
    whole = ends(tmp_path)
    first_s = whole[0].at_us / 1e6
    assert find_span(tmp_path, until_s=whole[-1].at_us / 1e6 + 86400) == Span(None, None)
    assert find_span(tmp_path, since_s=first_s - 86400) == Span(None, None)

    # What follows the last end may be from any later time, and what precedes the first one from any earlier.
    last = next(n for n, (one, other) in enumerate(pairwise(whole)) if n > 50 and other.lsn > one.end)
    end_at(tmp_path, whole[last + 1].lsn)
    span = find_span(tmp_path, since_s=whole[last].at_us / 1e6 + 86400)
    assert (span.start, span.end) == (whole[last].end, None)
    assert list(records(tmp_path, start=span.start))
    assert (span.doubt or "").startswith("No transaction ended since 20")
    assert "the last one before ended at 20" in (span.doubt or "")
    assert next(records(tmp_path)).lsn < whole[0].lsn
    span = find_span(tmp_path, until_s=first_s - 86400)
    assert (span.start, span.end) == (None, whole[0].lsn)
    assert " until 20" in (span.doubt or "")
    assert "the first one after ended at 20" in (span.doubt or "")


def test_a_time_of_which_there_is_no_record(tmp_path: Path) -> None:
    unpack(17, tmp_path)
    last = ends(tmp_path)[60]
    end_at(tmp_path, last.end)
    with pytest.raises(WalError, match="no WAL here was written since 20") as caught:
        find_span(tmp_path, since_s=last.at_us / 1e6 + 60)
    assert "the last one before ended at 20" in (caught.value.detail or "")
    assert "--by minute" in (caught.value.hint or "")


def end_at(folder: Path, end: Lsn) -> None:
    """Zeros from there on, as in WAL that nobody has written yet."""
    for segment in folder.iterdir():
        if len(segment.name) == 24:
            data = segment.read_bytes()
            kept = min(max(end - (int(segment.name[-8:], 16) << 20), 0), len(data))
            segment.write_bytes(data[:kept] + bytes(len(data) - kept))


def test_wal_without_any_time(tmp_path: Path) -> None:
    """A segment in which no transaction ended: one record, XLOG/NOOP."""
    (tmp_path / "000000010000000000000001").write_bytes(segment_of(0xD118, [(0, 0x20)]))
    span = find_span(tmp_path, since_s=1.0)
    assert (span.start, span.end) == (None, None)
    assert span.doubt == "No transaction ended in this WAL, so that nothing tells its time."
    assert find_span(tmp_path, until_s=1.0) == span


def test_what_was_written_before_the_next_end_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be of the time that was asked for; little of it is no matter."""
    unpack(18, tmp_path)
    found = ends(tmp_path)
    most = max(range(20, len(found) - 1), key=lambda number: found[number + 1].lsn - found[number].end)
    last, after = found[most], found[most + 1]
    assert asked(tmp_path, last.at_us, last.at_us).doubt is None
    monkeypatch.setattr("walproof.wal.span._LEFT_LEAST", 1000)
    span = asked(tmp_path, last.at_us, last.at_us)
    assert span.end == last.end
    assert (span.doubt or "").startswith("Another ")
    assert f"--end {after.lsn} has it" in (span.doubt or "")
    monkeypatch.setattr("walproof.wal.span._LEFT_SHARE", 2.0)
    assert asked(tmp_path, found[10].at_us, last.at_us).doubt is None


def test_ends_that_are_out_of_order(tmp_path: Path) -> None:
    """A session may write its end after others that took their time later: none within the times is lost."""
    unpack(18, tmp_path)
    found = ends(tmp_path)
    middle = len(found) // 2
    late, early = found[middle], found[middle + 1]
    segment_size = 1 << 20
    for ended, at_us in ((late, early.at_us), (early, late.at_us)):
        segment = next(tmp_path.glob(f"*{ended.lsn // segment_size:08X}"))
        replace_time(segment, ended.lsn % segment_size, ended.at_us, at_us)
    swapped = ends(tmp_path)
    assert [ended.at_us for ended in swapped[middle:][:2]] == [early.at_us, late.at_us]
    span = asked(tmp_path, late.at_us, late.at_us)
    assert (span.start, span.end) == (found[middle - 1].end, found[middle + 1].end)


def replace_time(segment: Path, offset: int, old_us: int, new_us: int) -> None:
    """Another time in the record of a transaction's end there, which is in one page, with its checksum."""
    data = bytearray(segment.read_bytes())
    (length,) = struct.unpack_from("<I", data, offset)
    epoch_us = 946_684_800 * 1_000_000
    record = bytes(data[offset : offset + length])
    record = record.replace(struct.pack("<q", old_us - epoch_us), struct.pack("<q", new_us - epoch_us))
    record = record[:20] + crc32c(record[24:] + record[:20]).to_bytes(4, "little") + record[24:]
    data[offset : offset + length] = record
    segment.write_bytes(data)
