"""Rows that are generated for keys, and columns that a file may leave out, on one server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.workload.loading.judge import Judge
from walproof.errors import WorkloadError
from walproof.workload.loading.paired_keys import needed_rows, paired
from walproof.workload.loading.partition_values import _items
from walproof.workload.loading.source import SOURCE, fill_source, fill_table, read_source
from walproof.workload.loading.table import Session, read_table

pytestmark = pytest.mark.live

PARENTS = "CREATE TABLE people (id int PRIMARY KEY); CREATE TABLE goods (id int PRIMARY KEY);"


@pytest.fixture
def session(judge: Judge) -> Iterator[Session]:
    with judge.connect() as opened:
        try:
            yield opened
        finally:
            opened.execute("DROP SCHEMA public CASCADE")
            opened.execute("CREATE SCHEMA public")


@pytest.mark.parametrize(
    "ddl",
    [
        "CREATE TABLE t (person int REFERENCES people, good int REFERENCES goods,"
        " PRIMARY KEY (person, good))",
        "CREATE TABLE t (person int PRIMARY KEY REFERENCES people, x int)",
        "CREATE TABLE t (one int REFERENCES people, other int REFERENCES people, PRIMARY KEY (one, other))",
        "CREATE TABLE t (person int UNIQUE REFERENCES people, good int REFERENCES goods,"
        " PRIMARY KEY (good, person))",
        "CREATE TABLE t (person int REFERENCES people, n int, x text, PRIMARY KEY (person, n))",
        "CREATE TABLE t (at date, id int, x text, PRIMARY KEY (at, id)) PARTITION BY RANGE (at);"
        "CREATE TABLE t_1 PARTITION OF t FOR VALUES FROM ('2026-01-01') TO ('2026-02-01')",
    ],
)
def test_keys_of_foreign_keys_and_of_partitions_are_unique(session: Session, ddl: str) -> None:
    """Each column was drawn by itself: a join table got the same pair twice."""
    rows = 5_000
    session.execute(f"{PARENTS}{ddl}".encode())
    table = read_table(session, "t")
    fill_source(session, table, rows, 1)
    # Few rows could differ by chance.
    distinct = f"SELECT count(DISTINCT ({', '.join(table.keys[0])})) FROM {SOURCE}"
    assert session.execute(distinct.encode()).fetchone() == (rows,)
    fill_table(session, table, rows)
    assert session.execute(b"SELECT count(*) FROM t").fetchone() == (rows,)


def test_as_many_parents_as_a_key_needs(session: Session) -> None:
    session.execute(
        f"{PARENTS} CREATE TABLE t (person int REFERENCES people, good int REFERENCES goods,"
        " also int UNIQUE REFERENCES people, PRIMARY KEY (person, good))".encode()
    )
    table = read_table(session, "t")
    assert [[key.columns for key in members] for members in paired(table)] == [
        [("also",)],
        [("person",), ("good",)],
    ]
    needed = needed_rows(table, 4_000_000)
    assert needed["people"] > 4_000_000
    assert 2_000 <= needed["goods"] < 2_100


def test_what_a_trigger_or_a_domain_fills_may_be_left_out(judge: Judge, session: Session) -> None:
    """The server checks NOT NULL after its triggers, so that the load works where it is done in earnest."""
    session.execute("""
        CREATE DOMAIN moment AS timestamptz DEFAULT now() NOT NULL;
        CREATE TABLE orders (id int PRIMARY KEY, changed timestamptz NOT NULL, made moment);
        CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS
          'BEGIN new.changed := now(); RETURN new; END';
        CREATE TRIGGER touch BEFORE INSERT OR UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION touch();
    """)
    file = judge.folder / "orders.csv"
    file.write_text("id\n1\n2\n")
    table = read_table(session, "orders")
    assert read_source(session, table, file) == 2
    session.execute(f"INSERT INTO orders (id) SELECT id FROM {SOURCE}".encode())
    session.execute(f"DROP TABLE {SOURCE}".encode())
    session.execute("ALTER TABLE orders DISABLE TRIGGER touch")
    with pytest.raises(WorkloadError, match='column "changed" of table orders is not in file'):
        read_source(session, table, file)


def test_values_of_a_list_may_hold_commas() -> None:
    assert _items("'Paris, France', 'O''Hare, (x', NULL, 7") == [
        "'Paris, France'",
        "'O''Hare, (x'",
        "NULL",
        "7",
    ]
