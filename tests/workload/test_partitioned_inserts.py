"""The fixed load of replay has as many rows in a commit as its study says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import cast

import psycopg
import pytest
from psycopg.rows import TupleRow

from walproof.errors import WorkloadError
from walproof.workload.partitioned_inserts import insert_rows


class _Session:
    """Remembers the rows for each table, commit by commit."""

    def __init__(self) -> None:
        self.commits: list[dict[str, int]] = []

    @contextmanager
    def transaction(self) -> Iterator[None]:
        self.commits.append({})
        yield

    @contextmanager
    def cursor(self) -> Iterator[_Session]:
        yield self

    def executemany(self, sql: bytes, rows: Sequence[object]) -> None:
        table = sql.decode().split()[2]
        assert table not in self.commits[-1]
        self.commits[-1][table] = len(rows)


def _commits(rows: int, rows_per_commit: int) -> list[dict[str, int]]:
    session = _Session()
    insert_rows(cast("psycopg.Connection[TupleRow]", session), rows, rows_per_commit=rows_per_commit, seed=1)
    return session.commits


@pytest.mark.parametrize("rows_per_commit", [1, 4, 5, 7, 9, 499, 500])
def test_a_commit_has_as_many_rows_as_were_asked_for(rows_per_commit: int) -> None:
    """One became five, and 499 became 495."""
    counts = [sum(commit.values()) for commit in _commits(1010, rows_per_commit)]
    whole, last = divmod(1010, rows_per_commit)
    assert counts == [rows_per_commit] * whole + ([last] if last else [])


def test_tables_take_turns() -> None:
    assert _commits(7, 1) == [{f"test{number % 5 + 1}": 1} for number in range(7)]
    assert _commits(14, 7) == [
        {"test1": 2, "test2": 2, "test3": 1, "test4": 1, "test5": 1},
        {"test3": 2, "test4": 2, "test5": 1, "test1": 1, "test2": 1},
    ]
    assert _commits(500, 500) == [{f"test{number}": 100 for number in range(1, 6)}]


def test_what_the_server_says_becomes_one_line() -> None:
    class Full(_Session):
        def executemany(self, sql: bytes, rows: Sequence[object]) -> None:
            raise psycopg.errors.DiskFull("could not extend file\nHINT:  Check free disk space.")

    session = cast("psycopg.Connection[TupleRow]", Full())
    with pytest.raises(WorkloadError) as caught:
        insert_rows(session, 1, rows_per_commit=1, seed=1)
    assert str(caught.value).endswith("could not extend file HINT: Check free disk space.")
