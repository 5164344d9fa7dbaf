"""Where a time is in the WAL: the same place as by reading all of it, in a few looks, whatever is missing."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.golden.unpack import VERSIONS, unpack
from walproof.errors import WalError
from walproof.units import Lsn
from walproof.wal import lines, records, stats
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
    """By reading everything."""
    first = next(number for number, ended in enumerate(found) if ended.at_us >= since_us)
    after = next((ended.lsn for ended in found if ended.at_us > until_us), None)
    return Span(found[first - 1].end if first else None, after)


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
        assert asked(tmp_path, since, until) == wanted, (since, until)
    assert asked(tmp_path, moments[0], moments[-1]) == Span(None, None)
    assert find_span(tmp_path) == Span(None, None)


def test_records_of_a_span_are_those_between(tmp_path: Path) -> None:
    unpack(18, tmp_path)
    found = ends(tmp_path)
    first, last = found[len(found) // 3], found[len(found) // 2]
    span = asked(tmp_path, first.at_us, last.at_us)
    chosen = [record.lsn for record in records(tmp_path, start=span.start, end=span.end)]
    after = found[len(found) // 2 + 1].lsn
    assert chosen == [
        record.lsn for record in records(tmp_path) if found[len(found) // 3 - 1].lsn < record.lsn < after
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
    assert asked(tmp_path, before[5].at_us, before[7].at_us) == Span(before[4].end, before[8].lsn)


def test_a_time_that_the_wal_does_not_cover(tmp_path: Path) -> None:
    unpack(17, tmp_path)
    wal = stats(tmp_path)
    assert wal.first_commit_at is not None
    for since_s, until_s, words in (
        (wal.first_commit_at + 86400, None, "no transaction ended since 20"),
        (None, wal.first_commit_at - 86400, "no transaction ended until 20"),
        (wal.first_commit_at + 86400, wal.first_commit_at + 90000, " and until 20"),
        (wal.first_commit_at - 90000, wal.first_commit_at - 86400, " and until 20"),
        (wal.first_commit_at + 0.3, wal.first_commit_at - 90000, "no transaction ended since"),
    ):
        with pytest.raises(WalError, match=words) as caught:
            find_span(tmp_path, since_s=since_s, until_s=until_s)
        assert (caught.value.detail or "").startswith("The first one ended at 20")
    assert find_span(tmp_path, until_s=wal.first_commit_at + 86400) == Span(None, None)
    assert find_span(tmp_path, since_s=wal.first_commit_at - 86400) == Span(None, None)


def test_wal_without_any_time(tmp_path: Path) -> None:
    """A segment in which no transaction ended: one record, XLOG/NOOP."""
    from tests.wal.test_names import segment_of

    (tmp_path / "000000010000000000000001").write_bytes(segment_of(0xD118, [(0, 0x20)]))
    with pytest.raises(WalError, match="no transaction ended since") as caught:
        find_span(tmp_path, since_s=1.0)
    assert caught.value.detail == "No record of it has a time."
    assert find_span(tmp_path, until_s=1.0) == Span(None, None)
