"""A ledger: sessions that remember, outside the server, every commit that it has acknowledged.

Each session numbers its transactions. What a transaction writes follows from session and number alone, so
that after a crash everything about it can be checked: see :mod:`walproof.workload.books`. Among the
transactions are savepoints that are rolled back, two-phase commits, updates of indexed columns, deletes and
DDL; the tables have indexes of every built-in type and values long enough to be stored out of line (TOAST).
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace

import psycopg

from walproof.errors import WorkloadError, one_line
from walproof.settings.catalogue import normalise

SESSIONS_MOST = 8
LIGHT_SESSION = SESSIONS_MOST - 1
"""The session of a trickle: it writes little, and nothing that an asynchronous commit would wait for
(two-phase commits and dropped files are always flushed)."""
ACCOUNTS = 64
QUEUE_LENGTH = 10
"""A transaction puts its number into the queue, and takes out the number that came so many before it."""
SETTINGS = {"max_prepared_transactions": str(2 * SESSIONS_MOST)}
"""Settings that the server needs for the ledger, at least."""
SCHEMA = "walproof_ledger"
"""The schema of the ledger's tables: a load beside it may have some of the same names."""
_PREPARED = "walproof-{session}-{number}"
_END_PATIENCE_S = 30.0


@dataclass(frozen=True, slots=True)
class Commit:
    """An acknowledged commit, or with ``ended_ns`` of None one whose outcome the client never learned."""

    number: int
    began_ns: int
    """When its first statement was sent, as time.monotonic_ns."""
    ended_ns: int | None
    """When the acknowledgement was received."""


Record = tuple[tuple[Commit, ...], ...]
"""The commits of each session, in order."""


def with_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """``settings`` of a server, and what it needs for the ledger. Somebody's own may allow no prepared
    transactions, as Patroni's do. Raises SettingError."""
    found = {**SETTINGS, **settings}
    for name, least in SETTINGS.items():
        if int(normalise(name, found[name])) < int(least):
            found[name] = least
    return found


def search_path(schema: str = SCHEMA) -> str:
    """SQL after which a session finds the ledger's tables in ``schema``, and pgbench's."""
    return f"SET search_path = {schema}, public"


def table_statements(*, unlogged: bool = False, tablespace: str | None = None) -> tuple[str, ...]:
    """SQL for one session that makes the ledger's tables, which it finds afterwards, with the balances in
    ``tablespace`` if there is one."""
    table = "UNLOGGED TABLE" if unlogged else "TABLE"
    there = f" TABLESPACE {tablespace}" if tablespace else ""
    return (
        f"CREATE SCHEMA {SCHEMA}",
        search_path(),
        f"CREATE {table} ledger (session int, number int, amount int, tags int[], place point,"
        " payload text, digest text, PRIMARY KEY (session, number))",
        "ALTER TABLE ledger ALTER payload SET STORAGE EXTERNAL",
        "CREATE INDEX ledger_hash ON ledger USING hash (amount)",
        "CREATE INDEX ledger_gin ON ledger USING gin (tags)",
        "CREATE INDEX ledger_gist ON ledger USING gist (place)",
        "CREATE INDEX ledger_spgist ON ledger USING spgist (digest)",
        "CREATE INDEX ledger_brin ON ledger USING brin (amount)",
        f"CREATE {table} balance (session int PRIMARY KEY, number int, total bigint){there}",
        f"INSERT INTO balance SELECT s, 0, 0 FROM generate_series(0, {SESSIONS_MOST - 1}) s",
        f"CREATE {table} account (id int PRIMARY KEY, balance bigint)",
        "CREATE INDEX account_balance ON account (balance)",
        f"INSERT INTO account SELECT i, 0 FROM generate_series(0, {ACCOUNTS - 1}) i",
        f"CREATE {table} queue (session int, number int, PRIMARY KEY (session, number)){there}",
    )


def amount_of(session: int, number: int) -> int:
    """The amount that a transaction adds to its session's balance."""
    return (session * 7919 + number * 104_729) % 1000


def payload_of(session: int, number: int) -> str:
    """The text of a transaction; every 16th is so long that it is stored out of line."""
    digest = hashlib.md5(f"{session}/{number}".encode(), usedforsecurity=False).hexdigest()
    if session == LIGHT_SESSION:
        return digest
    return digest * (120 if number % 16 == 0 else 1 + number % 9)


def made_table(session: int, number: int) -> str | None:
    """Name of the table that exists once that transaction has committed; None if there is none yet."""
    made = 0 if session == LIGHT_SESSION else number - number % _DDL_EVERY
    return f"made_{session}_{made}" if made else None


_DDL_EVERY = 24


def transaction(session: int, number: int) -> tuple[str, str | None]:
    """The SQL of one transaction, and the identifier of a two-phase one, after which COMMIT PREPARED has to
    follow."""
    amount, payload = amount_of(session, number), payload_of(session, number)
    digest = hashlib.md5(payload.encode(), usedforsecurity=False).hexdigest()
    tags = f"'{{{number % 7},{7 + number % 11},{100 + session}}}'"
    place = f"'({number % 37},{number % 41})'"
    row = f"{amount}, {tags}, {place}, '{payload}', '{digest}'"
    parts = ["BEGIN"]
    kind = 0 if session == LIGHT_SESSION else number % 8
    if kind == 3:
        # What is rolled back must never be seen, and its index entries must not point anywhere else.
        parts += [
            "SAVEPOINT s",
            f"INSERT INTO ledger VALUES ({session}, {number + 1_000_000_000}, {row})",
            "ROLLBACK TO s",
        ]
    parts.append(f"INSERT INTO ledger VALUES ({session}, {number}, {row})")
    parts.append(f"UPDATE balance SET total = total + {amount}, number = {number} WHERE session = {session}")
    parts.append(f"INSERT INTO queue VALUES ({session}, {number})")
    parts.append(f"DELETE FROM queue WHERE session = {session} AND number = {number - QUEUE_LENGTH}")
    if kind in (1, 6):
        # In the order of their numbers, so that sessions never wait for each other in a circle.
        payer, two = sorted(((number * 13 + session) % ACCOUNTS, (number * 29 + session + 1) % ACCOUNTS))
        parts.append(f"UPDATE account SET balance = balance - {amount} WHERE id = {payer}")
        parts.append(f"UPDATE account SET balance = balance + {amount} WHERE id = {two}")
    if made_table(session, number) == f"made_{session}_{number}":
        if number > _DDL_EVERY:
            parts.append(f"DROP TABLE made_{session}_{number - _DDL_EVERY}")
        parts.append(
            f"CREATE TABLE made_{session}_{number} AS SELECT g AS i FROM generate_series(1, {number % 400}) g"
        )
        parts.append(f"CREATE INDEX ON made_{session}_{number} (i)")
    identifier = _PREPARED.format(session=session, number=number) if kind == 5 else None
    parts.append(f"PREPARE TRANSACTION '{identifier}'" if identifier else "COMMIT")
    return "; ".join(parts), identifier


def prepared_identifiers(record: Record) -> set[str]:
    """The global identifiers (GIDs) that those transactions may have if they were prepared."""
    return {
        _PREPARED.format(session=session, number=commit.number)
        for session, commits in enumerate(record)
        for commit in commits
    }


def known_before(record: Record, moment_ns: int) -> Record:
    """Only what clients had been told by then. A process that the cut has not stopped yet may still
    acknowledge commits, but together with the power the network would have gone as well."""
    return tuple(
        tuple(
            replace(commit, ended_ns=None)
            if commit.ended_ns is not None and commit.ended_ns > moment_ns
            else commit
            for commit in session
        )
        for session in record
    )


def acknowledged(record: Record) -> int:
    """How many commits clients were told of."""
    return sum(commit.ended_ns is not None for session in record for commit in session)


def _connect(conninfo: str) -> psycopg.Connection[tuple[object, ...]]:
    return psycopg.connect(conninfo, autocommit=True, options=f"-c search_path={SCHEMA}")


class LedgerLoad:
    """Sessions that commit until the server is gone. Always end them with :meth:`record`, after the server is
    gone.

    ``sessions`` are their numbers; ``think_s`` is the pause after each commit; ``may_fail``: a statement may
    fail while the server lives, which ends its session. Raises WorkloadError when a session cannot connect.
    """

    def __init__(
        self, conninfo: str, sessions: Sequence[int], *, think_s: float = 0.0, may_fail: bool = False
    ) -> None:
        assert set(sessions) <= set(range(SESSIONS_MOST)), sessions
        self._think_s = think_s
        self._may_fail = may_fail
        self._commits: list[list[Commit]] = [[] for _ in range(SESSIONS_MOST)]
        self._ending = threading.Event()
        self._complaints: list[str] = []
        with ExitStack() as opened:
            try:
                connections = {
                    number: opened.enter_context(closing(_connect(conninfo))) for number in sessions
                }
            except psycopg.Error as error:
                raise WorkloadError(f"the ledger could not connect: {one_line(error)}") from error
            opened.pop_all()
        self._threads = [
            threading.Thread(target=self._commit, args=(session, connection), daemon=True)
            for session, connection in connections.items()
        ]

    def start(self) -> None:
        """Let the sessions begin."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Let every session end after its current transaction."""
        self._ending.set()

    def record(self) -> Record:
        """What every session was told. Call it once the server is gone. Raises WorkloadError for a session
        that does not end, and for one that ended by itself, unless it may fail."""
        for thread in self._threads:
            thread.join(_END_PATIENCE_S)
            if thread.is_alive():
                raise WorkloadError(f"a session of the ledger did not end within {_END_PATIENCE_S:.0f} s")
        if self._complaints:
            raise WorkloadError(f"the ledger failed: {self._complaints[0]}")
        return tuple(tuple(session) for session in self._commits)

    def _commit(self, session: int, connection: psycopg.Connection[tuple[object, ...]]) -> None:
        commits = self._commits[session]
        number = 0
        try:
            while not self._ending.is_set():
                number += 1
                sql, identifier = transaction(session, number)
                began_ns = time.monotonic_ns()
                commits.append(Commit(number, began_ns, None))
                connection.execute(sql.encode())
                if identifier is not None:
                    connection.execute(f"COMMIT PREPARED '{identifier}'".encode())
                commits[-1] = Commit(number, began_ns, time.monotonic_ns())
                if self._think_s:
                    time.sleep(self._think_s)
        except psycopg.Error as error:
            # Where the connection broke the server is gone: the outcome of the last one is not known. The
            # error's class says less: a full disk and a cancelled statement are OperationalErrors, too.
            if not connection.broken and not self._may_fail:
                self._complaints.append(f"session {session}, transaction {number}: {one_line(error)}")
        finally:
            connection.close()
