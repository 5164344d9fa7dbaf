"""The books of a ledger after a crash: is everything that was acknowledged there, and does it add up?

Reads through the server, in a fixed order: prepared transactions are finished, rows are compared with what
the clients were told, invariants are added up, every index is compared with its table, and amcheck looks at
the heap and the B-trees where the install has it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import psycopg

from walproof.errors import first_line
from walproof.workload.ledger import (
    ACCOUNTS,
    QUEUE_LENGTH,
    SCHEMA,
    SESSIONS_MOST,
    Record,
    amount_of,
    made_table,
    search_path,
)

_Connection = psycopg.Connection[tuple[object, ...]]


@dataclass(frozen=True, slots=True)
class Books:
    """What the ledger holds, compared with what was acknowledged."""

    lost: int
    """Acknowledged commits that are gone."""
    oldest_lost_ns: int | None
    """When the first of them was acknowledged, as time.monotonic_ns."""
    hole: str | None
    """Says which lost commit is older than one that is there."""
    unbalanced: str | None
    """What does not add up. If there is a hole, this follows from it."""
    wrong: str | None
    """What cannot be read, is not what was written, or is found by one way of reading and not by another."""

    @property
    def complaint(self) -> str | None:
        """What may not be, however many of the last commits are lost; None if there is nothing."""
        return self.wrong or self.hole or self.unbalanced


def check_books(
    connection: _Connection,
    record: Record,
    *,
    has_amcheck: bool,
    has_pgbench_sums: bool = True,
    schema: str = SCHEMA,
) -> Books:
    """Compare. ``connection`` is a superuser's, in autocommit mode. ``has_pgbench_sums``: nothing but
    pgbench's own transactions changes its tables, if it has any. ``schema`` has the ledger's tables. Never
    raises; whatever fails is ``wrong``."""
    try:
        connection.execute(search_path(schema).encode())
        _finish_prepared(connection)
        if not _has_ledger(connection, schema):
            # The server is as before the ledger was made: nothing of it is left, so nothing of it is wrong.
            return _all_lost(record)
        present = _present(connection)
    except psycopg.Error as error:
        return Books(0, None, None, None, first_line(error))
    lost = [
        (commit.ended_ns, session, commit.number)
        for session, commits in enumerate(record)
        for commit in commits
        if commit.ended_ns is not None and commit.number not in present[session]
    ]
    hole = _hole(record, present, lost)
    unbalanced = wrong = None
    try:
        unbalanced = next(_sums(connection, present, schema, has_pgbench_sums), None)
        wrong = next(_complaints(connection, record, present, has_amcheck), None)
    except psycopg.Error as error:
        wrong = first_line(error)
    return Books(len(lost), min((entry[0] for entry in lost), default=None), hole, unbalanced, wrong)


def _has_ledger(connection: _Connection, schema: str) -> bool:
    """Whether anything is left of it: its table, or that without the schema."""
    (found,) = _integers(
        connection,
        "SELECT count(*) FROM pg_class c WHERE relname = 'ledger'"
        f" AND (relnamespace = to_regnamespace('{schema}')"
        " OR NOT EXISTS (SELECT FROM pg_namespace n WHERE n.oid = c.relnamespace))",
    )
    return bool(found)


def _all_lost(record: Record) -> Books:
    ended = [commit.ended_ns for commits in record for commit in commits if commit.ended_ns is not None]
    return Books(len(ended), min(ended, default=None), None, None, None)


def _finish_prepared(connection: _Connection) -> None:
    """Commit prepared transactions. They survive a crash and wait; a coordinator would commit them now."""
    for (identifier,) in connection.execute("SELECT gid FROM pg_prepared_xacts ORDER BY gid").fetchall():
        connection.execute(f"COMMIT PREPARED '{identifier}'".encode())


def _present(connection: _Connection) -> list[set[int]]:
    """The numbers of each session, read from the table itself."""
    present: list[set[int]] = [set() for _ in range(SESSIONS_MOST)]
    with connection.transaction():
        _only(connection, "seqscan")
        for session, number in connection.execute("SELECT session, number FROM ledger").fetchall():
            place, value = int(str(session)), int(str(number))
            if place < SESSIONS_MOST:
                present[place].add(value)
    return present


def _hole(record: Record, present: Sequence[set[int]], lost: Sequence[tuple[int, int, int]]) -> str | None:
    """WAL is one log: nothing that began after a commit was acknowledged may outlive it."""
    if not lost:
        return None
    first_ns, session, number = min(lost)
    for other, commits in enumerate(record):
        for commit in commits:
            if commit.began_ns > first_ns and commit.number in present[other]:
                return (
                    f"commit {number} of session {session} is gone, "
                    f"commit {commit.number} of session {other}, which began later, is there"
                )
    return None


def _complaints(
    connection: _Connection, record: Record, present: Sequence[set[int]], has_amcheck: bool
) -> Iterator[str]:
    yield from _rows(connection, record, present)
    yield from _indexes(connection)
    if has_amcheck:
        yield from _amcheck(connection)


def _rows(connection: _Connection, record: Record, present: Sequence[set[int]]) -> Iterator[str]:
    for session, (commits, numbers) in enumerate(zip(record, present, strict=True)):
        invented = numbers - {commit.number for commit in commits}
        if invented:
            yield f"session {session} has {len(invented)} rows that were never committed: {min(invented)}"
    query = (
        "SELECT count(*) - count(DISTINCT (session, number)),"
        " count(*) FILTER (WHERE md5(payload) <> digest),"
        " count(*) FILTER (WHERE amount <> (session * 7919 + number::bigint * 104729) % 1000) FROM ledger"
    )
    doubles, payloads, amounts = _integers(connection, query)
    if doubles:
        yield f"{doubles} rows of the ledger exist twice"
    if payloads or amounts:
        yield f"{payloads + amounts} rows of the ledger have other contents than were written"


def _sums(
    connection: _Connection, present: Sequence[set[int]], schema: str, has_pgbench_sums: bool
) -> Iterator[str]:
    rows = connection.execute("SELECT session, number, total FROM balance").fetchall()
    balances = {int(str(session)): (int(str(number)), int(str(total))) for session, number, total in rows}
    if len(rows) not in (0, SESSIONS_MOST):
        yield f"{len(rows)} balances, expected {SESSIONS_MOST}"
    for session, numbers in enumerate(present):
        last, total = balances.get(session, (0, 0))
        expected = sum(amount_of(session, number) for number in numbers)
        if (last, total) != (max(numbers, default=0), expected):
            yield (
                f"session {session}: balance {total} after {last} commits, "
                f"its rows add up to {expected} after {max(numbers, default=0)}"
            )
        queue = [int(str(row[0])) for row in connection.execute(
            "SELECT number FROM queue WHERE session = %s ORDER BY number", [session]
        )]  # fmt: skip
        top = max(numbers, default=0)
        if queue != list(range(max(1, top - QUEUE_LENGTH + 1), top + 1)):
            yield f"session {session}: the queue holds {len(queue)} numbers, not the last {QUEUE_LENGTH}"
        made = made_table(session, top)
        tables = [
            str(row[0])
            for row in connection.execute(
                "SELECT relname FROM pg_class WHERE relkind = 'r' AND relname LIKE %s"
                " AND relnamespace = to_regnamespace(%s)",
                [f"made\\_{session}\\_%", schema],
            )
        ]
        if any(present) and tables != ([made] if made else []):
            yield f"session {session}: tables {', '.join(tables) or 'none'}, expected {made or 'none'}"
        elif made is not None:
            (count,) = _integers(connection, f"SELECT count(*) FROM {made}")
            if count != int(made.rpartition("_")[2]) % 400:
                yield f'table "{made}" has {count} rows'
    accounts, money = _integers(connection, "SELECT count(*), coalesce(sum(balance), 0) FROM account")
    if accounts not in (0, ACCOUNTS) or money != 0:
        yield f"{accounts} accounts hold {money} together, expected {ACCOUNTS} and 0"
    if has_pgbench_sums:
        yield from _pgbench(connection)


PROBES = (
    ("ledger_pkey", "ledger", "session = 1 AND number BETWEEN 5 AND 400"),
    ("ledger_hash", "ledger", "amount = 648"),
    ("ledger_gin", "ledger", "tags @> '{101}'"),
    ("ledger_gin", "ledger", "tags @> '{3,12}'"),
    ("ledger_gist", "ledger", "place <@ box '((3,3),(17,19))'"),
    ("ledger_spgist", "ledger", "digest BETWEEN '2' AND 'b'"),
    ("ledger_brin", "ledger", "amount BETWEEN 100 AND 300"),
    ("account_balance", "account", "balance > 0"),
    ("queue_pkey", "queue", "session = 1"),
)
"""Index, table, condition. No other index of the table can answer the condition."""


def _indexes(connection: _Connection) -> Iterator[str]:
    """The table and an index must give the same answer to the same question."""
    for index, table, condition in PROBES:
        what = "number" if table != "account" else "balance"
        query = f"SELECT count(*), coalesce(sum({what}), 0) FROM {table} WHERE {condition}"
        answers = []
        for way in ("seqscan", "indexscan"):
            with connection.transaction(force_rollback=True):
                _only(connection, way)
                answers.append(_integers(connection, query))
        if answers[0] != answers[1]:
            yield (
                f'index "{index}" finds {answers[1][0]} rows where {condition}, the table has {answers[0][0]}'
            )


def _only(connection: _Connection, way: str) -> None:
    """Let this transaction read in only one way."""
    ways = {"seqscan": ("seqscan",), "indexscan": ("indexscan", "indexonlyscan", "bitmapscan")}
    for name in ("seqscan", "indexscan", "indexonlyscan", "bitmapscan"):
        connection.execute(f"SET LOCAL enable_{name} = {'on' if name in ways[way] else 'off'}".encode())


def _pgbench(connection: _Connection) -> Iterator[str]:
    """Check pgbench's own invariant, if it ran: every transaction adds its delta to all three tables."""
    (exists,) = _integers(connection, "SELECT count(*) FROM pg_class WHERE relname = 'pgbench_branches'")
    if not exists:
        return
    with connection.transaction():
        _only(connection, "seqscan")
        accounts, tellers, branches, history = _integers(
            connection,
            "SELECT (SELECT sum(abalance) FROM pgbench_accounts),"
            " (SELECT sum(tbalance) FROM pgbench_tellers), (SELECT sum(bbalance) FROM pgbench_branches),"
            " (SELECT coalesce(sum(delta), 0) FROM pgbench_history)",
        )
    # simple-update leaves tellers and branches alone.
    if accounts != history or (tellers, branches) not in ((history, history), (0, 0)):
        yield (
            f"pgbench's balances differ: accounts {accounts}, tellers {tellers}, branches {branches}, "
            f"history {history}"
        )


def _amcheck(connection: _Connection) -> Iterator[str]:
    connection.execute("CREATE EXTENSION IF NOT EXISTS amcheck")
    version = connection.info.server_version
    of_type = (
        " FROM pg_class c JOIN pg_am a ON a.oid = c.relam JOIN pg_index i ON i.indexrelid = c.oid"
        " WHERE c.relkind = 'i' AND c.relpersistence = 'p' AND i.indisvalid AND a.amname = "
    )
    connection.execute(f"SELECT bt_index_parent_check(c.oid, true){of_type}'btree'".encode())
    if version >= 180000:
        connection.execute(f"SELECT gin_index_check(c.oid){of_type}'gin'".encode())
    if version >= 140000:
        found = connection.execute(
            "SELECT c.oid::regclass, v.blkno, v.msg FROM pg_class c, verify_heapam(c.oid) v"
            " WHERE c.relkind = 'r' AND c.relpersistence = 'p' LIMIT 1"
        ).fetchone()
        if found is not None:
            yield f'table "{found[0]}", block {found[1]}: {found[2]}'


def _integers(connection: _Connection, query: str) -> tuple[int, ...]:
    row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return tuple(int(str(value)) if value is not None else 0 for value in row)
