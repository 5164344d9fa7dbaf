"""``walproof.wal`` on golden WAL: every field filled, every failure a WalError. No server needed."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from tests.golden.unpack import GOLDEN, VERSIONS, unpack
from tests.wal.waldump import own_records, own_statistics, statistics
from walproof.errors import WalError
from walproof.units import Lsn
from walproof.wal import CheckpointKind, Finish, stats


def test_there_is_wal_of_every_version() -> None:
    assert VERSIONS == [13, 14, 15, 16, 17, 18, 19]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_summary(version: int, tmp_path: Path) -> None:
    facts = unpack(version, tmp_path)
    start, end = Lsn.parse(facts["start"]), Lsn.parse(facts["end"])
    wal = stats(tmp_path, start=start, end=end)
    oracle = GOLDEN / str(version) / "stats.txt"
    assert oracle.exists() == (version != 14), "no pg_waldump of 14 was at hand"
    if oracle.exists():
        assert own_statistics(wal) == statistics(oracle.read_text())
    assert (wal.version, wal.segment_size, wal.timeline) == (version, 1024 * 1024, 1)
    assert (wal.start, wal.end, wal.finish, wal.finish_reason) == (start, end, Finish.REQUESTED, None)
    assert wal.accounting.total_bytes == end - start
    assert wal.accounting.record_bytes == wal.totals.combined_bytes
    assert sum(rmgr.totals.records for rmgr in wal.rmgrs.values()) == wal.totals.records
    for rmgr in wal.rmgrs.values():
        assert sum(totals.records for totals in rmgr.operations.values()) == rmgr.totals.records
    assert {checkpoint.kind for checkpoint in wal.checkpoints} == set(CheckpointKind)
    assert wal.first_commit_at is not None
    assert wal.last_commit_at is not None
    assert wal.first_commit_at < wal.last_commit_at < wal.first_commit_at + 600
    assert sum(1 for _ in own_records(tmp_path, start, end)) == wal.totals.records


def test_a_summary_to_the_end_and_of_one_file(tmp_path: Path) -> None:
    facts = unpack(18, tmp_path)
    whole = stats(tmp_path)
    assert whole.finish is Finish.END_OF_WAL
    assert whole.finish_reason is not None
    assert whole.finish_reason.startswith("invalid record length at")
    assert whole.end >= Lsn.parse(facts["end"])
    first = stats(min(tmp_path.iterdir()))
    assert (first.start, first.finish) == (whole.start, Finish.LAST_SEGMENT)
    assert first.totals.records < whole.totals.records


def test_damage_is_an_error_with_a_place(tmp_path: Path) -> None:
    facts = unpack(16, tmp_path)
    start = Lsn.parse(facts["start"])
    segment = min(tmp_path.iterdir())
    damaged = bytearray(segment.read_bytes())
    damaged[start % (1024 * 1024) + 24] ^= 1
    segment.write_bytes(damaged)
    with pytest.raises(WalError) as caught:
        stats(tmp_path, start=start, end=Lsn.parse(facts["end"]))
    assert caught.value.message == f"could not find a valid record after {start}"
    assert caught.value.detail == f"incorrect resource manager data checksum in record at {start}"
    assert caught.value.hint is not None
    assert pickle.loads(pickle.dumps(caught.value)).detail == caught.value.detail


def test_wal_of_a_beta_is_refused_by_name(tmp_path: Path) -> None:
    unpack(19, tmp_path)
    for segment in tmp_path.iterdir():
        pages = bytearray(segment.read_bytes())
        for at in range(0, len(pages), 8192):
            pages[at : at + 2] = (0xD120).to_bytes(2, "little")
        segment.write_bytes(pages)
    segment = min(tmp_path.iterdir())
    with pytest.raises(WalError) as caught:
        stats(tmp_path)
    assert caught.value.message == (
        f"WAL segment {segment.name} is of a pre-release of PostgreSQL 19: "
        "its magic number is D120, expected D122"
    )
    assert caught.value.detail == f"segment {segment.name}, no record read before"
    assert caught.value.hint is not None
    assert "PostgreSQL 19 as its first release candidate writes it" in caught.value.hint


def test_nothing_to_read_is_an_error(tmp_path: Path) -> None:
    unpack(15, tmp_path)
    empty = tmp_path / "empty"
    empty.mkdir()
    far = Lsn.parse("7/0")
    cases = [
        (tmp_path / "nowhere", None, None, "could not open file"),
        (empty, None, None, "could not find any WAL file in"),
        (Path(__file__), None, None, 'file "'),
        (tmp_path, far, None, "could not find WAL segment 000000010000000700000000 for 7/0"),
        (tmp_path, far, Lsn(1), "start WAL location 7/0 is after end WAL location 0/1"),
    ]
    for path, start, end, message in cases:
        with pytest.raises(WalError) as caught:
            stats(path, start=start, end=end)
        assert caught.value.message.startswith(message)
