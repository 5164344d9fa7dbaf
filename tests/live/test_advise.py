"""walproof advise on real servers: it finds what was done to them, changes nothing, and its lines work."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from tests.cli.command import walproof
from tests.postgres.replication import run, running_primary
from tests.schemas import assert_valid
from walproof.cli.advising import case_of, recorded_window
from walproof.facts import Install
from walproof.postgres.cluster import Cluster
from walproof.postgres.workspace import Workspace
from walproof.settings.durability import DurabilityClass

pytestmark = [pytest.mark.live, pytest.mark.pg(ends=True)]
BAD = {
    "max_wal_size": "64MB",
    "min_wal_size": "32MB",
    "checkpoint_completion_target": "0.5",
    "wal_compression": "off",
    "log_checkpoints": "off",
    "full_page_writes": "on",
    "checkpoint_timeout": "30s",
    "wal_level": "replica",
    "max_wal_senders": "4",
    "shared_buffers": "64MB",
    "synchronous_commit": "off",
}


@pytest.fixture
def cluster(install: Install, workspace: Workspace) -> Iterator[Cluster]:
    with running_primary(install, workspace, BAD) as made:
        run(
            made,
            "CREATE TABLE t (id uuid PRIMARY KEY, n int, pad text)",
            "CREATE INDEX t_n ON t (n)",
            "INSERT INTO t SELECT md5(i::text)::uuid, i, repeat('x', 100) FROM generate_series(1, 20000) i",
            "SELECT pg_create_physical_replication_slot('idle', true)",
            "CREATE ROLE looker LOGIN REPLICATION",
            "GRANT pg_monitor TO looker",
        )
        yield made


@contextmanager
def _writing(cluster: Cluster) -> Iterator[None]:
    over = threading.Event()

    def write() -> None:
        with psycopg.connect(cluster.conninfo, autocommit=True) as session:
            turn = 0
            while not over.is_set():
                turn += 1
                # About a row a page, after each checkpoint: hardly anything but images.
                session.execute(
                    "UPDATE t SET n = n + 1 WHERE abs(hashtext(id::text)) %% 50 = %s", [turn % 50]
                )
                session.execute("CHECKPOINT")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        over.set()
        writer.join()


def _shown(cluster: Cluster) -> list[tuple[str, str]]:
    with cluster.connect() as session:
        return [
            (str(name), str(value))
            for name, value in session.execute(
                "SELECT name, setting FROM pg_settings WHERE name <> 'transaction_deferrable' ORDER BY 1"
            )
        ]


def _execute(cluster: Cluster, lines: str) -> None:
    with cluster.connect() as session:
        for line in lines.splitlines():
            session.execute(line.encode())
        session.execute("SELECT pg_sleep(0.3)")


def test_what_was_done_to_it_is_found_and_the_lines_can_be_undone(cluster: Cluster, tmp_path: Path) -> None:
    kept, page = tmp_path / "kept", tmp_path / "advice.html"
    with _writing(cluster):
        done = walproof(
            "advise", f"{cluster.conninfo} user=looker", "--for", "2min", "--wal-most", "40MB", "--json",
            "--save", str(kept), "--html", str(page), cwd=tmp_path,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert_valid("advise", told)
    advice = {entry["rule"]: entry for entry in told["advice"]}
    assert {
        "synchronous_commit", "slots", "wal_compression", "checkpoint_completion_target",
        "log_checkpoints",
    } <= set(advice), (told["dateline"], sorted(advice), told["fine"], told["unseen"])  # fmt: skip
    (wal, *_) = advice["wal_compression"]["figures"]
    assert wal["low"] <= wal["then"] <= wal["high"] < wal["now"]
    assert "slots" in page.read_text()

    with cluster.connect() as session:
        left = session.execute("SELECT slot_name::text FROM pg_replication_slots").fetchall()
    assert left == [("idle",)]

    # The recording alone gives the same advice again, without a server.
    again = walproof("advise", str(kept), "--json", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout) == told
    assert json.loads((kept / "server.json").read_text())["version"] == cluster.install.version

    before = _shown(cluster)
    _execute(cluster, told["apply"])
    assert ("log_checkpoints", "on") in _shown(cluster)
    _execute(cluster, told["undo"])
    assert _shown(cluster) == before


_READS = re.compile(
    r"SELECT\b|SHOW\b|SET\b|BEGIN\b|COMMIT\b|ROLLBACK\b|IDENTIFY_SYSTEM|START_REPLICATION\b"
    r"|CREATE_REPLICATION_SLOT \S+ TEMPORARY PHYSICAL"
)
_CATALOG = "SELECT md5(string_agg(c::text, ';' ORDER BY c.oid)) FROM pg_class c"
_NEXT_XID = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text"


def test_a_look_assigns_no_transaction_id_and_changes_no_object(cluster: Cluster, tmp_path: Path) -> None:
    logged = {
        **BAD, "autovacuum": "off", "log_line_prefix": "%u|", "log_statement": "all",
        "log_replication_commands": "on", "log_connections": "on",
    }  # fmt: skip
    cluster.reload(logged)

    def seen() -> list[object]:
        with cluster.connect() as session:
            session.execute("SET default_transaction_read_only = on")
            return [session.execute(query.encode()).fetchall() for query in (_NEXT_XID, _CATALOG)]

    with cluster.connect() as session:
        session.execute("CHECKPOINT")
        session.execute("SELECT pg_sleep(0.3)")
    before, settings, slots = seen(), _shown(cluster), _slots(cluster)
    done = walproof(
        "advise", f"{cluster.conninfo} user=looker", "--for", "1s", "--save", str(tmp_path / "kept"),
        cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "the WAL is not recorded" not in done.stderr
    assert (seen(), _shown(cluster), _slots(cluster)) == (before, settings, slots)

    told = re.findall(
        r"^looker\|LOG:  (?:statement|execute [^:]*|received replication command):\s*(\S.*)$",
        cluster.log_text(), re.MULTILINE,
    )  # fmt: skip
    assert any(statement.startswith("CREATE_REPLICATION_SLOT") for statement in told), told
    assert sum(statement.startswith("SELECT") for statement in told) > 15
    assert [statement for statement in told if not _READS.match(statement)] == []
    # In a production server's log, sessions in databases that nobody named are alarming.
    inside = re.findall(r"connection authorized: user=looker database=(\S+)", cluster.log_text())
    assert set(inside) == {"postgres"}
    # It looks at every file of every database, which may take minutes.
    assert "pg_database_size" not in cluster.log_text()


@pytest.mark.pg("== 16")
def test_wal_from_before_the_look_does_not_count(cluster: Cluster, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    with _writing(cluster):
        done = walproof(
            "advise", f"{cluster.conninfo} user=looker", "--for", "1s", "--save", str(kept), cwd=tmp_path
        )
    assert done.returncode == 0, done.stderr
    window = recorded_window(kept)
    first, *others = window.looks
    assert first.lsn is not None

    # The first look may even be in a segment before the one that the recording begins with.
    earlier = replace(window, looks=(replace(first, lsn=first.lsn - (40 << 20)), *others))
    for seen in (window, earlier):
        wal = case_of(seen, kept, DurabilityClass.NONE, None, None, None).wal
        assert wal is not None
        assert first.lsn <= wal.start < wal.end <= (others[-1].lsn or 0)


def _slots(cluster: Cluster) -> list[tuple[object, ...]]:
    with cluster.connect() as session:
        return session.execute("SELECT slot_name, restart_lsn FROM pg_replication_slots").fetchall()


def test_without_replication_there_is_advice_from_statistics(cluster: Cluster, tmp_path: Path) -> None:
    with cluster.connect() as session:
        session.execute("ALTER ROLE looker NOREPLICATION")
    done = walproof("advise", f"{cluster.conninfo} user=looker", "--for", "1s", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "the WAL is not recorded" in done.stderr
    told = json.loads(done.stdout)
    assert_valid("advise", told)
    assert {"slots", "log_checkpoints"} <= {advice["rule"] for advice in told["advice"]}
    assert any(note.startswith("Could not be read: the WAL: ") for note in told["notes"])
    # What could not be used at the end is said before the time is spent.
    dsn = f"{cluster.conninfo} user=looker"
    elsewhere = f"{dsn} dbname=template1"
    refused = walproof("advise", dsn, "--for", "1h", "--standby", elsewhere, cwd=tmp_path, timeout_s=60)
    assert refused.returncode == 2
    assert '--standby names database "template1"' in refused.stderr


def test_nothing_of_rows_reaches_what_is_kept(cluster: Cluster, tmp_path: Path) -> None:
    canary = "canary" * 3
    with cluster.connect() as session:
        session.execute("CREATE TABLE secrets (word text)")
    over = threading.Event()

    def write() -> None:
        with psycopg.connect(cluster.conninfo, autocommit=True) as session:
            while not over.is_set():
                session.execute("INSERT INTO secrets VALUES (%s)", [canary])

    writer = threading.Thread(target=write)
    writer.start()
    try:
        done = walproof(
            "advise", f"{cluster.conninfo} user=looker", "--for", "2s", "--save", str(tmp_path / "kept"),
            cwd=tmp_path,
        )  # fmt: skip
    finally:
        over.set()
        writer.join()
    assert done.returncode == 0, done.stderr
    files = [path for path in (tmp_path / "kept").rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) > 0
    assert [path.name for path in files if canary.encode() in path.read_bytes()] == []


def test_a_server_that_is_not_there(tmp_path: Path) -> None:
    done = walproof("advise", f"host={tmp_path} user=nobody", "--for", "1s", cwd=tmp_path)
    assert done.returncode == 2
    assert "could not connect to the server" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_demo_needs_no_server(tmp_path: Path) -> None:
    done = walproof("advise", "--demo", "--pg", "embedded", "--for", "2s", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert_valid("advise", told)
    assert {"slots", "unlogged", "log_checkpoints"} <= {advice["rule"] for advice in told["advice"]}
    both = walproof("advise", "--demo", "service=shop", cwd=tmp_path)
    neither = walproof("advise", cwd=tmp_path)
    assert (both.returncode, neither.returncode) == (2, 2)
    assert "name a server or a folder, or say --demo" in both.stderr
