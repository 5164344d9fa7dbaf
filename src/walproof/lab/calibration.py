"""Measures what the parts of recovery cost on this machine: a load in phases, replayed under two
shared_buffers.

    tables filled, CHECKPOINT, then phases, each ended by pg_switch_wal(), so that a phase is whole segments
      -> image of a crash -> replays: large and small shared_buffers, twice; once with a cold cache;
         and shortened ones, whose checkpoints write few runs, or many

Each phase stresses one part: records, bytes, images, random references, misses, decompression. While one
replay runs, the startup process's title tells the segment, and its schedstat the CPU
(``walproof.probe.replay``). What the figures mean is the business of ``walproof.analysis.recovery``.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import psycopg

from walproof.errors import ClusterError
from walproof.facts import Install
from walproof.facts.calibration import Calibration, CheckpointRun, ColdReplay, Machine, PhaseReplay
from walproof.lab.backed_memory import backed_memory
from walproof.lab.crash import (
    Cache,
    CrashImage,
    MeasuredRecovery,
    check_disk,
    recover,
    take_crash_image,
)
from walproof.lab.kernel_work import cached_pages, first_use, random_pages
from walproof.postgres import template as templates
from walproof.postgres.cluster import Cluster
from walproof.postgres.workspace import Workspace
from walproof.probe.device import find_read_ahead_kb
from walproof.probe.environment import observe_environment
from walproof.units import Lsn
from walproof.wal.recovery import (
    PAGE_BYTES,
    QUANTITIES,
    RecoveryAnalysis,
    RecoveryWork,
    analyse,
    find_redo,
)

NEED_BYTES = 5 << 30
"""Of the scratch folder: the filled cluster, its image, and a clone of that."""
LARGE_BUFFERS, SMALL_BUFFERS = 65536, 8192
"""512 and 64 MB."""
_LOAD_BUFFERS = 196608
"""1.5 GB, in which all pages of the load find room: one that was written before the crash is newer than the
records that made it, which replay then skips."""
REPEATS = 2
CHECKPOINTS_AFTER = (
    ("dropped", Cache.WARM), ("scatter", Cache.WARM), ("image", Cache.WARM), ("uuid", Cache.COLD),
)  # fmt: skip
"""Phases at whose end a shortened replay ends, for the sake of its checkpoint: of few pages in order, of as
many in no order, of more of both, of all that there is room for."""
_READS_PAGES = 32768
_LATENCY_READS, _LATENCY_S = 400, 2.0
_IOPS_THREADS, _IOPS_S = 16, 1.5
_LOAD_SETTINGS = {
    "fsync": "off",
    "autovacuum": "off",
    "max_wal_size": "20GB",
    "checkpoint_timeout": "1h",
    "synchronous_commit": "off",
    "wal_compression": "off",
    # Pages stay in shared_buffers: see _LOAD_BUFFERS.
    "bgwriter_lru_maxpages": "0",
    "full_page_writes": "on",
    "maintenance_work_mem": "256MB",
    "max_parallel_maintenance_workers": "0",
    "wal_level": "replica",
}
_FILL = (
    # 48 rows a page, with room for a few versions.
    "CREATE TABLE {name} (id int, v int, f text) WITH (fillfactor = {fillfactor})",
    "INSERT INTO {name} SELECT n, 0, {text} FROM generate_series(0, {pages} * 48 - 1) n",
)
_PLAIN_TEXT = "repeat('x', 100)"
_PACKED_TEXT = "md5(n::text) || repeat(' ', 68)"
"""Of tables whose images are compressed: a part that is worth it and one that is not, as in most tables."""


@dataclass(frozen=True, slots=True)
class Phase:
    """Statements whose replay is one row of the fit."""

    name: str
    statements: tuple[str, ...]
    settings: tuple[tuple[str, str], ...] = ()
    """Changed for the phase alone."""


def _update(table: str, condition: str) -> str:
    return f"UPDATE {table} SET v = v + 1 WHERE {condition}"


def _phases(share: float) -> tuple[Phase, ...]:
    """The phases in their order, with that share of the rows."""

    def count(rows: int) -> int:
        return max(1, int(rows * share))

    def update_at_random(table: str, rows: int) -> str:
        # A nested loop over the index, so that pages come in the order in which rows are picked.
        last_id = _pages(table, share) * _ROWS_A_PAGE
        return (
            f"UPDATE {table} SET v = v + 1 FROM (SELECT (random() * {last_id})::int AS picked"
            f" FROM generate_series(1, {count(rows)})) AS picks WHERE id = picked"
        )

    def insert(into: str, values: str, rows: int) -> str:
        return f"INSERT INTO {into} SELECT {values} FROM generate_series(1, {count(rows)}) n"

    # As in texts: some words again and again, most of them seldom.
    words = (
        "SELECT to_tsvector('simple', string_agg('w' || (w * 0 + 100000 * random() ^ 3)::int, ' '))"
        " FROM generate_series(1, 20 + n * 0) w"
    )

    def in_turn(rows: int, *statements: str) -> str:
        """So many transactions, each of one of the statements: nobody can tell which."""
        which = " ".join(f"WHEN {number} THEN {one};" for number, one in enumerate(statements))
        return (
            f"DO $$ BEGIN FOR n IN 1..{count(rows)} LOOP"
            f" CASE (random() * {len(statements) - 1})::int {which} END CASE; COMMIT; END LOOP; END $$"
        )

    staging = (
        "CREATE TABLE staging (a int, f text)",
        insert("staging", "n, repeat('x', 1900)", 1600),
        "DROP TABLE staging",
    )

    def picked(table: str) -> str:
        # In a subquery, so that it is picked once.
        return f"(SELECT (random() * {_pages(table, share) * _ROWS_A_PAGE})::int)"

    to_narrow, to_keyed = "INSERT INTO narrow VALUES (n, n)", "INSERT INTO keyed (f) VALUES ('abcdefgh')"
    # As from many sessions.
    mixed = in_turn(
        60_000,
        _update("updated", f"id = {picked('updated')}"),
        to_narrow,
        "INSERT INTO uuids VALUES (gen_random_uuid())",
        to_keyed,
        f"DELETE FROM full_pages WHERE id = {picked('full_pages')}",
    )
    # The same on pages that the processor has, which tells what no order costs from what pages do.
    mixed_few = in_turn(
        120_000,
        _update("few", "id = (SELECT (random() * 4000)::int)"),
        to_narrow,
        to_keyed,
        "DELETE FROM few WHERE id = (SELECT 4000 + (random() * 8000)::int)",
    )
    return (
        Phase("insert", (insert("narrow", "n, n", 500_000),)),
        Phase("wide", (insert("wide", "n, repeat('x', 1900)", 28_000),)),
        # Staging tables: files that replay makes, fills and removes again.
        Phase("dropped", tuple(statement for _ in range(20) for statement in staging)),
        Phase("scatter", (_update("scattered", "id % 144 = 0"),)),
        # Early, where large shared_buffers have room: pages are read and nothing makes room for them, which
        # tells what reading costs from what making room does.
        Phase("random read", (update_at_random("bare_random", 30_000),), (("full_page_writes", "off"),)),
        Phase("image", (_update("other", "id % 48 = 0"),)),
        Phase("hot", tuple(_update("other", f"id % 48 = {row}") for row in range(1, 9))),
        Phase("random image", (update_at_random("updated", 25_000),)),
        Phase("random", (update_at_random("updated", 200_000),)),
        # Pages that a processor still has a part of: more than 8 MB, less than 32.
        Phase("few image", (_update("few", "id % 48 = 0"),)),
        Phase("few", (update_at_random("few", 10_000),) * 8),
        Phase("few keys image", (insert("few_uuids", "gen_random_uuid()", 25_000),)),
        Phase("few keys", (insert("few_uuids", "gen_random_uuid()", 100_000),)),
        # Of full pages: a row goes elsewhere, and whoever comes next prunes the page, if it was committed.
        Phase("full image", (update_at_random("full_pages", 12_000),) * 2),
        Phase("full", (update_at_random("full_pages", 15_000),) * 6),
        Phase("sequence", (insert("keyed (f)", "'abcdefgh'", 250_000),)),
        Phase("uuid", (insert("uuids", "gen_random_uuid()", 60_000),)),
        Phase("uuid again", (insert("uuids", "gen_random_uuid()", 120_000),)),
        Phase("mixed", (mixed,)),
        Phase("mixed few", (mixed_few,)),
        Phase("read", (_update("bare", "id % 48 = 0"),), (("full_page_writes", "off"),)),
        Phase("pglz", (_update("packed", "id % 48 = 0"),), (("wal_compression", "pglz"),)),
        Phase("lz4", (_update("packed_lz4", "id % 48 = 0"),), (("wal_compression", "lz4"),)),
        Phase("zstd", (_update("packed_zstd", "id % 48 = 0"),), (("wal_compression", "zstd"),)),
        Phase("commit", (in_turn(60_000, to_narrow),)),
        # What takes a page apart and puts it together again costs more than its bytes say.
        Phase("prune", tuple(_update("other", "id % 48 BETWEEN 10 AND 25") for _ in range(4))),
        Phase("delete", ("DELETE FROM erased WHERE id % 3 = 0",)),
        Phase("vacuum", ("VACUUM (PARALLEL 0) erased",)),
        Phase(
            "toast",
            (
                insert("toasted", "n, repeat(md5(n::text), 200)", 6000),
                "UPDATE toasted SET f = f || 'y' WHERE id % 2 = 0",
            ),
        ),
        Phase("gin", (insert("worded", f"({words})", 40_000),)),
        # Whose end nobody measures: it closes the segments of the one before, and is long enough to be seen.
        Phase("end", ("INSERT INTO narrow SELECT n, n FROM generate_series(1, 60000) n",)),
    )


_ROWS_A_PAGE = 48
_PAGES = {"scattered": 12000, "updated": 20000, "full_pages": 12000, "other": 6000, "bare": 6000,
          "bare_random": 12000, "few": 2500, "packed": 3000, "packed_lz4": 3000, "packed_zstd": 3000,
          "erased": 6000}  # fmt: skip
_UUIDS, _FEW_UUIDS = 1_200_000, 400_000


def _pages(table: str, share: float) -> int:
    return max(1, int(_PAGES[table] * share))


Progress = Callable[[str], None]
"""Told what is being done."""


def calibrate(
    install: Install, workspace: Workspace, progress: Progress, *, share: float = 1.0, segment_mb: int = 16
) -> Calibration:
    """Measure everything, in about 4 minutes; the workspace holds what is needed meanwhile.

    ``share``: of the load and the sizes of shared_buffers; less than 1 measures less, and worse.
    ``segment_mb``: size of segments, of which each phase takes whole ones.

    Raises ClusterError, WalError, and DiskError (memory instead of a disk, too little space).
    """
    check_disk(workspace.folder, int(NEED_BYTES * share))
    read_ahead_kb = find_read_ahead_kb(workspace.folder)
    latency_us, iops = measure_reads(workspace, progress, int(_READS_PAGES * share))
    large, small = int(LARGE_BUFFERS * share), int(SMALL_BUFFERS * share)
    fresh_us, touch_us = _measure_memory(large * PAGE_BYTES)
    frames = first_use(large)
    pages = cached_pages(workspace.folder, small)
    options = () if segment_mb == 16 else (f"--wal-segsize={segment_mb}",)
    filled = _Filled(install, workspace, share, options)
    machine, image, spans = filled.make(progress)
    try:
        phases, cold, checkpoints = _replay_all(
            image, workspace, progress, spans, (large, small), read_ahead_kb
        )
    finally:
        workspace.remove_folder(image.folder)
    return Calibration(
        machine=machine,
        made_at=time.time(),
        phases=(*phases, *pages, *(() if machine.huge_pages else (frames,))),
        cold=cold,
        checkpoints=checkpoints,
        read_iops=iops,
        read_latency_us=latency_us,
        read_ahead_kb=read_ahead_kb,
        fresh_touch_us=fresh_us,
        touch_us=touch_us,
    )


def _replay_all(
    image: CrashImage,
    workspace: Workspace,
    progress: Progress,
    spans: Sequence[tuple[str, Lsn, Lsn]],
    sizes: tuple[int, int],
    read_ahead_kb: int,
) -> tuple[tuple[PhaseReplay, ...], tuple[ColdReplay, ...], tuple[CheckpointRun, ...]]:
    """Recover the image again and again. ``sizes``: shared_buffers, the large and the small ones."""
    install, large = image.install, sizes[0]
    bounds = [spans[0][1], *(end for _, _, end in spans)]
    start = find_redo(image.wal).redo
    found = analyse(image.wal, start=start, buffers=sizes, marks=bounds, read_ahead_kb=read_ahead_kb)
    replays = []
    for repeat in range(REPEATS):
        for prefetch in _prefetches(install):
            for buffers in sizes:
                progress(
                    f"replay {repeat + 1} with shared_buffers of {buffers * PAGE_BYTES >> 20} MB"
                    + ("" if prefetch else ", without prefetching")
                )
                measured = recover(image, workspace, _replay_settings(install, buffers, prefetch))
                replays.append(_Replay(buffers, prefetch, measured))
    phases = tuple(row for one in replays for row in _phase_rows(one, spans, found))
    last = found.last
    checkpoints = [_checkpoint_run(spans[-1][0], one, last) for one in replays]
    for name, cache in CHECKPOINTS_AFTER:
        place = next(i for i, (phase, _, _) in enumerate(spans) if phase == name)
        for buffers in sizes:
            progress(f'checkpoint after phase "{name}", {cache.value} cache')
            until = _segment_name(spans[place][2], found.timeline, found.segment_size)
            prefetch = _prefetches(install)[0]
            settings = _replay_settings(install, buffers, prefetch)
            replay = _Replay(buffers, prefetch, recover(image, workspace, settings, cache, until=until))
            is_cold = cache is Cache.COLD
            checkpoints.append(_checkpoint_run(name, replay, found.steps[place + 1], is_cold=is_cold))
    progress("replays with a cold cache")
    cold, cold_checkpoints = _cold(image, workspace, large, spans, found, phases)
    checkpoints += cold_checkpoints
    return phases, cold, tuple(one for one in checkpoints if one is not None)


def _measure_memory(size: int) -> tuple[float, float]:
    """(first use of 8 kB of free memory, the same again), in us."""
    with backed_memory(size) as fresh:
        pass
    with backed_memory(size) as touched:
        return fresh.touch_us, touched.touch_us


def crash_of_load(
    install: Install,
    workspace: Workspace,
    progress: Progress,
    *,
    share: float,
    initdb_options: tuple[str, ...] = (),
) -> CrashImage:
    """A crash at the end of that share of the calibration's load, for those who want to recover it.

    Raises ClusterError and DiskError.
    """
    return _Filled(install, workspace, share, ("--wal-segsize=1", *initdb_options)).make(progress)[1]


@dataclass(frozen=True, slots=True)
class _Replay:
    """One replay of the whole load with a warm cache."""

    buffers: int
    prefetch: bool
    measured: MeasuredRecovery


def _prefetches(install: Install) -> tuple[bool, ...]:
    """Values of recovery_prefetch to replay with: what the calls of the prefetcher cost is the difference."""
    return (True, False) if install.version_num >= 150000 else (False,)


class _Filled:
    """The cluster of the load."""

    def __init__(
        self, install: Install, workspace: Workspace, share: float, initdb_options: tuple[str, ...]
    ) -> None:
        self._options = initdb_options
        self._share = share
        self._install = install
        self._workspace = workspace

    def make(self, progress: Progress) -> tuple[Machine, CrashImage, list[tuple[str, Lsn, Lsn]]]:
        """(the machine, the image of a crash, name and locations of each phase)."""
        progress("filling tables")
        folder = self._workspace.make_folder("calibration")
        empty = templates.prepare_empty(self._workspace, self._install, self._options)
        templates.clone(empty, folder, flush=False)
        cluster = Cluster(self._install, self._workspace, folder)
        cluster.start(
            _LOAD_SETTINGS | {"shared_buffers": f"{int(_LOAD_BUFFERS * self._share) * PAGE_BYTES >> 10}kB"}
        )
        try:
            with cluster.connect() as connection:
                self._fill(connection)
                machine = self._machine(connection)
                begin, spans = _switch(connection), []
                for phase in _phases(self._share):
                    if self._run(connection, phase, progress):
                        spans.append((phase.name, begin, begin := _switch(connection)))
            image = take_crash_image(cluster, self._workspace.make_folder("crash"))
        finally:
            cluster.stop("immediate")
            self._workspace.remove_folder(folder)
        return machine, image, spans

    def _fill(self, connection: psycopg.Connection[tuple[object, ...]]) -> None:
        for table in _PAGES:
            for statement in _FILL:
                text = _PACKED_TEXT if table.startswith("packed") else _PLAIN_TEXT
                pages = _pages(table, self._share)
                fillfactor = 100 if table == "full_pages" else 80
                _execute(
                    connection, statement.format(name=table, pages=pages, text=text, fillfactor=fillfactor)
                )
        for statement in (
            "CREATE TABLE narrow (a int, b int)",
            "CREATE TABLE wide (a int, f text)",
            "ALTER TABLE wide ALTER f SET STORAGE PLAIN",
            "CREATE TABLE keyed (id bigserial PRIMARY KEY, f text)",
            *self._keyed("uuids", _UUIDS),
            *self._keyed("few_uuids", _FEW_UUIDS),
            "CREATE INDEX ON updated (id)",
            "CREATE INDEX ON bare_random (id)",
            "CREATE INDEX ON few (id)",
            "CREATE INDEX ON erased (id)",
            "CREATE INDEX ON full_pages (id)",
            "CREATE TABLE toasted (id int, f text)",
            "ALTER TABLE toasted ALTER f SET STORAGE EXTERNAL",
            "CREATE TABLE worded (words tsvector)",
            "CREATE INDEX ON worded USING gin (words)",
            "VACUUM (FREEZE, ANALYZE) " + ", ".join(_PAGES),
            "SET enable_hashjoin = off",
            "SET enable_mergejoin = off",
            "CHECKPOINT",
        ):
            _execute(connection, statement)

    def _keyed(self, table: str, rows: int) -> tuple[str, ...]:
        """Statements for a table of keys in no order, and their index."""
        count = int(rows * self._share)
        return (
            f"CREATE TABLE {table} (u uuid)",
            f"INSERT INTO {table} SELECT gen_random_uuid() FROM generate_series(1, {count})",
            f"CREATE INDEX ON {table} (u)",
        )

    def _run(
        self, connection: psycopg.Connection[tuple[object, ...]], phase: Phase, progress: Progress
    ) -> bool:
        """Run a phase, up to the switch at its end; False where the server cannot."""
        for name, value in phase.settings:
            if name == "full_page_writes":
                # Of the whole server, not of a session; the checkpointer makes it known.
                _execute(connection, f"ALTER SYSTEM SET {name} = {value}")
                _reload(connection, name, value)
            elif not _can_compress(connection, value):
                return False
        progress(f'load, phase "{phase.name}"')
        for statement in phase.statements:
            _execute(connection, statement)
        for name, _ in phase.settings:
            if name == "full_page_writes":
                _execute(connection, f"ALTER SYSTEM RESET {name}")
                _reload(connection, name, "on")
            else:
                _execute(connection, f"RESET {name}")
        return True

    def _machine(self, connection: psycopg.Connection[tuple[object, ...]]) -> Machine:
        cpu, cores, page_bytes = this_machine()
        has_status = connection.info.server_version >= 170000
        huge = _show(connection, "huge_pages_status") if has_status else _show(connection, "huge_pages")
        return Machine(
            cpu=cpu,
            cores=cores,
            version=self._install.version,
            page_bytes=page_bytes,
            # Before 17 the server does not say whether it got them: "try" gets none unless some are reserved.
            huge_pages=huge == "on" or (huge == "try" and _reserved_huge_pages() > 0),
            data_checksums=_show(connection, "data_checksums") == "on",
        )


def this_machine() -> tuple[str, int, int]:
    """Model of its processor, number of cores, bytes of a page of memory."""
    facts = observe_environment(Path("/"))
    return facts.get("cpu", "unknown"), int(facts.get("cores", "1")), os.sysconf("SC_PAGE_SIZE")


def measure_reads(workspace: Workspace, progress: Progress, pages: int) -> tuple[float | None, float | None]:
    """(us of one random read of 8 kB, such reads a second by 16 threads) of the folder's disk.

    The file is written, synced and dropped from the kernel's cache before; what the disk or the host keeps of
    it stays there. Raises DiskError.
    """
    progress("random reads of the disk")
    order = list(range(pages))
    random.Random(1).shuffle(order)
    with random_pages(workspace.folder, pages) as descriptor:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)
        alone, spent = _read_pages(descriptor, order[:_LATENCY_READS], _LATENCY_S)
        shares = [order[_LATENCY_READS + n :: _IOPS_THREADS] for n in range(_IOPS_THREADS)]
        began = time.monotonic()
        with ThreadPoolExecutor(_IOPS_THREADS) as pool:
            done = sum(pool.map(lambda share: _read_pages(descriptor, share, _IOPS_S)[0], shares))
        together = time.monotonic() - began
    return (spent / alone * 1e6 if alone else None), (done / together if together else None)


def _read_pages(descriptor: int, pages: Sequence[int], limit_s: float) -> tuple[int, float]:
    began = time.monotonic()
    for count, page in enumerate(pages, 1):
        os.pread(descriptor, PAGE_BYTES, page * PAGE_BYTES)
        if time.monotonic() - began > limit_s:
            return count, time.monotonic() - began
    return len(pages), time.monotonic() - began


def _phase_rows(
    replay: _Replay, spans: Sequence[tuple[str, Lsn, Lsn]], found: RecoveryAnalysis
) -> list[PhaseReplay]:
    """CPU of each phase's segments, beside what they hold."""
    size = found.segment_size
    seen = replay.measured.course.segments_cpu_s()
    costs = {_segment_start(name, size): cpu for name, cpu in seen.items()}
    rows = []
    # The last phase's last segment has no end.
    for place, (name, begin, end) in enumerate(spans[:-1]):
        own = range(begin, end, size)
        if any(start not in costs for start in own):
            continue  # a segment so short that no look fell into it
        before, after = (
            found.steps[at].quantities(replay.buffers, prefetch=replay.prefetch) for at in (place, place + 1)
        )
        work = {key: after[key] - before[key] for key in QUANTITIES}
        cpu_s = sum(costs[start] for start in own)
        rows.append(PhaseReplay(name, replay.buffers, replay.prefetch, cpu_s, work))
    return rows


def _checkpoint_run(
    phase: str, replay: _Replay, work: RecoveryWork, *, is_cold: bool = False
) -> CheckpointRun | None:
    checkpoint = replay.measured.times.checkpoint
    if checkpoint is None:
        return None
    own = work.checkpoint(replay.buffers, prefetch=replay.prefetch)
    return CheckpointRun(
        phase, replay.buffers, checkpoint.buffers, **own, is_cold=is_cold, total_s=checkpoint.total_s
    )


def _cold(
    image: CrashImage,
    workspace: Workspace,
    buffers: int,
    spans: Sequence[tuple[str, Lsn, Lsn]],
    found: RecoveryAnalysis,
    warm: Sequence[PhaseReplay],
) -> tuple[tuple[ColdReplay, ...], list[CheckpointRun | None]]:
    """Phases replayed with a cold cache, each beside the median of its ``warm`` replays; and checkpoints."""
    places = {name: place for place, (name, _, _) in enumerate(spans)}
    cold, checkpoints = [], []
    for prefetch in _prefetches(image.install):
        settings = _replay_settings(image.install, buffers, prefetch)
        measured = recover(image, workspace, settings, Cache.COLD)
        replay = _Replay(buffers, prefetch, measured)
        checkpoints.append(_checkpoint_run(spans[-1][0], replay, found.last, is_cold=True))
        for row in _phase_rows(replay, spans, found):
            own = (row.phase, row.buffers, row.prefetch)
            same = [one.cpu_s for one in warm if (one.phase, one.buffers, one.prefetch) == own]
            if not same:
                continue
            before, after = (found.steps[places[row.phase] + at] for at in (0, 1))
            cold.append(
                ColdReplay(
                    row.phase,
                    buffers,
                    prefetch,
                    cpu_s=row.cpu_s,
                    warm_cpu_s=median(same),
                    wal_bytes=row.work["record_bytes"],
                    requests=after.requests(buffers, prefetch=prefetch)
                    - before.requests(buffers, prefetch=prefetch),
                )
            )
    return tuple(cold), checkpoints


def _replay_settings(install: Install, buffers: int, prefetch: bool) -> dict[str, str]:
    settings = {
        "shared_buffers": f"{buffers * PAGE_BYTES >> 10}kB",
        "autovacuum": "off",
        # What it writes during replay, the checkpoint does not: how much is a matter of time.
        "bgwriter_lru_maxpages": "0",
    }
    if install.version_num >= 150000:
        settings["recovery_prefetch"] = "try" if prefetch else "off"
    return settings


def _switch(connection: psycopg.Connection[tuple[object, ...]]) -> Lsn:
    """End the segment; where the next one begins."""
    _execute(connection, "SELECT txid_current()")
    row = connection.execute(
        "SELECT pg_switch_wal()::text, pg_size_bytes(current_setting('wal_segment_size'))"
    ).fetchone()
    assert row is not None
    size = int(str(row[1]))
    return Lsn(-(-Lsn.parse(str(row[0])) // size) * size)


def _can_compress(connection: psycopg.Connection[tuple[object, ...]], method: str) -> bool:
    """Set wal_compression of the session, if the build has that method."""
    if connection.info.server_version < 150000:
        if method == "pglz":
            _execute(connection, "SET wal_compression = on")
        return method == "pglz"
    try:
        _execute(connection, f"SET wal_compression = {method}")
    except ClusterError:
        return False
    return True


def _reload(connection: psycopg.Connection[tuple[object, ...]], name: str, value: str) -> None:
    """Return when the server has taken a setting over; and its checkpointer, which is told after us."""
    _execute(connection, "SELECT pg_reload_conf()")
    deadline = time.monotonic() + 10
    while _show(connection, name) != value and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.3)


def _show(connection: psycopg.Connection[tuple[object, ...]], name: str) -> str:
    row = connection.execute("SELECT current_setting(%s)", [name]).fetchone()
    assert row is not None
    return str(row[0])


def _execute(connection: psycopg.Connection[tuple[object, ...]], statement: str) -> None:
    try:
        connection.execute(statement.encode())
    except psycopg.Error as error:
        raise ClusterError(
            "a statement of the calibration failed", detail=f"{str(error).strip()}: {statement[:80]}"
        ) from error


def _reserved_huge_pages() -> int:
    try:
        text = Path("/proc/sys/vm/nr_hugepages").read_text()
    except OSError:
        return 0
    return int(text) if text.strip().isdigit() else 0


def _segment_start(name: str, segment_size: int) -> int:
    return (int(name[8:16], 16) << 32) + int(name[16:24], 16) * segment_size


def _segment_name(lsn: Lsn, timeline: int, segment_size: int) -> str:
    return f"{timeline:08X}{lsn >> 32:08X}{(lsn & 0xFFFFFFFF) // segment_size:08X}"
