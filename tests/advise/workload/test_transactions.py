"""Statements that were called equally often are put together, as far as commits allow."""

from __future__ import annotations

from tests.advise.workload.apps import column, statement, table
from walproof.advise.workload.naming import Catalog
from walproof.advise.workload.parameters import read_statement
from walproof.advise.workload.transactions import Member, committed, transactions
from walproof.facts.application import AppStatement

CATALOG = Catalog([table(name, column("id", "integer"), column("n", "integer")) for name in "abc"])
UPDATE_A, UPDATE_B = "UPDATE a SET n = n + $1 WHERE id = $2", "UPDATE b SET n = n + $1 WHERE id = $2"
READ_C, INSERT_C = "SELECT n FROM c WHERE id = $1", "INSERT INTO c (id, n) VALUES ($1, $2)"


def member(query: str, calls: float) -> Member:
    row = statement(query, calls)
    return Member(row, read_statement(row.query, CATALOG))


def verbs(members: list[Member], blocks: float, commits: float | None = None) -> list[list[str]]:
    return [
        [each.read.verb for each in transaction.members]
        for transaction in transactions(members, blocks, commits)
    ]


def test_alike_statements_are_one_transaction_when_commits_are_few() -> None:
    both = [member(UPDATE_A, 1000), member(UPDATE_B, 1002)]
    assert verbs(both, 0, 1010) == [["update", "update"]]
    assert verbs(both, 0, 2000) == [["update"], ["update"]], "each had a commit of its own"
    assert verbs(both, 0, None) == [["update"], ["update"]], "nothing says that they belong together"
    assert verbs(both, 1000) == [["update", "update"]], "as many blocks were committed"


def test_statements_of_other_counts_stand_alone() -> None:
    found = verbs([member(UPDATE_A, 1000), member(UPDATE_B, 1000), member(READ_C, 5000)], 0, 6000)
    assert found == [["select"], ["update", "update"]]


def test_of_many_alike_so_many_are_put_together_as_commits_allow() -> None:
    members = [member(READ_C, 1000), member(UPDATE_A, 1000), member(INSERT_C, 1000), member(UPDATE_B, 1000)]
    assert verbs(members, 0, 3000) == [["insert", "update"], ["select"], ["update"]]
    assert verbs(members, 0, 2000) == [["insert", "update", "update"], ["select"]]
    assert verbs(members, 0, 1000) == [["select", "insert", "update", "update"]]


def test_reads_alone_are_no_transaction() -> None:
    reads = [member(READ_C, 1000), member("SELECT id FROM a WHERE n = $1", 1000)]
    assert verbs(reads, 1000, 1000) == [["select"], ["select"]]


def test_what_is_read_or_new_comes_first() -> None:
    found = verbs([member(UPDATE_A, 1000), member(INSERT_C, 1000), member(READ_C, 1000)], 1000)
    assert found == [["select", "insert", "update"]]


def test_few_calls_may_differ_by_what_two_looks_cut() -> None:
    assert verbs([member(UPDATE_A, 40), member(UPDATE_B, 42)], 42) == [["update", "update"]]
    assert verbs([member(UPDATE_A, 4), member(UPDATE_B, 6)], 6) == [["update"], ["update"]]


def test_commits_of_blocks_are_counted() -> None:
    rows = [
        AppStatement(query, calls, 0, 0, 0, 0)
        for query, calls in (("COMMIT", 3.0), ("end;", 4.0), ("BEGIN", 9.0))
    ]
    assert committed(rows) == 7.0
