"""Scripts of a load: which rows their statements find, and which they make."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tests.advise.workload.apps import (
    ID,
    ORDER,
    PARENTS,
    application,
    column,
    foreign,
    made,
    only_script,
    primary,
    statement,
    table,
)
from walproof.advise.workload.draft import draft


def test_texts_of_a_composite_key_are_not_cut() -> None:
    counters = table(
        "counters", column("day", "date", not_null=True, distinct=301.0),
        replace(column("page", "text", not_null=True, distinct=100.0), width_bytes=3),
        column("hits", "bigint"), rows=30_100, keys=(primary("day", "page"),),
    )  # fmt: skip
    found = made("INSERT INTO counters VALUES ($1, $2, $3)", tables=(counters,))
    assert "to_hex((1 + (i - 1) / 301)::bigint)" in found.files["schema.sql"]
    assert "to_hex(nextval('walproof_fresh')::bigint)" in only_script(found)


def test_a_text_that_is_too_short_for_a_key_makes_none() -> None:
    places = table(
        "places", column("country", "character(2)", not_null=True), rows=300, keys=(primary("country"),)
    )
    found = made("UPDATE places SET country = country WHERE country = $1", tables=(places,))
    assert "PRIMARY KEY" not in found.files["schema.sql"]
    assert "public.places: the key (country) is no unique key here." in found.notes


def test_a_smallint_of_a_key_is_new_above_the_rows_that_are_there() -> None:
    lines = table(
        "lines", column("parent", "bigint", not_null=True, distinct=-0.5),
        column("no", "smallint", not_null=True, distinct=2.0),
        keys=(primary("parent", "no"), foreign("parent", "public.parents")),
    )  # fmt: skip
    text = only_script(made("INSERT INTO lines VALUES ($1, $2), ($3, $4)", tables=(PARENTS, lines)))
    assert text.count("nextval('walproof_fresh') % 32764) % 32767)::smallint") == 2
    assert text.endswith("ON CONFLICT DO NOTHING;\n"), "a smallint begins again"


def test_what_a_key_has_beside_a_unique_column_stays_as_it_is() -> None:
    events = table(
        "events", ID, column("at", "timestamp with time zone", not_null=True, distinct=-0.5, correlation=1.0),
        keys=(primary("id", "at"),),
    )  # fmt: skip
    by_range = replace(events, kind="p", partitioned_by="r", partition_columns=("at",), partitions=4)
    found = made("INSERT INTO events (at) VALUES ($1)", tables=(by_range,))
    assert 'PARTITION BY RANGE ("at")' in found.files["schema.sql"]
    assert "1 + (i - 1) * 5000 / 10000" in found.files["schema.sql"]
    assert "+ 5000 * interval" in only_script(found)


def test_a_constant_of_no_known_type_leaves_the_statement_out() -> None:
    (left,) = made(
        "UPDATE parents SET id = id WHERE regexp_replace(name, $1, name) IS NULL", tables=(PARENTS,)
    ).left_out
    assert left.why == "of what type $1 is was not understood"


def test_rows_that_a_conflict_does_not_pass_over_are_new() -> None:
    insert = "INSERT INTO parents (id, name) VALUES ($1, $2), ($3, $4) ON CONFLICT DO NOTHING"
    for rows, fresh in ((2000.0, 2), (1990.0, 2), (500.0, 0)):
        found = draft(application((PARENTS,), statement(insert, rows=rows)), ORDER)
        assert only_script(found).count("nextval('walproof_fresh')") == fresh


@pytest.mark.parametrize(
    ("where", "ends"),
    [
        ("id BETWEEN $1 AND $2", "BETWEEN :v1::bigint AND (:v1::bigint + 3)"),
        ("id >= $1 AND id <= $2", ">= :v1::bigint AND id <= (:v1::bigint + 3)"),
        ("id >= $1 AND id < $2", ">= :v1::bigint AND id < (:v1::bigint + 4)"),
        ("id > $1 AND id < $2", "> :v1::bigint AND id < (:v1::bigint + 5)"),
        ("id > $1", "> 9996"),
        ("id >= $1", ">= 9997"),
        ("id <= $1", "<= 4"),
        ("id < $1", "< 5"),
    ],
)
def test_a_range_finds_as_many_rows_as_a_call_returned(where: str, ends: str) -> None:
    found = draft(
        application((PARENTS,), statement(f"SELECT * FROM parents WHERE {where}", rows=4000)), ORDER
    )
    assert ends in only_script(found)


def test_rows_of_a_list_are_different_ones() -> None:
    text = only_script(
        made(
            "UPDATE parents SET name = v.x FROM (VALUES ($1, $2), ($3, $4)) v(i, x) WHERE parents.id = v.i",
            tables=(PARENTS,),
        )
    )
    assert re.search(r"VALUES \(:v1::bigint, left\(.*\)\), \(:v3::bigint, left\(", text)


def test_other_columns_of_a_row_that_is_named_are_those_of_the_row() -> None:
    items = table(
        "items", column("kind", "integer", distinct=7.0), ID, column("parent", "bigint", distinct=-0.5),
        keys=(primary("id"), foreign("parent", "public.parents")),
    )  # fmt: skip
    query = "SELECT * FROM items WHERE (kind, id) IN (($1, $2), ($3, $4)) AND parent = $5"
    text = only_script(made(query, tables=(PARENTS, items)))
    assert text.count("random(") == 2
    pairs = re.findall(r"\(\(1 \+ \(:(v\d)::bigint[^:]*::integer, :(v\d)::bigint\)", text)
    assert pairs == [("v1", "v1"), ("v2", "v2")]
    assert "parent = (1 + (:v2::bigint * " in text


def test_a_range_beside_a_key_holds_its_row() -> None:
    query = "SELECT * FROM parents WHERE id = $1 AND {}"
    for where, ends in (("id < $2", "< 10001;"), ("id >= $2", ">= 1;")):
        assert only_script(made(query.format(where), tables=(PARENTS,))).endswith(f"{ends}\n")


def test_rows_that_point_to_rows_of_their_own_table_make_no_circle() -> None:
    """WITH RECURSIVE would never end."""
    scattered = column("id", "bigint", not_null=True, is_identity=False)
    for key in (ID, scattered):
        for size in (1.0, 250.0, -1.0):
            tree = table(
                "tree", key, column("parent", "bigint", distinct=size, correlation=1.0), rows=500,
                keys=(primary("id"), foreign("parent", "public.tree")),
            )  # fmt: skip
            found = made("SELECT * FROM tree WHERE id = $1", tables=(tree,))
            spaces = found.tables[0].spaces
            own, parent = spaces["id"], spaces["parent"]
            numbers = [
                (_at(own.number, i), None if _at(parent.is_root, i) else _at(parent.number, i))
                for i in range(1, 501)
            ]
            assert all(above is None or 1 <= above < number for number, above in numbers)
            assert sum(above is None for _, above in numbers) == 1
            assert f"CASE WHEN NOT {parent.is_root} THEN" in found.files["schema.sql"]


def test_a_row_that_has_to_have_a_parent_is_its_own() -> None:
    tree = table(
        "tree", ID, column("parent", "bigint", not_null=True, distinct=250.0, correlation=1.0), rows=500,
        keys=(primary("id"), foreign("parent", "public.tree")),
    )  # fmt: skip
    found = made("SELECT * FROM tree WHERE id = $1", tables=(tree,))
    assert "public.tree.parent points to the row itself in the first row." in found.notes
    assert "CASE" not in found.files["schema.sql"]


def _at(sql: str, i: int) -> int:
    """What the server makes of the SQL in row ``i``: whole numbers are divided toward zero."""
    text = re.sub(r"\bi\b", str(i), sql).replace(" = ", " == ").replace("greatest", "max").replace("/", "//")
    return int(eval(text))


def test_a_boolean_with_one_value_has_its_default() -> None:
    jobs = table(
        "jobs", ID, column("done", "boolean", not_null=True, default="false", distinct=1.0),
        keys=(primary("id"),),
    )  # fmt: skip
    found = made("UPDATE jobs SET done = $1 WHERE id = $2", tables=(jobs,))
    number = found.tables[0].spaces["done"].value("1")
    assert number == "(((1) + 1) % 2 = 1)"
    assert "SET done = (((2) + 1) % 2 = 1)" in only_script(found)


@pytest.mark.parametrize(
    ("type_", "default", "labels", "first", "other"),
    [
        ("smallint", "0", None, "(((1) + -1) % 32767)::smallint", "(((2) + -1) % 32767)::smallint"),
        ("integer", "'-1'::integer", None, "((1) + -2)::integer", "((2) + -2)::integer"),
        ("integer", "1", None, "1::integer", "2::integer"),
        ("state", "'new'::state", ("old", "new"), "(((1) + 1) - 1) % 2]", "(((2) + 1) - 1) % 2]"),
        ("text", "'it''s'::text", None, "CASE WHEN 1 = 1 THEN 'it''s' ELSE", "CASE WHEN 2 = 1 THEN"),
        ("integer", "nextval('s'::regclass)", None, "1::integer", "1::integer"),
        ("timestamp with time zone", "now()", None, "timestamptz", "timestamptz"),
    ],
)
def test_a_column_with_one_value_has_its_default(
    type_: str, default: str, labels: tuple[str, ...] | None, first: str, other: str
) -> None:
    """Partial indexes and queues are as full as the application's."""
    queue = table(
        "queue", ID, column("state", type_, not_null=True, default=default, distinct=1.0, labels=labels),
        keys=(primary("id"),),
    )  # fmt: skip
    found = made("UPDATE queue SET state = $1 WHERE id = $2", tables=(queue,))
    assert first in (found.tables[0].spaces["state"].value("1") or "")
    assert other in only_script(found).partition("WHERE")[0]


@pytest.mark.parametrize(
    ("query", "rows", "number"),
    [
        ("DELETE FROM queue WHERE state = $1", 1000, "2"),
        ("DELETE FROM queue WHERE state = $1", 10_000 * 1000, "1"),
        ("DELETE FROM queue WHERE state = $1 AND at < now()", 1000, "1"),
        ("SELECT * FROM queue WHERE state = $1", 1000, "1"),
    ],
)
def test_a_queue_is_not_emptied_by_its_first_call(query: str, rows: int, number: str) -> None:
    """A DELETE that took a row a call took those that had been set to another value."""
    queue = table(
        "queue", ID, column("state", "integer", not_null=True, default="0", distinct=1.0),
        column("at", "date"), keys=(primary("id"),),
    )  # fmt: skip
    found = draft(application((queue,), statement(query, rows=rows)), ORDER)
    assert f"state = (({number}) + -1)::integer" in only_script(found)


def test_rows_that_are_deleted_and_made_again_are_told() -> None:
    insert, delete = "INSERT INTO parents (name) VALUES ($1)", "DELETE FROM parents WHERE id = $1"
    note = "public.parents: DELETE draws from the rows of the start"
    assert any(each.startswith(note) for each in made(insert, delete, tables=(PARENTS,)).notes)
    assert not any(each.startswith(note) for each in made(delete, tables=(PARENTS,)).notes)


def test_the_head_says_how_many_rows_there_are() -> None:
    whole = draft(application((PARENTS,), statement("DELETE FROM parents WHERE id = $1")), ORDER)
    assert whole.files["schema.sql"].startswith("-- Tables of the load shop: all rows, with invented")
    part = draft(
        application((PARENTS,), statement("DELETE FROM parents WHERE id = $1")),
        replace(ORDER, most_bytes=500_000),
    )
    assert part.files["schema.sql"].startswith("-- Tables of the load shop: 50 % of the rows, with")


def test_a_row_that_conflicts_is_there_with_all_of_its_key() -> None:
    samples = table(
        "samples", column("device", "bigint", not_null=True, distinct=100.0),
        column("at", "timestamp with time zone", not_null=True, correlation=1.0), column("n", "integer"),
        keys=(primary("device", "at"),),
    )  # fmt: skip
    upsert = "INSERT INTO samples VALUES ($1, $2, $3) ON CONFLICT (device, at) DO UPDATE SET n = excluded.n"
    text = only_script(made(upsert, tables=(samples,)))
    assert re.search(r"VALUES \(\(?1 \+ \(:v1::bigint \* .*'2020-01-01 00:00\+00' \+ :v1::bigint \*", text)
