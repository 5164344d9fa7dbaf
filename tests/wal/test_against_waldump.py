"""The decoder against pg_waldump: the same totals and the same records, on WAL of every kind there is.

A real server of each version at hand runs a load that makes every resource manager write; its own pg_waldump
is the oracle.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.wal.load import run_load
from tests.wal.server import BINDIRS, Server
from tests.wal.waldump import own_records, own_statistics, records, statistics
from walproof.errors import WalError
from walproof.units import Lsn
from walproof.wal import Finish, WalStats, stats

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

CONFIGURATIONS: dict[str, tuple[str, list[str], dict[str, str]]] = {
    "18-pglz": ("18", ["--wal-segsize=1"], {"wal_compression": "pglz"}),
    "16-checksums": ("16", ["--wal-segsize=4", "-k"], {}),
    "15-lz4-hints": ("15", ["--wal-segsize=1"], {"wal_compression": "lz4", "wal_log_hints": "on"}),
    "15-zstd-consistency": (
        "15",
        ["--wal-segsize=16"],
        {"wal_compression": "zstd", "wal_consistency_checking": "all"},
    ),
}
EVERY_RESOURCE_MANAGER = frozenset(
    {
        "XLOG",
        "Transaction",
        "Storage",
        "CLOG",
        "Database",
        "Tablespace",
        "MultiXact",
        "RelMap",
        "Standby",
        "Heap2",
        "Heap",
        "Btree",
        "Hash",
        "Gin",
        "Gist",
        "Sequence",
        "SPGist",
        "BRIN",
        "CommitTs",
        "ReplicationOrigin",
        "Generic",
        "LogicalMessage",
    }
)


@dataclass(frozen=True)
class Stretch:
    """WAL between two locations of a server that still runs, and what walproof says of it."""

    server: Server
    start: Lsn
    end: Lsn
    wal: WalStats


@pytest.fixture(scope="module", params=[name for name, (at, *_) in CONFIGURATIONS.items() if at in BINDIRS])
def stretch(request: pytest.FixtureRequest) -> Iterator[Stretch]:
    version, initdb, settings = CONFIGURATIONS[request.param]
    with Server(BINDIRS[version], initdb, settings) as server:
        start = server.insert_lsn()
        run_load(server, 4000)
        end = server.insert_lsn()
        yield Stretch(server, start, end, stats(server.wal, start=start, end=end))


def test_totals_are_those_of_pg_waldump(stretch: Stretch) -> None:
    expected = statistics(
        stretch.server.waldump("-s", str(stretch.start), "-e", str(stretch.end), "--stats=record")
    )
    assert len(expected) > 90, "the load reaches most operations"
    assert own_statistics(stretch.wal) == expected
    assert stretch.wal.finish is Finish.REQUESTED
    assert stretch.wal.version == stretch.server.major


def test_records_are_those_of_pg_waldump(stretch: Stretch) -> None:
    expected = records(
        stretch.server.waldump("-s", str(stretch.start), "-e", str(stretch.end), "--bkp-details")
    )
    assert len(expected) > 100_000
    actual = own_records(str(stretch.server.wal), stretch.start, stretch.end)
    assert len(actual) == len(expected)
    different = [pair for pair in zip(actual, expected, strict=True) if pair[0] != pair[1]]
    assert different[:3] == []


def test_every_resource_manager_is_reached(stretch: Stretch) -> None:
    missing = EVERY_RESOURCE_MANAGER - set(stretch.wal.rmgrs)
    # The embedded builds of 16 and 18 may come without an extension that writes generic records.
    assert missing <= ({"Generic"} if stretch.server.major in (16, 18) else set())


def test_every_byte_is_accounted_for(stretch: Stretch) -> None:
    wal = stretch.wal
    assert wal.start == stretch.start
    assert 0 <= stretch.end - wal.end <= 40, "nothing but the header of a page"
    assert wal.accounting.total_bytes == wal.end - wal.start
    assert wal.accounting.record_bytes == wal.totals.combined_bytes
    assert wal.accounting.switch_bytes > 0


def test_transactions_and_checkpoints(stretch: Stretch) -> None:
    wal = stretch.wal
    operations = wal.rmgrs["Transaction"].operations
    assert wal.commits == operations["COMMIT"].records + operations["COMMIT_PREPARED"].records
    assert wal.aborts == operations["ABORT"].records + operations["ABORT_PREPARED"].records
    assert wal.first_commit_at is not None
    assert wal.last_commit_at is not None
    assert len(wal.checkpoints) >= 2
    for checkpoint in wal.checkpoints:
        assert wal.first_commit_at - 1 <= checkpoint.at <= wal.last_commit_at + 1
        assert checkpoint.redo < checkpoint.lsn


def test_images(stretch: Stretch) -> None:
    server, images = stretch.server, stretch.wal.images
    assert images.bytes == stretch.wal.totals.image_bytes
    method = server.setting("wal_compression")
    compressed = {name for name, own in images.compressed.items() if own.count}
    assert compressed == (set() if method == "off" else {method})
    assert (images.uncompressed_bytes > images.bytes) == (method != "off")
    has_hints = "on" in (server.setting("data_checksums"), server.setting("wal_log_hints"))
    assert (images.hint_count > 0) == has_hints
    assert (images.not_applied_count > 0) == (server.setting("wal_consistency_checking") == "all")


def test_any_start_and_end(stretch: Stretch) -> None:
    """A start between records moves to the next one; an end between them, to the one before."""
    wal, end = stretch.server.wal, stretch.end
    whole = stats(wal, start=Lsn(end - 100_000), end=end)
    for cut in range(end - 50_000, end - 49_000, 9):
        before = stats(wal, start=whole.start, end=Lsn(cut))
        after = stats(wal, start=Lsn(cut), end=end)
        assert before.end <= cut + 7, "records end where they end, padding apart"
        assert after.start >= cut
        lost = whole.totals.records - before.totals.records - after.totals.records
        assert lost in (0, 1), "at most the record that the cut goes through"


def test_reading_to_the_end_of_a_running_server(stretch: Stretch) -> None:
    end = stretch.server.insert_lsn()
    wal = stats(stretch.server.wal, start=stretch.start)
    assert wal.finish is Finish.END_OF_WAL
    assert wal.finish_reason is not None
    assert wal.end >= end - 40
    assert stats(stretch.server.wal, start=stretch.start, end=wal.end).totals == wal.totals


def test_an_end_that_was_not_reached_is_an_error(stretch: Stretch) -> None:
    with pytest.raises(WalError) as caught:
        stats(stretch.server.wal, start=stretch.start, end=Lsn(stretch.end + 16 * 1024 * 1024))
    assert caught.value.detail is not None
    assert "previous record at" in caught.value.detail or "segment" in caught.value.message
