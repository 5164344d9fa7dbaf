"""The decoder against pg_waldump: the same totals and the same records, on WAL of every kind there is.

A real server of each version at hand runs a load that makes every resource manager write; its own pg_waldump
is the oracle. bench/wal_equality.py does the same with every version, and with a million records of each.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.wal.configurations import CONFIGURATIONS, Configuration
from tests.wal.equality import account, compare
from tests.wal.load import run_load
from tests.wal.operations import operations_of, resource_managers_of
from tests.wal.server import BINDIRS, Server
from tests.wal.waldump import Oracle
from walproof.errors import WalError
from walproof.units import Lsn
from walproof.wal import Finish, WalStats, stats

pytestmark = pytest.mark.live

BY_NAME = {configuration.name: configuration for configuration in CONFIGURATIONS}
CHOSEN = [
    ("19", "restarts"),
    ("19", "minimal"),
    ("19", "replica"),
    ("18", "restarts"),
    ("18", "minimal"),
    ("16", "replica"),
    ("16", "no-images"),
    ("15", "lz4"),
    ("15", "consistency"),
]
"""Version and configuration: what the builds at hand have (15, where Debian is, has every compression;
"consistency" has zstd)."""


@dataclass(frozen=True)
class Stretch:
    """WAL between two locations of a server that still runs, and what walproof says of it."""

    configuration: Configuration
    server: Server
    start: Lsn
    end: Lsn
    wal: WalStats


@pytest.fixture(scope="module", params=[f"{at}-{name}" for at, name in CHOSEN if at in BINDIRS])
def stretch(request: pytest.FixtureRequest) -> Iterator[Stretch]:
    version, name = request.param.split("-", 1)
    configuration = BY_NAME[name]
    with configuration.server(BINDIRS[version]) as server:
        start = server.insert_lsn()
        run_load(server, 2000)
        end = server.insert_lsn()
        yield Stretch(configuration, server, start, end, stats(server.wal, start=start, end=end))


def test_records_and_totals_are_those_of_pg_waldump(stretch: Stretch) -> None:
    server = stretch.server
    found = compare(Oracle(server.own_waldump, server.wal), server.wal, stretch.start, stretch.end)
    assert (found.differences, found.shown) == (0, [])
    assert found.records > 100_000
    assert stretch.wal.finish is Finish.REQUESTED
    assert stretch.wal.version == server.major


def test_every_resource_manager_is_reached(stretch: Stretch) -> None:
    level = stretch.configuration.wal_level
    missing = resource_managers_of(stretch.server.major) - set(stretch.wal.rmgrs)
    # The embedded builds of 16 and 18 may come without an extension that writes generic records.
    excused = {"Generic"} if stretch.server.major in (16, 18) else set()
    excused |= {"Standby"} if level == "minimal" else set()
    assert missing <= excused
    reached = {
        f"{name}/{operation}" for name, rmgr in stretch.wal.rmgrs.items() for operation in rmgr.operations
    }
    assert reached <= operations_of(stretch.server.major), "every name is one of that version"
    assert len(reached) > (100 if level == "logical" else 92)
    assigns = "XLOG/ASSIGN_LSN" if stretch.server.major >= 19 else "Gist/ASSIGN_LSN"
    assert (assigns in reached) == (level == "minimal")
    switches = level == "replica" and stretch.server.major >= 19
    assert ("XLOG/LOGICAL_DECODING_STATUS_CHANGE" in reached) == switches
    assert ("Heap2/NEW_CID" in reached) == (level == "logical")


def test_every_byte_is_accounted_for(stretch: Stretch) -> None:
    assert stretch.wal.start == stretch.start
    assert account(stretch.wal, stretch.end).shown == []
    assert stretch.wal.accounting.switch_bytes > 0


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
    compressed = {name for name, image in images.compressed.items() if image.count}
    assert compressed == (set() if method == "off" else {method})
    assert (images.uncompressed_bytes > images.bytes) == (method != "off")
    has_hints = "on" in (server.setting("data_checksums"), server.setting("wal_log_hints"))
    has_images = server.setting("full_page_writes") == "on"
    assert (images.hint_count > 0) == (has_hints and has_images)
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
