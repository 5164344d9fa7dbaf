"""Recovery of golden WAL: what must hold whatever the WAL, and what cannot be asked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.golden.unpack import unpack
from walproof.errors import WalError
from walproof.units import Lsn
from walproof.wal import stats
from walproof.wal.recovery import analyse, find_redo

VERSIONS = (13, 14, 15, 16, 17, 18, 19)
BUFFERS = (16, 128, 4096)


@pytest.fixture(scope="module")
def wal(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    folders = {version: tmp_path_factory.mktemp(f"wal{version}") for version in VERSIONS}
    for version, folder in folders.items():
        unpack(version, folder)
    return folders


@pytest.mark.parametrize("version", VERSIONS)
def test_counts_are_those_of_stats(wal: dict[int, Path], version: int) -> None:
    written, found = stats(wal[version]), analyse(wal[version], buffers=BUFFERS)
    assert (found.version, found.start, found.last.end) == (version, written.start, written.end)
    assert found.last.records == written.totals.records
    assert found.last.record_bytes == written.totals.combined_bytes
    assert sum(image.count for image in found.last.images.values()) == written.images.count
    assert sum(image.bytes for image in found.last.images.values()) == written.images.bytes
    for method, image in written.images.compressed.items():
        assert found.last.images[method].count == image.count
    assert tuple(found.last.pools) == BUFFERS


@pytest.mark.parametrize("version", VERSIONS)
def test_work_up_to_a_mark_is_that_of_an_earlier_end(wal: dict[int, Path], version: int) -> None:
    whole = stats(wal[version])
    # Not in what a switch leaves unused: its record ends after such a mark and before such an end.
    marks = [Lsn(whole.start + (whole.end - whole.start) * part // 10) for part in (2, 9)]
    steps = analyse(wal[version], buffers=BUFFERS, marks=marks).steps
    assert len(steps) == 3
    for mark, step in zip(marks, steps, strict=False):
        alone = analyse(wal[version], buffers=BUFFERS, end=mark).last
        # What the prefetcher sees behind the mark is the only difference.
        for size in BUFFERS:
            pool, other = step.pools[size], alone.pools[size]
            assert (pool.misses, pool.frames, pool.resident) == (other.misses, other.frames, other.resident)
        assert (step.end, step.records, step.pages) == (alone.end, alone.records, alone.pages)
        assert step.recent_misses == alone.recent_misses


@pytest.mark.parametrize("version", VERSIONS)
def test_the_redo_point_is_that_of_the_last_checkpoint(wal: dict[int, Path], version: int) -> None:
    last = stats(wal[version]).checkpoints[-1]
    found = find_redo(wal[version])
    assert (found.checkpoint, found.redo) == (last.lsn, last.redo)
    assert find_redo(wal[version], threads=1) == found


def test_wal_without_a_checkpoint_is_refused(wal: dict[int, Path]) -> None:
    first = stats(wal[15]).checkpoints[0]
    with pytest.raises(WalError, match="no complete checkpoint") as caught:
        find_redo(wal[15], end=first.lsn)
    assert "--start" in str(caught.value.hint)


@pytest.mark.parametrize("buffers", [0, 15, 2**30])
def test_sizes_that_no_server_has_are_refused(wal: dict[int, Path], buffers: int) -> None:
    with pytest.raises(WalError, match="shared_buffers is out of range"):
        analyse(wal[15], buffers=[buffers])
    with pytest.raises(WalError, match="shared_buffers is out of range"):
        analyse(wal[15], buffers=[16], crashed=buffers)


@pytest.mark.parametrize("version", VERSIONS)
def test_pages_that_the_crashed_server_had_written_are_newer(wal: dict[int, Path], version: int) -> None:
    older = analyse(wal[version], buffers=[64], images="off").last
    newer = analyse(wal[version], buffers=[64], images="off", crashed=128).last
    assert older.done == 0
    assert 0 < newer.done < newer.references
    assert newer.dirty < older.dirty
    with_newer, other = newer.pool(64), older.pool(64)
    assert with_newer.evictions < other.evictions
    assert (with_newer.misses, with_newer.reads) == (other.misses, other.reads), (
        "they are looked at all the same"
    )
    # A server with room for every page had written none, and an image makes a page old again.
    assert analyse(wal[version], buffers=[64], images="off", crashed=65536).last == older
    images = analyse(wal[version], buffers=[64], images="first", crashed=128).last
    assert images.done < newer.done / 4


def test_settings_of_the_prefetcher_count(wal: dict[int, Path]) -> None:
    near, far = (analyse(wal[15], buffers=[4096], concurrency=n).last for n in (1, 100))
    assert near.pools_off == far.pools_off
    assert near.pool(4096, prefetch=False).prefetches == 0
    assert near.pool(4096).disk_reads <= far.pool(4096).disk_reads
    assert near.pool(4096, prefetch=False).disk_reads <= near.pool(4096).disk_reads
    before_15 = analyse(wal[14], buffers=[4096], concurrency=100).last
    assert before_15.pools == before_15.pools_off
    assert before_15.pool(4096).prefetches == 0


@pytest.mark.parametrize("version", VERSIONS)
def test_without_a_prefetcher_the_kernel_may_read_pages_together(version: int, wal: dict[int, Path]) -> None:
    alone, few, many = (
        analyse(wal[version], buffers=[4096], images="off", read_ahead_kb=size).last
        for size in (8, 128, 8192)
    )
    pages = alone.pool(4096, prefetch=False).disk_reads
    assert alone.requests(4096, prefetch=False) == pages > 20
    for pool in (few, many):
        assert pool.requests(4096, prefetch=False) > 0
        assert replace(pool, disk_requests=pages) == alone, "nothing else depends on it"
    if version > 13:
        assert many.disk_requests < pages, "in the WAL of 13 no page that is read has a neighbour"
    if version >= 15:
        assert few.requests(4096) == few.pool(4096).disk_reads, "asked for one by one"
