"""Images of a crash on real servers: they recover, and what the log says of it is what the WAL holds."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from walproof.errors import AnalysisError, ClusterError, DiskError
from walproof.facts import Install
from walproof.facts.recovery_log import read_recovery_log
from walproof.lab.recovery import crash
from walproof.lab.recovery.backed_memory import BackedMemory, backed_memory
from walproof.lab.recovery.crash import (
    Cache,
    CrashImage,
    MeasuredRecovery,
    drop_cache,
    recover,
    take_crash_image,
)
from walproof.lab.recovery.memory_reserve import MemoryReserve
from walproof.postgres import template as templates
from walproof.postgres.cluster import Cluster
from walproof.postgres.workspace import Workspace
from walproof.units import Lsn
from walproof.wal.recovery import PAGE_BYTES, analyse, find_redo

pytestmark = [pytest.mark.live, pytest.mark.pg(ends=True)]

SETTINGS = {
    "shared_buffers": "16MB", "autovacuum": "off", "checkpoint_timeout": "1h", "fsync": "off",
    # Nobody but recovery writes pages.
    "bgwriter_lru_maxpages": "0",
}  # fmt: skip
BUFFERS = 2048


@pytest.fixture
def server(install: Install, workspace: Workspace) -> Cluster:
    return started(install, workspace, ())


@pytest.fixture
def unhinted(install: Install, workspace: Workspace) -> Cluster:
    """A server that logs no hint bits: from 18 on checksums have to be declined for that."""
    return started(install, workspace, ("--no-data-checksums",) if install.version_num >= 180000 else ())


def started(install: Install, workspace: Workspace, options: Sequence[str]) -> Cluster:
    folder = workspace.make_folder("filled")
    templates.clone(templates.prepare_empty(workspace, install, options), folder, flush=False)
    cluster = Cluster(install, workspace, folder)
    cluster.start(SETTINGS | {"wal_keep_size": "1GB"})
    with cluster.connect() as connection:
        connection.execute("CREATE TABLE t (id int, f text)")
        connection.execute("CHECKPOINT")
    return cluster


def crashed_after(server: Cluster, workspace: Workspace, statements: Sequence[str]) -> CrashImage:
    """The crash of the server once it has run these; it is stopped."""
    try:
        with server.connect() as connection:
            for statement in statements:
                connection.execute(statement.encode())
            # What has no transaction number, as VACUUM, leaves its WAL to the walwriter: a commit of what
            # wrote WAL flushes it. (Having a number is not enough: RecordTransactionCommit, xact.c.)
            connection.execute("SELECT pg_logical_emit_message(true, 'walproof', 'flush')")
        return take_crash_image(server, workspace.make_folder("image"))
    finally:
        server.stop("immediate")


def recovered_counting(
    image: CrashImage, workspace: Workspace, settings: Mapping[str, str], columns: str
) -> tuple[MeasuredRecovery, list[int]]:
    """A recovery, and what its startup process did to relations in shared_buffers (from 16 on)."""
    query = (
        f"SELECT {columns} FROM pg_stat_io WHERE backend_type = 'startup' AND context = 'normal'"
        " AND object = 'relation'"
    )
    found = recover(image, workspace, settings, query=query)
    assert found.answer is not None
    return found, [int(str(count)) for count in found.answer]


def test_one_server_serves_several_distances(server: Cluster, workspace: Workspace) -> None:
    images = []
    try:
        for number in range(2):
            with server.connect() as connection:
                connection.execute(
                    "INSERT INTO t SELECT n, repeat('x', 100) FROM generate_series(1, 60000) n"
                )
            images.append(take_crash_image(server, workspace.make_folder(f"image-{number}")))
            assert server.is_running()
    finally:
        server.stop("immediate")
    found = [recover(image, workspace, SETTINGS) for image in images]
    distances = [distance.times.wal_bytes for distance in found]
    assert distances[0] * 1.5 < distances[1]
    assert found[0].times.redo_start == found[1].times.redo_start
    for image, distance in zip(images, found, strict=True):
        redo = find_redo(image.wal)
        work = analyse(image.wal, start=redo.redo, buffers=[BUFFERS]).last
        assert redo.redo == distance.times.redo_start
        assert 0 <= work.end - distance.times.redo_end < 16384, "the last record ends where the WAL does"
        assert distance.course.cpu_s > 0
        if distance.times.checkpoint is not None:
            # The simulated buffers against what the checkpointer says that it wrote.
            assert distance.times.checkpoint.buffers == pytest.approx(work.pools[BUFFERS].resident, abs=60)


@pytest.mark.pg(">= 18")
def test_a_server_recovers_where_its_memory_is(
    server: Cluster, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    try:
        with server.connect() as connection:
            connection.execute("INSERT INTO t SELECT n, repeat('x', 100) FROM generate_series(1, 1000) n")
        image = take_crash_image(server, workspace.make_folder("image"))
    finally:
        server.stop("immediate")
    wanted: list[int] = []
    held: list[set[int]] = []
    began: list[set[int]] = []
    launch = Cluster.launch

    @contextmanager
    def watched_memory(size: int) -> Iterator[BackedMemory]:
        with backed_memory(size) as memory:
            wanted.append(size)
            held.append({memory.processor})
            yield memory

    def watched_launch(self: Cluster, settings: Mapping[str, str]) -> None:
        launch(self, settings)
        began.append(os.sched_getaffinity(self.pid))

    monkeypatch.setattr(crash, "backed_memory", watched_memory)
    monkeypatch.setattr(Cluster, "launch", watched_launch)
    before = os.sched_getaffinity(0)
    recover(image, workspace, SETTINGS)
    assert wanted[0] > BUFFERS * PAGE_BYTES
    assert began == held
    kept: list[int] = []

    def watched_reserve(size: int, processor: int) -> MemoryReserve:
        kept.append(size)
        return MemoryReserve(size, processor)

    monkeypatch.setattr(crash, "MemoryReserve", watched_reserve)
    recover(image, workspace, SETTINGS, Cache.COLD)
    files = sum(path.stat().st_size for path in image.folder.rglob("*") if path.is_file())
    wal = sum(path.stat().st_size for path in image.wal.iterdir() if path.is_file())
    assert kept == [wal]
    assert wanted[1] == wanted[0] + files - wal
    assert began == held
    assert os.sched_getaffinity(0) == before


def test_segments_that_were_kept_for_us_are_no_work_of_recovery(
    server: Cluster, workspace: Workspace
) -> None:
    fills = [f"INSERT INTO t SELECT {n}, 'x'; SELECT pg_switch_wal()" for n in range(6)]
    image = crashed_after(server, workspace, [*fills, "CHECKPOINT", "INSERT INTO t SELECT 7, 'x'"])
    kept = [path for path in image.wal.iterdir() if len(path.name) == 24]
    assert len(kept) > 6
    checkpoint = recover(image, workspace, SETTINGS).times.checkpoint
    # Redo begins and ends in one segment: that is all that a checkpoint can recycle or remove.
    assert checkpoint is None or checkpoint.segments <= 1
    assert sorted(kept) == sorted(path for path in image.wal.iterdir() if len(path.name) == 24)


def test_an_image_without_a_control_file_is_named(server: Cluster, workspace: Workspace) -> None:
    image = crashed_after(server, workspace, [])
    (image.folder / "data" / "global" / "pg_control").unlink()
    with pytest.raises(ClusterError, match="where recovery begins is not known") as caught:
        recover(image, workspace, SETTINGS)
    assert "pg_control" in caught.value.message


@pytest.mark.pg(">= 15")
def test_a_shortened_image_recovers_less_and_cold_reads_it_from_the_disk(
    server: Cluster, workspace: Workspace
) -> None:
    try:
        with server.connect() as connection:
            connection.execute("INSERT INTO t SELECT n, repeat('x', 100) FROM generate_series(1, 300000) n")
        image = take_crash_image(server, workspace.make_folder("image"))
    finally:
        server.stop("immediate")
    redo = find_redo(image.wal)
    wal = {path.name: path.read_bytes() for path in image.wal.iterdir() if len(path.name) == 24}
    segments = sorted(wal)
    query = "SELECT pg_current_wal_insert_lsn()"
    whole = recover(image, workspace, SETTINGS, Cache.COLD, query=query, shares_wal=True)
    # Which goes on where segments are that the image still has.
    part = recover(image, workspace, SETTINGS, until=segments[2], query=query, shares_wal=True)
    for part_or_whole in (whole, part):
        assert part_or_whole.answer is not None
        assert Lsn.parse(str(part_or_whole.answer[0])) > part_or_whole.times.redo_end, (
            "the server wrote WAL of its own"
        )
    assert {path.name: path.read_bytes() for path in image.wal.iterdir() if len(path.name) == 24} == wal
    assert part.times.redo_start == whole.times.redo_start == redo.redo
    assert part.times.wal_bytes < whole.times.wal_bytes - (16 << 20)
    seen = [start.segment for start in whole.course.starts]
    assert seen == sorted(seen)
    assert set(seen) <= set(segments)
    if whole.course.read_bytes is not None:
        assert whole.course.read_bytes > 0.9 * whole.times.wal_bytes


@pytest.mark.pg(">= 15")
def test_the_prefetcher_is_simulated_call_by_call(server: Cluster, workspace: Workspace) -> None:
    try:
        with server.connect() as connection:
            connection.execute("CREATE TABLE wide (id int, v int, f text) WITH (fillfactor = 60)")
            connection.execute(
                "INSERT INTO wide SELECT n, 0, repeat('x', 300) FROM generate_series(1, 40000) n"
            )
            connection.execute("CHECKPOINT")
            # Images, then references without, near and far.
            for rows in ("id % 11 = 0", "id % 7 = 0", "id % 5 = 0"):
                connection.execute(f"UPDATE wide SET v = v + 1 WHERE {rows}".encode())
        image = take_crash_image(server, workspace.make_folder("image"))
    finally:
        server.stop("immediate")
    work = analyse(image.wal, start=find_redo(image.wal).redo, buffers=[BUFFERS]).last
    query = "SELECT prefetch, skip_fpw, skip_init FROM pg_stat_recovery_prefetch"
    found = recover(image, workspace, SETTINGS | {"recovery_prefetch": "try"}, query=query)
    assert found.answer is not None
    prefetch, skip_fpw, skip_init = (int(str(value)) for value in found.answer)
    assert skip_fpw > 1000
    assert skip_fpw == pytest.approx(
        sum(images_of_kind.count for images_of_kind in work.images.values()), rel=0.02
    )
    assert skip_init == pytest.approx(work.initialised, rel=0.02, abs=20)
    assert prefetch == pytest.approx(work.pools[BUFFERS].prefetches, rel=0.03, abs=30)


@pytest.mark.pg(">= 16")
def test_pages_are_evicted_as_in_the_server_with_and_without_the_prefetcher(
    server: Cluster, workspace: Workspace
) -> None:
    """To 18, what the prefetcher finds in a buffer does not grow its usage count."""
    statements = (
        "CREATE TABLE wide (id int PRIMARY KEY, v int, f text) WITH (fillfactor = 60)",
        "INSERT INTO wide SELECT n, 0, repeat('x', 300) FROM generate_series(1, 40000) n",
        "CHECKPOINT",
        "SET enable_hashjoin = off",
        "SET enable_mergejoin = off",
        # Some pages often, most of them seldom, in no order.
        "UPDATE wide SET v = v + 1 FROM (SELECT 1 + (39999 * random() ^ 6)::int AS picked"
        " FROM generate_series(1, 30000)) picks WHERE id = picked",
    )
    image = crashed_after(server, workspace, statements)
    buffers = 1024
    work = analyse(image.wal, start=find_redo(image.wal).redo, buffers=[buffers]).last
    evictions = {}
    for prefetch in (True, False):
        settings = SETTINGS | {
            "shared_buffers": f"{buffers * 8}kB",
            "recovery_prefetch": "try" if prefetch else "off",
        }
        _, (reads, evictions[prefetch]) = recovered_counting(image, workspace, settings, "reads, evictions")
        pool = work.pool(buffers, prefetch=prefetch)
        # Replay also touches pages that no record names.
        assert reads == pytest.approx(pool.reads, rel=0.005, abs=5)
        assert evictions[prefetch] == pytest.approx(pool.evictions, rel=0.005, abs=5)
    if server.install.version_num < 190000:
        assert evictions[True] > evictions[False]


@pytest.mark.pg(">= 16")
def test_pages_that_the_server_had_written_are_passed_over(server: Cluster, workspace: Workspace) -> None:
    """Without images a page on disk may be newer than its records: replay leaves it clean."""
    statements = (
        "ALTER SYSTEM SET full_page_writes = off",
        "SELECT pg_reload_conf()",
        "CREATE TABLE wide (id int, v int, f text) WITH (fillfactor = 60)",
        "INSERT INTO wide SELECT n, 0, repeat('x', 300) FROM generate_series(1, 60000) n",
        "CHECKPOINT",
        "UPDATE wide SET v = v + 1 WHERE id % 14 = 0",
    )
    image = crashed_after(server, workspace, statements)
    buffers = 1024
    redo = find_redo(image.wal).redo
    older = analyse(image.wal, start=redo, buffers=[buffers]).last
    work = analyse(image.wal, start=redo, buffers=[buffers], crashed=BUFFERS).last
    settings = SETTINGS | {"shared_buffers": f"{buffers * 8}kB", "recovery_prefetch": "off"}
    found, (written,) = recovered_counting(image, workspace, settings, "writes")
    pool = work.pool(buffers, prefetch=False)
    assert 0.2 < work.done / work.references < 0.9
    assert written == pytest.approx(pool.evictions, rel=0.05, abs=20)
    assert found.times.checkpoint is not None
    assert found.times.checkpoint.buffers == pytest.approx(pool.resident, rel=0.02, abs=60)
    assert written + found.times.checkpoint.buffers == pytest.approx(work.dirty, rel=0.02, abs=60)
    assert older.dirty > work.dirty * 1.2
    assert older.changes - work.changes == work.done


@pytest.mark.pg(">= 16")
def test_a_page_that_became_visible_is_never_newer(unhinted: Cluster, workspace: Workspace) -> None:
    """Without logged hint bits it does not get the record's location."""
    statements = (
        "CREATE TABLE wide (id int, f text)",
        "INSERT INTO wide SELECT n, repeat('x', 300) FROM generate_series(1, 120000) n",
        "CHECKPOINT",
        "VACUUM wide",
    )
    image = crashed_after(unhinted, workspace, statements)
    buffers = 1024
    work = analyse(image.wal, start=find_redo(image.wal).redo, buffers=[buffers], crashed=BUFFERS).last
    settings = SETTINGS | {"shared_buffers": f"{buffers * 8}kB"}
    found, (written,) = recovered_counting(image, workspace, settings, "writes")
    assert found.times.checkpoint is not None
    assert work.dirty > 2 * BUFFERS
    assert written + found.times.checkpoint.buffers == pytest.approx(work.dirty, rel=0.02, abs=60)


@pytest.mark.pg(">= 16")
def test_only_files_that_were_dropped_later_are_extended(server: Cluster, workspace: Workspace) -> None:
    """The server had extended the others itself before it crashed."""
    statements = (
        "INSERT INTO t SELECT n, repeat('x', 300) FROM generate_series(1, 60000) n",
        "CREATE TABLE staging (id int, f text)",
        "INSERT INTO staging SELECT n, repeat('x', 300) FROM generate_series(1, 20000) n",
        "DROP TABLE staging",
        "INSERT INTO t SELECT n, repeat('x', 300) FROM generate_series(1, 10000) n",
    )
    image = crashed_after(server, workspace, statements)
    work = analyse(image.wal, start=find_redo(image.wal).redo, buffers=[BUFFERS]).last
    _, (extended,) = recovered_counting(image, workspace, SETTINGS, "extends")
    # Replay also makes free space maps, which no record names.
    assert 20_000 * 300 / PAGE_BYTES < work.extensions <= extended <= work.extensions + 20
    assert work.pages > 4 * work.extensions


@pytest.mark.pg(">= 18")
def test_a_clean_stop_needs_no_redo(server: Cluster, workspace: Workspace) -> None:
    server.stop("fast")
    image_folder = workspace.make_folder("clean")
    templates.clone(server.folder, image_folder)
    cluster = Cluster(server.install, workspace, image_folder)
    cluster.start(SETTINGS)
    cluster.stop("immediate")
    cluster.log.unlink()
    cluster.start(SETTINGS)
    cluster.stop("immediate")
    with pytest.raises(AnalysisError, match=r"needed no redo|no crash recovery"):
        read_recovery_log(cluster.log.read_text())


def test_memory_has_no_cache_to_drop() -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder, pytest.raises(DiskError, match="in memory"):
        drop_cache(Path(folder))
