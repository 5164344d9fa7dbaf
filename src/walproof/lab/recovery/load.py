"""The load of the calibration: one cluster, changed in phases, each of which stresses one part of replay.

    tables filled, CHECKPOINT, then phases, each ended by pg_switch_wal(), so that a phase is whole segments
      -> the image of a crash at its end

What replaying them costs is the business of ``walproof.lab.recovery.calibration``.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psycopg

from walproof.errors import ClusterError, one_line
from walproof.facts import Install
from walproof.facts.calibration import Machine
from walproof.lab.recovery.crash import CrashImage, crash_server
from walproof.postgres import template as templates
from walproof.postgres.cluster import Cluster
from walproof.postgres.workspace import Workspace
from walproof.probe.environment import this_machine
from walproof.units import Lsn
from walproof.wal.recovery import PAGE_BYTES

_LOAD_BUFFERS = 196608
"""1.5 GB, in which all pages of the load find room: a page that was written before the crash is newer than
the records that made it, and replay would skip those."""
_LOAD_SETTINGS = {
    "fsync": "off",
    "autovacuum": "off",
    "max_wal_size": "20GB",
    "checkpoint_timeout": "1h",
    "synchronous_commit": "off",
    "wal_compression": "off",
    # Pages stay in shared_buffers; see _LOAD_BUFFERS.
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
"""Contents of tables whose images are compressed: one part that is worth it and one that is not, as in most
tables."""
_ROWS_A_PAGE = 48
_PAGES = {"scattered": 12000, "updated": 20000, "full_pages": 12000, "other": 6000, "bare": 6000,
          "bare_random": 12000, "few": 2500, "packed": 3000, "packed_lz4": 3000, "packed_zstd": 3000,
          "erased": 6000}  # fmt: skip
_UUIDS, _FEW_UUIDS = 1_200_000, 400_000
Progress = Callable[[str], None]
"""Called with what is being done."""


@dataclass(frozen=True, slots=True)
class Phase:
    """Statements whose replay is one row of the fit."""

    name: str
    statements: tuple[str, ...]
    settings: tuple[tuple[str, str], ...] = ()
    """Settings that are changed only for the phase."""


def crash_of_load(
    install: Install,
    workspace: Workspace,
    progress: Progress,
    *,
    share: float,
    initdb_options: tuple[str, ...] = (),
) -> CrashImage:
    """A crash at the end of that share of the calibration's load, for whoever wants to recover it.

    Raises ClusterError and DiskError.
    """
    return RecoveryLoad(install, workspace, share, ("--wal-segsize=1", *initdb_options)).crash(progress)[1]


class RecoveryLoad:
    """The cluster of the load."""

    def __init__(
        self, install: Install, workspace: Workspace, share: float, initdb_options: tuple[str, ...]
    ) -> None:
        self._options = initdb_options
        self._share = share
        self._install = install
        self._workspace = workspace

    def crash(self, progress: Progress) -> tuple[Machine, CrashImage, list[tuple[str, Lsn, Lsn]]]:
        """The machine, the image of a crash, and the name and locations of each phase."""
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
                for phase in phases_of(self._share):
                    if self._run(connection, phase, progress):
                        spans.append((phase.name, begin, begin := _switch(connection)))
            return machine, crash_server(cluster), spans
        except BaseException:
            cluster.stop("immediate")
            self._workspace.remove_folder(folder)
            raise

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
        # Told also where this build cannot compress so: steps are counted before.
        progress(f'load, phase "{phase.name}"')
        for name, value in phase.settings:
            if name == "full_page_writes":
                # A setting of the whole server, not of a session; the checkpointer makes it known.
                _execute(connection, f"ALTER SYSTEM SET {name} = {value}")
                _reload(connection, name, value)
            elif not _can_compress(connection, value):
                return False
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


def _update(table: str, condition: str) -> str:
    return f"UPDATE {table} SET v = v + 1 WHERE {condition}"


def phases_of(share: float) -> tuple[Phase, ...]:
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

    # As in texts, some words come again and again, most of them seldom.
    words = (
        "SELECT to_tsvector('simple', string_agg('w' || (w * 0 + 100000 * random() ^ 3)::int, ' '))"
        " FROM generate_series(1, 20 + n * 0) w"
    )

    def in_turn(rows: int, *statements: str) -> str:
        """SQL of so many transactions, each with one of the statements, in an order that nobody can
        foretell."""
        which = " ".join(f"WHEN {number} THEN {statement};" for number, statement in enumerate(statements))
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
    # The same on pages in the processor's cache, which tells the cost of random order from that of pages.
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
        # Early, when large shared_buffers still have room: pages are read and nothing makes room for them,
        # which tells what reading costs from what making room does.
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
        # Nobody measures the end of this phase: it closes the segments of the previous one, and is long
        # enough to be seen.
        Phase("end", ("INSERT INTO narrow SELECT n, n FROM generate_series(1, 60000) n",)),
    )


def _pages(table: str, share: float) -> int:
    return max(1, int(_PAGES[table] * share))


def _switch(connection: psycopg.Connection[tuple[object, ...]]) -> Lsn:
    """End the segment; return where the next one begins."""
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
    """Return when the server has taken over a setting, and so has its checkpointer, which is told after
    us."""
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
            "a statement of the calibration failed", detail=f"{one_line(error)}: {statement[:80]}"
        ) from error


def _reserved_huge_pages() -> int:
    try:
        text = Path("/proc/sys/vm/nr_hugepages").read_text()
    except OSError:
        return 0
    return int(text) if text.strip().isdigit() else 0
