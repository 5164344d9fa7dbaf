"""How a server is provoked so that a rule fires: a function per rule, with a provoked and a calm case."""

from __future__ import annotations

import contextlib
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

import psycopg

from bench.advise.servers import Laboratory, Server
from walproof.advise.server.case import ServerCase
from walproof.postgres.standby import Standby
from walproof.privilege.acting import acting_as
from walproof.settings.durability import DurabilityClass

PG = "16"
CALM = {
    "log_checkpoints": "on", "max_wal_size": "4GB", "min_wal_size": "1GB", "checkpoint_timeout": "15min",
    "wal_compression": "pglz", "shared_buffers": "256MB", "max_slot_wal_keep_size": "8GB",
}  # fmt: skip
"""Settings that no rule has anything against."""
WEEK_AND_A_DAY_S = 8 * 86400.0

Pair = tuple[ServerCase, ServerCase]


def _setting(name: str, bad: str, good: str, **both: str) -> Callable[[Laboratory], Pair]:
    """A rule that one setting decides; ``both`` are settings of both servers."""

    def provoke(made: Laboratory) -> Pair:
        with made.server(PG, {**CALM, **both, name: bad}) as server:
            fires = server.glance()
        with made.server(PG, {**CALM, **both, name: good}) as server:
            return fires, server.glance()

    return provoke


def _in_turn(
    made: Laboratory, settings: Mapping[str, str], look: Callable[[Server, bool], ServerCase], *prepare: str
) -> Pair:
    """Two equal servers, of which the first is provoked."""
    with made.server(PG, {**CALM, **settings}, *prepare) as server:
        fires = look(server, True)
    with made.server(PG, {**CALM, **settings}, *prepare) as server:
        return fires, look(server, False)


def checksums(made: Laboratory) -> Pair:
    """A page is damaged while the server is down, and is read afterwards."""

    def look(server: Server, is_bad: bool) -> ServerCase:
        cluster = server.cluster
        with cluster.connect() as session:
            row = session.execute("SELECT pg_relation_filepath('t')").fetchone()
        assert row is not None
        cluster.stop()
        with acting_as(cluster.user), (cluster.data / str(row[0])).open("r+b") as file:
            file.seek(8192 + 4000)
            file.write(b"damaged " if is_bad else b"")
        cluster.start(CALM)
        with contextlib.suppress(psycopg.Error):
            server.sql("SELECT count(*) FROM t")
        return server.glance()

    return _in_turn(made, {}, look, "CREATE TABLE t AS SELECT i FROM generate_series(1, 5000) i")


def unlogged(made: Laboratory) -> Pair:
    """An unlogged table that holds rows; its neighbour is logged."""

    def look(server: Server, is_bad: bool) -> ServerCase:
        kind = "UNLOGGED" if is_bad else ""
        server.sql(f"CREATE {kind} TABLE cart AS SELECT i FROM generate_series(1, 10000) i")
        return server.glance()

    return _in_turn(made, {}, look)


def pending(made: Laboratory) -> Pair:
    """A changed setting waits for a restart; the neighbour's has taken effect."""

    def look(server: Server, is_bad: bool) -> ServerCase:
        changed = "max_connections = 50" if is_bad else "work_mem = '8MB'"
        server.sql(f"ALTER SYSTEM SET {changed}", "SELECT pg_reload_conf()", "SELECT pg_sleep(0.5)")
        return server.glance()

    return _in_turn(made, {}, look)


def minors(made: Laboratory) -> Pair:
    """A minor of 18 that lacks a known fix; the neighbour is a minor of 16, for which none is known."""
    with made.server("18.4", CALM) as server:
        fires = server.glance()
    with made.server(PG, CALM) as server:
        return fires, server.glance()


def slots(made: Laboratory) -> Pair:
    """A slot that nobody uses and nothing limits; the neighbour's is streamed from."""
    unlimited = {**CALM, "max_slot_wal_keep_size": "-1"}
    with made.server(PG, unlimited, "SELECT pg_create_physical_replication_slot('gone', true)") as server:
        server.sql("CREATE TABLE t AS SELECT i FROM generate_series(1, 100000) i")
        fires = server.glance()
    with (
        made.server(PG, CALM, "SELECT pg_create_physical_replication_slot('used', true)") as server,
        tempfile.TemporaryDirectory() as folder,
        server.beside("pg_receivewal", "-S", "used", "-D", folder),
    ):
        time.sleep(1)
        server.sql("CREATE TABLE t AS SELECT i FROM generate_series(1, 100000) i")
        return fires, server.glance(2)


def archiver(made: Laboratory) -> Pair:
    """The archive command fails; the neighbour's works."""

    def looked(command: str) -> ServerCase:
        settings = {**CALM, "archive_mode": "on", "archive_command": command}
        with made.server(PG, settings, "CREATE TABLE t AS SELECT 1", "SELECT pg_switch_wal()") as server:
            return server.glance(4)

    return looked("false"), looked("test -r %p")


def standbys(made: Laboratory) -> Pair:
    """Replay is paused while 1.2 GB are written; then it goes on."""
    with made.server(PG, CALM) as server:
        standby = Standby(server.cluster, made.workspace, "late")
        standby.build()
        standby.start({"shared_buffers": "256MB"})
        try:
            with standby.connect() as session:
                session.execute("SELECT pg_wal_replay_pause()")
            for _ in range(12):
                server.sql("SELECT pg_logical_emit_message(false, 'bench', repeat('x', 100 << 20))")
            fires = server.glance()
            with standby.connect() as session:
                session.execute("SELECT pg_wal_replay_resume()")
            time.sleep(10)
            return fires, server.glance()
        finally:
            standby.stop("immediate")
            made.workspace.remove_folder(standby.folder)


def prepared(made: Laboratory) -> Pair:
    """A transaction was prepared and not ended; the neighbour's has just been prepared.

    The provoked one is told to be two hours older than it is: the one fact that was not seen.
    """

    def look(server: Server, is_bad: bool) -> ServerCase:
        server.sql("BEGIN; CREATE TABLE held (i int); PREPARE TRANSACTION 'it''s forgotten'")
        case = server.glance()
        if not is_bad:
            return case
        aged = tuple(replace(one, age_s=one.age_s + 7200) for one in case.window.prepared)
        return replace(case, window=replace(case.window, prepared=aged))

    return _in_turn(made, {"max_prepared_transactions": "2"}, look)


def max_wal_size(made: Laboratory) -> Pair:
    """A checkpoint every 16 MB while the same pages are updated; the neighbour has room for all of it."""
    plain = {"wal_compression": "off"}
    return _updated(
        made, {**plain, "max_wal_size": "32MB", "min_wal_size": "32MB"}, plain, scale=2, seconds=30
    )


def wal_compression(made: Laboratory) -> Pair:
    """Images are not compressed; the neighbour's are."""
    return _updated(made, {"wal_compression": "off"}, {}, scale=20, seconds=15)


def _updated(
    made: Laboratory, bad: Mapping[str, str], good: Mapping[str, str], *, scale: int, seconds: float
) -> Pair:
    """300 random updates a second."""

    def looked(settings: Mapping[str, str]) -> ServerCase:
        with made.server(PG, {**CALM, **settings}) as server:
            server.fill(scale)
            server.sql("CHECKPOINT")
            with server.load("-c", "4", "-R", "300", "-b", "simple-update"):
                return server.look(seconds)

    return looked(bad), looked(good)


def random_keys(made: Laboratory) -> Pair:
    """New rows have keys in random order; the neighbour's begin with the time."""
    ordered = (
        "(lpad(to_hex((extract(epoch FROM clock_timestamp()) * 1e6)::bigint), 16, '0')"
        " || right(md5(random()::text), 16))::uuid"
    )

    def look(server: Server, is_bad: bool) -> ServerCase:
        key = "gen_random_uuid()" if is_bad else ordered
        server.sql(
            "CREATE TABLE parcel (id uuid PRIMARY KEY, note text)",
            f"INSERT INTO parcel SELECT {key}, repeat('p', 40) FROM generate_series(1, 1000000)",
            "VACUUM ANALYZE parcel",
            "CHECKPOINT",
        )
        # As many rows for both; ordered ones make less WAL, and more of them are needed for a judgement.
        rows = 1 if is_bad else 200
        sql = f"INSERT INTO parcel SELECT {key}, repeat('p', 40) FROM generate_series(1, {rows})"
        with server.load("-c", "4", "-R", "500" if is_bad else "50", *server.script(sql)):
            return server.look(20)

    return _in_turn(made, {"wal_compression": "off"}, look)


def hint_images(made: Laboratory) -> Pair:
    """60 MB of rows are read for the first time after a checkpoint; the neighbour's pages are updated.

    Nearly as many of the neighbour's images are for hint bits, of pages that the update would image anyway.
    """
    plain = {**CALM, "wal_compression": "off", "autovacuum": "off"}
    with made.server(PG, plain, "CREATE TABLE t (i int, note text)") as server:
        server.sql("INSERT INTO t SELECT i, repeat('r', 120) FROM generate_series(1, 400000) i", "CHECKPOINT")
        reading = threading.Thread(target=_read_when_recorded, args=(server,))
        reading.start()
        fires = server.look(15)
        reading.join()
    with made.server(PG, {**plain, "max_wal_size": "64MB", "min_wal_size": "32MB"}) as server:
        server.fill(4)
        with server.load("-c", "4", "-R", "600", "-b", "simple-update"):
            return fires, server.look(15)


def _read_when_recorded(server: Server) -> None:
    """Read the table once walproof receives its WAL: starting takes seconds on a busy machine."""
    with server.cluster.connect() as session:
        for _ in range(600):
            row = session.execute(
                "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'"
            ).fetchone()
            if row is not None and row[0]:
                break
            time.sleep(0.1)
    # Commits at both ends tell the time.
    server.sql(
        "SELECT txid_current()", "SELECT pg_sleep(1)", "SELECT count(*) FROM t", "SELECT txid_current()"
    )


def freezing(made: Laboratory) -> Pair:
    """90,000 transactions after a table was filled, of 100,000 that it may wait; the neighbour was frozen."""
    settings = {"autovacuum": "off", "autovacuum_freeze_max_age": "100000"}

    def look(server: Server, is_bad: bool) -> ServerCase:
        if not is_bad:
            server.sql("VACUUM (FREEZE) ledger")
        return server.glance()

    burnt = (
        "DO $$ BEGIN FOR i IN 1..90000 LOOP BEGIN INSERT INTO burnt VALUES (i);"
        " EXCEPTION WHEN division_by_zero THEN NULL; END; END LOOP; END $$"
    )
    return _in_turn(
        made, settings, look,
        "CREATE TABLE ledger AS SELECT i, repeat('l', 100) AS note FROM generate_series(1, 200000) i",
        "CREATE TABLE burnt (i int)", burnt,
    )  # fmt: skip


def staging(made: Laboratory) -> Pair:
    """A table is filled and truncated; the neighbour is a queue, whose rows are deleted one by one."""

    def look(server: Server, is_bad: bool) -> ServerCase:
        empty = "TRUNCATE stage" if is_bad else "DELETE FROM stage"
        for _ in range(3):
            server.sql("INSERT INTO stage SELECT i FROM generate_series(1, 20000) i", empty)
        return replace(server.glance(), may_lose=DurabilityClass.TABLE)

    return _in_turn(made, {}, look, "CREATE TABLE stage (i int)")


def overrides(made: Laboratory) -> Pair:
    """The commits of a role do not wait for the disk; the neighbour's role has another setting."""

    def look(server: Server, is_bad: bool) -> ServerCase:
        setting = "synchronous_commit = off" if is_bad else "commit_delay = 0"
        server.sql("CREATE ROLE shop", f"ALTER ROLE shop SET {setting}")
        return server.glance()

    return _in_turn(made, {}, look)


def flushes(made: Laboratory) -> Pair:
    """The load is commits alone, and the owner may lose the last of them; the neighbour's load reads."""

    def looked(script: str) -> ServerCase:
        with made.server(PG, CALM) as server:
            server.fill(10)
            with server.load("-c", "16", "-j", "2", "-b", script):
                return server.look(20, "--may-lose", "commits")

    return looked("simple-update"), looked("select-only")


def wal_buffers(made: Laboratory) -> Pair:
    """Transactions of 40 kB meet WAL buffers of 64 kB; the neighbour has 16 MB of buffers."""

    def looked(size: str) -> ServerCase:
        settings = {**CALM, "wal_buffers": size, "synchronous_commit": "off"}
        with made.server(PG, settings, "CREATE TABLE t (i int, note text)") as server:
            sql = "INSERT INTO t SELECT i, repeat('x', 100) FROM generate_series(1, 300) i"
            with server.load("-c", "4", *server.script(sql)):
                return server.glance(6)

    return looked("64kB"), looked("16MB")


def commit_delay(made: Laboratory) -> Pair:
    """One session commits, and each commit sleeps although nobody joins it; the neighbour does not sleep."""

    def looked(delay: str) -> ServerCase:
        settings = {**CALM, "commit_delay": delay, "commit_siblings": "0"}
        with made.server(PG, settings) as server:
            server.fill(5)
            with server.load("-c", "1", "-b", "simple-update"):
                return server.glance(8)

    return looked("1000"), looked("0")


def unused_indexes(made: Laboratory) -> Pair:
    """An index that no query reads; the neighbour's is read.

    The server and its indexes are told to be eight days older than they are: the facts that were not seen.
    """

    def look(server: Server, is_bad: bool) -> ServerCase:
        if not is_bad:
            server.sql("SET enable_seqscan = off; SELECT note FROM t WHERE n = 5")
        with server.load("-c", "2", "-R", "200", *server.script("INSERT INTO t VALUES (1, 2, 'new')")):
            case = server.glance(3)
        window = case.window
        assert window.started_at is not None
        aged = replace(
            window,
            started_at=window.started_at - WEEK_AND_A_DAY_S,
            indexes=tuple(replace(index, age=10**9) for index in window.indexes),
        )
        return replace(case, window=aged)

    return _in_turn(
        made, {}, look,
        "CREATE TABLE t AS SELECT i, i % 1000 AS n, 'row' || i AS note FROM generate_series(1, 200000) i",
        "CREATE INDEX t_n ON t (n)",
        "ANALYZE t",
    )  # fmt: skip


def startup_budget(made: Laboratory) -> Pair:
    """The start-up probe gives up at once; the neighbour's waits for an hour."""

    def looked(budget: str) -> ServerCase:
        with made.server(PG, CALM) as server:
            server.fill(5)
            with server.load("-c", "2", "-R", "100", "-b", "simple-update"):
                return server.look(5, "--startup-budget", budget)

    return looked("10ms"), looked("1h")


def hot_updates(made: Laboratory) -> Pair:
    """Every row of full pages is updated twice at once; the neighbour's pages have room."""

    def look(server: Server, is_bad: bool) -> ServerCase:
        fill = 100 if is_bad else 30
        server.sql(
            f"CREATE TABLE account (id int PRIMARY KEY, balance int) WITH (fillfactor = {fill})",
            "INSERT INTO account SELECT i, 0 FROM generate_series(1, 20000) i",
            "BEGIN; UPDATE account SET balance = 1; UPDATE account SET balance = 2; COMMIT",
        )
        return server.glance()

    return _in_turn(made, {}, look)


PROVOCATIONS: Mapping[str, Callable[[Laboratory], Pair]] = {
    "fsync": _setting("fsync", "off", "on"),
    "full_page_writes": _setting("full_page_writes", "off", "on"),
    "wal_level": _setting("wal_level", "minimal", "replica", max_wal_senders="0"),
    "synchronous_commit": _setting("synchronous_commit", "off", "on"),
    "checksums": checksums,
    "unlogged": unlogged,
    "pending": pending,
    "autovacuum": _setting("autovacuum", "off", "on"),
    "minors": minors,
    "slots": slots,
    "archiver": archiver,
    "standbys": standbys,
    "prepared transactions": prepared,
    "max_wal_size": max_wal_size,
    "checkpoint_completion_target": _setting("checkpoint_completion_target", "0.5", "0.9"),
    "wal_compression": wal_compression,
    "random keys": random_keys,
    "hint images": hint_images,
    "overrides": overrides,
    "flushes": flushes,
    "wal_buffers": wal_buffers,
    "commit_delay": commit_delay,
    "unused indexes": unused_indexes,
    "HOT updates": hot_updates,
    "freezing": freezing,
    "staging": staging,
    "recovery_prefetch": _setting("recovery_prefetch", "off", "try"),
    "startup budget": startup_budget,
    "log_checkpoints": _setting("log_checkpoints", "off", "on"),
}
