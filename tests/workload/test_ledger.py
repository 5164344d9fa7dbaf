"""The ledger and its books: sound after honest work, and every kind of damage is found."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from walproof.errors import WorkloadError
from walproof.facts import Install
from walproof.postgres import template as templates
from walproof.postgres.build import has_extension
from walproof.postgres.cluster import Cluster
from walproof.postgres.workspace import Workspace
from walproof.workload import ledger
from walproof.workload.books import PROBES, Books, check_books
from walproof.workload.ledger import Commit, LedgerLoad, Record, known_before

_SESSIONS = (0, 1, ledger.LIGHT_SESSION)
_SOUND = Books(0, None, None, None, None)


_OF_A_LOAD = "CREATE TABLE account (); CREATE TABLE ledger (i int); CREATE TABLE made_2_9 ()"
"""Tables that a load beside the ledger may have as well."""


def _open(cluster: Cluster) -> psycopg.Connection[tuple[object, ...]]:
    """A session that finds the ledger's tables."""
    connection = cluster.connect()
    connection.execute(ledger.search_path().encode())
    return connection


@contextmanager
def _worked(install: Install, workspace: Workspace, least: int = 150) -> Iterator[tuple[Cluster, Record]]:
    """A server whose ledger holds some hundred commits of several sessions, all of them known."""
    folder = workspace.make_folder("cluster")
    templates.clone(templates.prepare_empty(workspace, install, ()), folder, flush=False)
    cluster = Cluster(install, workspace, folder)
    cluster.start({**ledger.SETTINGS, "fsync": "off"})
    try:
        with cluster.connect() as connection:
            connection.execute(_OF_A_LOAD.encode())
            for statement in ledger.table_statements():
                connection.execute(statement.encode())
        load = LedgerLoad(cluster.conninfo, _SESSIONS)
        load.start()
        with _open(cluster) as connection:
            deadline = time.monotonic() + 60
            while _count(connection, "SELECT min(number) FROM balance WHERE session IN (0, 1, 7)") < least:
                assert time.monotonic() < deadline
                time.sleep(0.02)
        load.stop()
        yield cluster, load.record()
    finally:
        cluster.stop("immediate")
        workspace.remove_folder(folder)


def test_a_session_that_a_living_server_refuses_is_told(embedded: Install, workspace: Workspace) -> None:
    """psycopg's class of the error is the one of a server that is gone."""
    folder = workspace.make_folder("cluster")
    templates.clone(templates.prepare_empty(workspace, embedded, ()), folder, flush=False)
    cluster = Cluster(embedded, workspace, folder)
    # A two-phase commit is refused: OBJECT_NOT_IN_PREREQUISITE_STATE.
    cluster.start({"max_prepared_transactions": "0", "fsync": "off"})
    try:
        with cluster.connect() as connection:
            for statement in ledger.table_statements():
                connection.execute(statement.encode())
        load, tolerant = (LedgerLoad(cluster.conninfo, (n,), may_fail=n == 1) for n in (0, 1))
        load.start()
        tolerant.start()
        with pytest.raises(WorkloadError, match="session 0, transaction 5: prepared transactions are"):
            load.record()
        assert tolerant.record()[1][-1].ended_ns is None
    finally:
        cluster.stop("immediate")


def test_a_ledger_that_cannot_connect_leaves_no_session(
    embedded: Install, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[psycopg.Connection[tuple[object, ...]]] = []
    connect = psycopg.connect

    def connect_twice(*words: Any, **named: Any) -> psycopg.Connection[tuple[object, ...]]:
        if len(opened) == 2:
            raise psycopg.OperationalError("sorry, too many clients already")
        opened.append(connect(*words, **named))
        return opened[-1]

    folder = workspace.make_folder("cluster")
    templates.clone(templates.prepare_empty(workspace, embedded, ()), folder, flush=False)
    cluster = Cluster(embedded, workspace, folder)
    cluster.start({"fsync": "off"})
    try:
        with monkeypatch.context() as patch:
            patch.setattr(psycopg, "connect", connect_twice)
            with pytest.raises(WorkloadError, match="too many clients"):
                LedgerLoad(cluster.conninfo, _SESSIONS)
        assert [session.closed for session in opened] == [True, True]
    finally:
        cluster.stop("immediate")


def _count(connection: psycopg.Connection[tuple[object, ...]], query: str) -> int:
    row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return int(str(row[0]))


@pytest.mark.pg(ends=True)
def test_honest_books_are_sound(install: Install, workspace: Workspace) -> None:
    with _worked(install, workspace) as (cluster, record), _open(cluster) as connection:
        assert ledger.acknowledged(record) == sum(len(session) for session in record) > 450
        has_amcheck = has_extension(install, "amcheck")
        assert check_books(connection, record, has_amcheck=has_amcheck) == _SOUND
        # Two-phase commits, rolled back savepoints, TOAST and DDL are really among them.
        assert _count(connection, "SELECT count(*) FROM pg_prepared_xacts") == 0
        assert _count(connection, "SELECT max(length(payload)) FROM ledger") == 3840
        made = (
            "SELECT count(*) FROM pg_tables WHERE tablename LIKE 'made%' AND schemaname = 'walproof_ledger'"
        )
        assert _count(connection, made) == 2
        assert _count(connection, "SELECT sum(balance) FROM account WHERE balance > 0") > 0
        # As in images that were kept before the ledger had a schema.
        connection.execute(
            "ALTER SCHEMA public RENAME TO load; ALTER SCHEMA walproof_ledger RENAME TO public"
        )
        assert check_books(connection, record, has_amcheck=has_amcheck, schema="public") == _SOUND


@pytest.mark.pg(">= 15", ends=True)
def test_each_index_answers_its_question(install: Install, workspace: Workspace) -> None:
    """A comparison of a table with itself would find nothing."""
    with _worked(install, workspace) as (cluster, _), _open(cluster) as connection:
        connection.execute("SET enable_seqscan = off")
        for index, table, condition in PROBES:
            plan = connection.execute(f"EXPLAIN SELECT * FROM {table} WHERE {condition}".encode()).fetchall()
            assert index in str(plan), (index, plan)


_DAMAGES = {
    "the last commit of a session": (
        "WITH l AS (SELECT max(number) AS n FROM ledger WHERE session = 7),"
        " d AS (DELETE FROM ledger USING l WHERE session = 7 AND number = n RETURNING amount),"
        " q AS (DELETE FROM queue USING l WHERE session = 7 AND number = n),"
        " r AS (INSERT INTO queue SELECT 7, n - 10 FROM l)"
        " UPDATE balance SET total = total - amount, number = number - 1 FROM d WHERE session = 7",
        "lost",
    ),
    "a commit in the middle": ("DELETE FROM ledger WHERE session = 1 AND number = 30", "hole"),
    "a balance": ("UPDATE balance SET total = total + 1 WHERE session = 0", "unbalanced"),
    "the sum of money": ("UPDATE account SET balance = balance + 1 WHERE id = 3", "unbalanced"),
    "a deleted row that came back": ("INSERT INTO queue VALUES (0, 3)", "unbalanced"),
    "a text": ("UPDATE ledger SET payload = 'x' WHERE session = 0 AND number = 16", "wrong"),
    "a row of a rolled back savepoint": (
        "UPDATE ledger SET number = 1000000003 WHERE session = 0 AND number = 3",
        "wrong",
    ),
    "a missing table": ("DO $$ BEGIN EXECUTE 'DROP TABLE ' || (SELECT relname FROM pg_class"
                        " WHERE relname LIKE 'made\\_1\\_%' AND relkind = 'r'); END $$", "unbalanced"),
    "an index": (
        "UPDATE pg_index SET indisready = false WHERE indexrelid = 'ledger_gin'::regclass;"
        " INSERT INTO ledger SELECT 9, n, amount, '{101}', place, payload, digest"
        " FROM (SELECT number AS n, * FROM ledger WHERE session = 0 LIMIT 3) r",
        "wrong",
    ),
}  # fmt: skip


def test_every_damage_is_found(embedded: Install, workspace: Workspace) -> None:
    with _worked(embedded, workspace) as (cluster, record):
        for what, (damage, expected) in _DAMAGES.items():
            with _open(cluster) as connection:
                connection.autocommit = False
                connection.execute(damage.encode())
                # The check begins transactions of its own: savepoints within this one.
                books = check_books(connection, record, has_amcheck=False)
                connection.rollback()
            assert getattr(books, expected), f"{what}: {books}"
            # A failover may lose the last commits, and the books of what is left have to add up.
            assert (books.complaint is None) is (expected == "lost"), f"{what}: {books}"
            grave = {"lost": (), "hole": ("wrong",), "unbalanced": ("hole", "wrong"), "wrong": ()}[expected]
            assert not any(getattr(books, kind) for kind in grave), f"{what}: {books}"
        with _open(cluster) as connection:
            assert check_books(connection, record, has_amcheck=False) == _SOUND


def test_a_ledger_that_is_gone_has_lost_everything(embedded: Install, workspace: Workspace) -> None:
    with _worked(embedded, workspace, 10) as (cluster, record), _open(cluster) as connection:
        connection.execute("DROP TABLE ledger")
        books = check_books(connection, record, has_amcheck=False)
    ended = [commit.ended_ns for session in record for commit in session if commit.ended_ns is not None]
    assert books == Books(ledger.acknowledged(record), min(ended), None, None, None)


def test_what_was_acknowledged_after_the_cut_was_not_promised() -> None:
    record = ((Commit(1, 10, 20), Commit(2, 21, 30), Commit(3, 31, None)), ())
    assert known_before(record, 25) == ((Commit(1, 10, 20), Commit(2, 21, None), Commit(3, 31, None)), ())
    assert ledger.acknowledged(known_before(record, 30)) == 2


def test_transactions_follow_from_their_numbers() -> None:
    assert ledger.transaction(2, 29) == ledger.transaction(2, 29)
    sql, identifier = ledger.transaction(2, 29)
    assert identifier == "walproof-2-29"
    assert sql.endswith(f"PREPARE TRANSACTION '{identifier}'")
    for number in range(1, 200):
        light, none = ledger.transaction(ledger.LIGHT_SESSION, number)
        assert none is None
        assert light.endswith("COMMIT")
        assert "TABLE" not in light
        assert len(light) < 600
    assert ledger.made_table(0, 23) is None
    assert ledger.made_table(0, 49) == "made_0_48"
    assert ledger.made_table(ledger.LIGHT_SESSION, 49) is None
