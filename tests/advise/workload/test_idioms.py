"""Statements as mappers, queues and reports write them, as they stand in a script."""

from __future__ import annotations

import pytest

from tests.advise.workload.apps import ORDER, application, column, primary, statement, table
from walproof.advise.workload.draft import draft
from walproof.facts.application import AppKey

DOC = table(
    "doc",
    column("id", "bigint", not_null=True, correlation=1.0),
    column("org", "integer", not_null=True, distinct=30.0),
    column("no", "integer", not_null=True),
    column("qty", "integer", distinct=100.0),
    column("at", "timestamp with time zone"),
    column("title", "text"),
    column("data", "jsonb"),
    column("tags", "text[]"),
    column("gone", "timestamp with time zone", null_share=1.0),
    column("parent", "bigint", null_share=0.25),
    keys=(primary("id"), AppKey("u", ("org", "no"), "UNIQUE (org, no)")),
)
LOG = table(
    "log",
    column("id", "bigint", not_null=True),
    column("doc", "bigint"),
    column("what", "text"),
    rows=1,
    keys=(primary("id"),),
)


def script(query: str, rows: float = 1.0) -> str:
    found = draft(application((DOC, LOG), statement(query, rows=1000.0 * rows)), ORDER)
    assert found.left_out == ()
    (name,) = found.scripts
    return found.files[name]


@pytest.mark.parametrize(
    ("query", "rows", "part"),
    [
        # A version and a state that are written back are found again.
        ("UPDATE doc SET qty = $1 WHERE id = $2 AND qty = $3", 1, 'AND qty = "qty";'),
        ("UPDATE doc SET qty = qty + $1 WHERE id = $2 AND qty = $3", 1, 'AND qty = "qty";'),
        # Few of these calls find their row, here as there.
        ("UPDATE doc SET qty = $1 WHERE id = $2 AND qty = $3", 0.1, "AND qty = (1 + "),
        # Several conditions are of one row.
        ("SELECT id FROM doc WHERE org = $1 AND qty = $2", 3, "\\set v1 random(1, 10000)\nSELECT"),
        ("SELECT id FROM doc WHERE org = $1 AND qty = $2", 0.1, "\\set v2 random(1, 100)\n"),
        # What is not wanted, or one of two, names no row.
        ("UPDATE doc SET qty = $1 WHERE id = $2 AND qty <> $3", 1, "AND qty <> :v3::bigint::integer"),
        ("UPDATE doc SET qty = $1 WHERE id = $2 AND NOT (qty = $3)", 1, "NOT (qty = :v3::bigint::integer"),
        ("UPDATE doc SET qty = $1 WHERE id = $2 OR qty = $3", 1, "OR qty = :v3::bigint::integer"),
        ("SELECT no FROM doc WHERE id IN ($1, $2)", 2, "IN (:v1::bigint, :v2::bigint)"),
        ("SELECT no FROM doc WHERE (id, org) <> ($1, $2) AND qty = $3", 9, "qty = :v"),
        ("SELECT no FROM doc WHERE (id, org) IN (($1, $2), ($3, $4)) AND qty = $5", 1, "qty = (1 + (:v2::"),
        ("UPDATE doc SET title = $1 WHERE id = $2 AND (org = $3 OR qty = $4)", 1, "OR qty = (1 + (:v2::"),
        ("SELECT no FROM doc WHERE id = $1 AND title LIKE $2", 1, "LIKE (left((left(md5((1 + (:v1::bigint"),
        # Rows of a list are different rows, and so are those of a table that is joined with itself.
        (
            "INSERT INTO doc (id, org, no) VALUES ($1, $2, $3), ($4, $5, $6) "
            "ON CONFLICT (org, no) DO UPDATE SET qty = excluded.qty",
            2,
            "\\set v2 random(1, 10000)\n",
        ),
        (
            "SELECT a.id FROM doc a JOIN doc b ON b.parent = a.id WHERE a.org = $1 AND b.qty = $2",
            9,
            "\\set v1 random(1, 30)\n\\set v2 random(1, 100)\n",
        ),
        # How many rows come is said by what is made of them.
        (
            "INSERT INTO doc (id, org, no) SELECT $1, $2, COALESCE(MAX(no), $3) + $4 FROM doc WHERE org = $5",
            1,
            "COALESCE(MAX(no), 1) + 1 FROM",
        ),
        ("INSERT INTO log (id, what) SELECT unnest($1::bigint[]), $2", 2, "unnest(ARRAY[nextval("),
        # A name is of the nearest statement.
        (
            "WITH u AS (UPDATE doc SET qty = qty + $1 WHERE id = $2 RETURNING id) "
            "INSERT INTO log (id, doc) SELECT $3, id FROM u",
            1,
            "\\set v1 random(1, 10000)\n",
        ),
        # A range beside a key passes its rows; one with a limit goes on anywhere.
        ("UPDATE doc SET qty = qty - $1 WHERE id = ANY($2) AND qty >= $3", 3, "qty >= 1::integer;"),
        ("SELECT id FROM doc WHERE id > $1 ORDER BY id LIMIT $2", 20, "\\set v1 random(1, 9980)\n"),
        ("DELETE FROM doc WHERE id IN (SELECT id FROM doc WHERE id < $1 LIMIT $2)", 9, "(:v1::bigint + 9)"),
        ("SELECT id FROM doc WHERE title > $1 ORDER BY title LIMIT $2", 5, "title > left(md5(9995::text)"),
        # Time that is added.
        ("UPDATE doc SET at = now() + (qty + $1) * interval $2 WHERE id = $3", 1, "(qty + 1) * interval"),
        ("UPDATE doc SET at = at + $1 * interval $2 WHERE id = $3", 1, "at + 1 * interval '1 second'"),
        ("UPDATE doc SET at = now() + ($1 || $2)::interval WHERE id = $3", 1, "('1' || ' second')::interval"),
        ("UPDATE doc SET at = at + make_interval(secs => $1) WHERE id = $2", 1, "secs => 1)"),
        # Texts, documents, arrays, sums.
        ("SELECT id FROM doc WHERE title::text LIKE $1", 5, "title::text LIKE (left("),
        ("SELECT id FROM doc WHERE upper(title::text) LIKE upper($1)", 5, "LIKE UPPER((left("),
        ("SELECT id FROM doc WHERE upper(title) = upper($1)", 1, "= UPPER(left(md5("),
        ("SELECT id FROM doc WHERE data->>$1 = $2", 5, "data->>'value' = '1'"),
        ("SELECT sum((data->>$1)::numeric) FROM doc WHERE org = $2", 1, "(data->>'1')::numeric"),
        ("UPDATE doc SET data = data - $1 WHERE id = $2", 1, "data - '1'::text"),
        ("SELECT id FROM doc WHERE $1 = ANY(tags)", 5, "'1' = ANY(tags)"),
        ("SELECT org FROM doc GROUP BY org HAVING count(*) > $1", 5, "count(*) > 1"),
        ("SELECT count(*) FROM (SELECT $1 AS one FROM doc WHERE org = $2 LIMIT $3) s", 1, "SELECT 1 AS one"),
        # NULL as often as rows have it.
        ("INSERT INTO doc (id, org, no, gone) VALUES ($1, $2, $3, $4)", 1, "NULL::timestamp with time zone)"),
        (
            "INSERT INTO doc (id, org, no, parent) VALUES ($1, $2, $3, $4)",
            1,
            " <= 250 THEN NULL::bigint ELSE ",
        ),
        ("UPDATE doc SET gone = $1 WHERE id = $2", 1, "SET gone = (timestamptz"),
    ],
)  # fmt: skip
def test_a_statement_stands_in_a_script(query: str, rows: float, part: str) -> None:
    assert part.casefold() in script(query, rows).casefold()


OWN = "UPDATE doc SET qty = $1 WHERE id = $2"


def test_the_check_of_a_foreign_key_is_no_statement_of_the_application() -> None:
    check = 'SELECT $2 FROM ONLY "public"."doc" x WHERE "id" OPERATOR(pg_catalog.=) $1 FOR KEY SHARE OF x'
    found = draft(application((DOC, LOG), statement(OWN), statement(check)), ORDER)
    assert found.left_out == ()
    assert found.calls_share == 1.0
    assert len(found.scripts) == 1


@pytest.mark.parametrize(
    "query",
    [
        'DELETE FROM ONLY "public"."log" WHERE $1 OPERATOR(pg_catalog.=) "doc"',
        'UPDATE ONLY "public"."log" SET "doc" = NULL WHERE $1 OPERATOR(pg_catalog.=) "doc"',
    ],
)
def test_what_a_foreign_key_changes_is_left_out(query: str) -> None:
    found = draft(application((DOC, LOG), statement(OWN), statement(query)), ORDER)
    assert [left.why for left in found.left_out] == ["a foreign key does it by itself (ON DELETE, ON UPDATE)"]
    assert found.calls_share == 0.5


def test_many_quoted_columns_take_no_time() -> None:
    """Patterns with two ways to read a quote would take years."""
    columns = ", ".join(f'"doc"."column_{n}"' for n in range(60))
    query = f'SELECT {columns} FROM "doc" WHERE "doc"."id" OPERATOR(pg_catalog.=) $1 AND "doc"."no" = $2'
    found = draft(application((DOC, LOG), statement(OWN), statement(query)), ORDER)
    assert len(found.scripts) + len(found.left_out) == 2


def test_more_values_than_pgbench_passes() -> None:
    rows = ", ".join(f"(${2 * n + 1}, ${2 * n + 2})" for n in range(200))
    found = draft(application((DOC, LOG), statement(f"INSERT INTO log (id, what) VALUES {rows}")), ORDER)
    assert len(found.scripts) == 1, "ids come from a sequence"
    asked = " OR ".join(f"no = ${n}" for n in range(2, 302))
    found = draft(application((DOC, LOG), statement(f"UPDATE doc SET qty = $1 WHERE {asked}")), ORDER)
    assert [left.why for left in found.left_out] == [
        "it has more than 255 values, which pgbench does not pass at once"
    ]
