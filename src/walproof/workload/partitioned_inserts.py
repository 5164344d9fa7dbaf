"""Inserts rows into five partitioned tables, as a benchmark of replication does: prepared INSERTs, many in
each commit.

Each session of a pgbench load runs the same script; a load of fixed length is written by ``insert_rows``.
Each table has a partition for each day and its primary key on (ts, key), as in a published comparison of 13.7
with 14.2 (Postgres Professional, 2022). Rows are drawn from a seed: the same rows give nearly the same WAL.
"""

from __future__ import annotations

import random
from datetime import datetime, timedelta

import psycopg
from psycopg.rows import TupleRow

from walproof.errors import WorkloadError, one_line

TABLES = 5
_DAYS = 8
_FIRST_DAY = datetime(2026, 1, 1)
_FILLFACTOR = 70
"""The room that the preload leaves in leaf pages, so that few of them split during the load."""
_KEYS = 10**12
"""How many keys there are to draw from. Times are drawn from 6.9e11 microseconds, so no two rows have both
the same."""


def make_tables(session: psycopg.Connection[TupleRow], rows: int) -> None:
    """Make the tables and fill them with ``rows`` rows over all days. Raises WorkloadError."""
    seconds = _DAYS * 86400
    try:
        for table in range(1, TABLES + 1):
            session.execute(
                f"CREATE TABLE test{table} (key text, value double precision, ts timestamp,"
                f" PRIMARY KEY (ts, key) WITH (fillfactor = {_FILLFACTOR})) PARTITION BY RANGE (ts)".encode()
            )
            for day in range(_DAYS):
                begin, end = _FIRST_DAY + timedelta(day), _FIRST_DAY + timedelta(day + 1)
                session.execute(
                    f"CREATE TABLE test{table}_{day} PARTITION OF test{table}"
                    f" FOR VALUES FROM ('{begin:%Y-%m-%d}') TO ('{end:%Y-%m-%d}')".encode()
                )
            session.execute(
                f"INSERT INTO test{table} SELECT 'loaded' || i, i,"
                f" '{_FIRST_DAY:%Y-%m-%d}'::timestamp"
                f" + (hashint4(i)::int8 + 2147483648) % {seconds} * interval '1 s'"
                f" FROM generate_series(1, {rows // TABLES}) i".encode()
            )
    except psycopg.Error as error:
        raise WorkloadError(f"could not make the tables: {one_line(error)}") from error


def insert_rows(session: psycopg.Connection[TupleRow], rows: int, *, rows_per_commit: int, seed: int) -> None:
    """Insert ``rows`` rows into the tables in turn, ``rows_per_commit`` (1 or more) in each transaction.

    Raises WorkloadError.
    """
    chance = random.Random(seed)
    seconds = _DAYS * 86400
    each, rest = divmod(rows_per_commit, TABLES)
    done = first = 0
    try:
        while done < rows:
            with session.transaction(), session.cursor() as cursor:
                for place in range(TABLES):
                    # What cannot be divided goes to the next tables in turn.
                    portion = min(each + (place < rest), rows - done)
                    if portion == 0:
                        break
                    table = (first + place) % TABLES + 1
                    cursor.executemany(
                        f"INSERT INTO test{table} (key, value, ts) VALUES (%s, %s, %s)".encode(),
                        [
                            (
                                f"key{done + i}",
                                chance.random(),
                                _FIRST_DAY + timedelta(microseconds=chance.randrange(seconds * 1_000_000)),
                            )
                            for i in range(portion)
                        ],
                    )
                    done += portion
            first = (first + rest) % TABLES
    except psycopg.Error as error:
        raise WorkloadError(f"could not insert the rows: {one_line(error)}") from error


def insert_script(rows_per_commit: int) -> str:
    """A pgbench script: one transaction of so many INSERTs into the tables in turn, sent without waiting in
    between.

    For ``--protocol=prepared``: each INSERT is then a prepared statement (pipelines: pgbench 14 and newer).
    """
    last_us = _DAYS * 86400 * 1_000_000 - 1
    lines = ["\\startpipeline", "BEGIN;"]
    for row in range(rows_per_commit):
        lines += [
            f"\\set key random(1, {_KEYS})",
            f"\\set us random(0, {last_us})",
            f"INSERT INTO test{row % TABLES + 1} (key, value, ts) VALUES ('key' || :key, :us,"
            f" '{_FIRST_DAY:%Y-%m-%d}'::timestamp + :us * interval '1 us');",
        ]
    return "\n".join([*lines, "COMMIT;", "\\endpipeline", ""])
