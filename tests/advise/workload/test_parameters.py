"""What parameters stand for, in the statements that applications and their drivers send."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.advise.workload.apps import column, table
from walproof.advise.workload.naming import Catalog, NoneOfIt, Unreadable
from walproof.advise.workload.parameters import ReadStatement, read_statement
from walproof.advise.workload.parts import Part

T = table(
    "t", column("id", "integer"), column("a", "text"), column("b", "numeric(10,2)"),
    column("at", "timestamp with time zone"), column("j", "jsonb"), column("tags", "text[]"),
)  # fmt: skip
U = table("u", column("id", "integer"), column("t", "integer"), column("Odd Name", "text"))
CATALOG = Catalog([T, U, table("t", column("x", "text"), schema="other")], ["audit"],
                  [("public", "best", "v"), ("other", "Sums", "m")])  # fmt: skip


def read(query: str) -> ReadStatement:
    return read_statement(query, CATALOG)


def parts(query: str) -> list[tuple[int, Part, str | None]]:
    found = read(query).parameters
    return sorted((each.number, each.part, each.column.name if each.column else None) for each in found)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("UPDATE t SET b = b + $1 WHERE id = $2", [(1, Part.ADDED, "b"), (2, Part.EQUAL, "id")]),
        ("UPDATE t SET a = coalesce($1, a) WHERE $2 = id", [(1, Part.ASSIGNED, "a"), (2, Part.EQUAL, "id")]),
        ("UPDATE t SET (a, b) = ($1, $2) WHERE id = $3",
         [(1, Part.ASSIGNED, "a"), (2, Part.ASSIGNED, "b"), (3, Part.EQUAL, "id")]),
        ("INSERT INTO t VALUES ($1, $2), ($3, $4)",
         [(1, Part.INSERTED, "id"), (2, Part.INSERTED, "a"), (3, Part.INSERTED, "id"),
          (4, Part.INSERTED, "a")]),
        ("INSERT INTO t (b, id) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET b = excluded.b + $3",
         [(1, Part.INSERTED, "b"), (2, Part.INSERTED, "id"), (3, Part.ADDED, "b")]),
        ("INSERT INTO t (id, a) SELECT id, $1 FROM u WHERE t = $2",
         [(1, Part.INSERTED, "a"), (2, Part.EQUAL, "t")]),
        ("SELECT * FROM t WHERE b BETWEEN $1 AND $2", [(1, Part.ABOVE, "b"), (2, Part.BELOW, "b")]),
        ("SELECT * FROM t WHERE $1 > id AND b >= $2", [(1, Part.BELOW, "id"), (2, Part.ABOVE, "b")]),
        ("SELECT * FROM t WHERE a LIKE $1 LIMIT $2 OFFSET $3",
         [(1, Part.LIKE, "a"), (2, Part.LIMIT, None), (3, Part.OFFSET, None)]),
        ("SELECT * FROM t x JOIN u y ON y.t = x.id WHERE y.id = $1", [(1, Part.EQUAL, "id")]),
        ('SELECT * FROM u WHERE "Odd Name" = $1', [(1, Part.EQUAL, "Odd Name")]),
        ("SELECT a FROM t WHERE $1 IS NULL OR a = $1", [(1, Part.EQUAL, "a")]),
        ("DELETE FROM t WHERE id = (SELECT id FROM t WHERE a = $1 LIMIT $2 FOR UPDATE SKIP LOCKED)",
         [(1, Part.EQUAL, "a"), (2, Part.LIMIT, None)]),
        ("WITH d AS (DELETE FROM t WHERE id = $1 RETURNING *) INSERT INTO u (id, t) SELECT id, $2 FROM d",
         [(1, Part.EQUAL, "id"), (2, Part.INSERTED, "t")]),
        ("MERGE INTO t USING u ON t.id = u.t WHEN MATCHED THEN UPDATE SET a = $1 "
         "WHEN NOT MATCHED THEN INSERT (id, a) VALUES ($2, $3)",
         [(1, Part.ASSIGNED, "a"), (2, Part.INSERTED, "id"), (3, Part.INSERTED, "a")]),
        ("UPDATE t SET a = v.x FROM (VALUES ($1, $2), ($3, $4)) v(i, x) WHERE t.id = v.i",
         [(1, Part.EQUAL, "id"), (2, Part.ASSIGNED, "a"), (3, Part.EQUAL, "id"), (4, Part.ASSIGNED, "a")]),
        ("WITH v (i, x) AS (VALUES ($1, $2)) UPDATE t SET b = b + v.x FROM v WHERE t.id = v.i",
         [(1, Part.EQUAL, "id"), (2, Part.ADDED, "b")]),
        ("UPDATE t SET a = v.x FROM unnest($1::int[], $2::text[]) v(i, x) WHERE t.id = v.i",
         [(1, Part.EQUAL, "id"), (2, Part.ASSIGNED, "a")]),
        ("MERGE INTO t USING (VALUES ($1, $2)) v(i, x) ON t.id = v.i WHEN MATCHED THEN UPDATE SET a = v.x "
         "WHEN NOT MATCHED THEN INSERT (id, a) VALUES (v.i, v.x)",
         [(1, Part.EQUAL, "id"), (2, Part.ASSIGNED, "a")]),
        ("DELETE FROM t WHERE (id, a) IN (($1, $2), ($3, $4))",
         [(1, Part.EQUAL, "id"), (2, Part.EQUAL, "a"), (3, Part.EQUAL, "id"), (4, Part.EQUAL, "a")]),
        ("SELECT * FROM t WHERE (at, id) > ($1, $2)", [(1, Part.ABOVE, "at"), (2, Part.ABOVE, "id")]),
        ("SELECT * FROM t WHERE j @> $1 AND id < $2", [(1, Part.EQUAL, "j"), (2, Part.BELOW, "id")]),
        ("SELECT $1 FROM t WHERE id = $2 FOR UPDATE", [(1, Part.CONSTANT, None), (2, Part.EQUAL, "id")]),
    ],
)  # fmt: skip
def test_each_parameter_has_its_part(query: str, expected: list[tuple[int, Part, str | None]]) -> None:
    assert parts(query) == expected
    assert read(query).query == query


@pytest.mark.parametrize(
    "query", ["SELECT * FROM t WHERE id = ANY($1::int[])", "DELETE FROM t WHERE id IN ($1 /*, ... */)"]
)
def test_a_list_is_known_for_one(query: str) -> None:
    (parameter,) = read(query).parameters
    assert parameter.is_list
    assert parameter.column is T.columns[0]


@pytest.mark.parametrize(
    ("query", "written"),
    [
        ("UPDATE t SET a = $1 WHERE id = md5($2 || $3)::int", "UPDATE t SET a = $1 WHERE id = $2"),
        ("UPDATE t SET j = jsonb_set(j, $1, $2) WHERE id = $3", "UPDATE t SET j = $1 WHERE id = $3"),
        ("INSERT INTO t (id, tags) VALUES (nextval($1), ARRAY[$2, $3])",
         "INSERT INTO t (id, tags) VALUES ($1, $2)"),
        ("DELETE FROM t WHERE at < now() - interval $1", "DELETE FROM t WHERE at < $1"),
        ("INSERT INTO t (id, a) VALUES ($1, repeat(md5(random()::text), $2))",
         "INSERT INTO t (id, a) VALUES ($1, $2)"),
    ],
)  # fmt: skip
def test_a_value_that_is_computed_stands_as_one_parameter(query: str, written: str) -> None:
    assert read(query).query == written


@pytest.mark.parametrize(
    ("query", "written"),
    [
        ("UPDATE t SET at = now() + interval $1 WHERE id = $2",
         "UPDATE t SET at = now() + $1::interval WHERE id = $2"),
        ("UPDATE t SET at = timestamp  with time zone $1", "UPDATE t SET at = $1::timestamp with time zone"),
        ("UPDATE t SET at = at + INTERVAL $1 day", "UPDATE t SET at = at + $1::interval day"),
        ("SELECT time FROM t AS date WHERE id = $1", "SELECT time FROM t AS date WHERE id = $1"),
    ],
)  # fmt: skip
def test_a_typed_literal_becomes_a_cast(query: str, written: str) -> None:
    with suppress(Unreadable):
        assert read(query).query == written


@pytest.mark.parametrize(
    ("query", "literals"),
    [
        ("SELECT extract($1 FROM now() - at) FROM t", ["'epoch'"]),
        ("SELECT date_trunc($1, at), to_char(at, $2) FROM t", ["'day'", "'YYYY-MM-DD'"]),
        ("SELECT count($1), sum(CASE WHEN a = b THEN $2 ELSE $3 END) FROM t", ["1", "1", "1"]),
        ("SELECT coalesce(sum(b), $1), coalesce(a, $2) FROM t", ["1", "'1'"]),
        ("SELECT a || $1, now() - at + $2, b * $3 FROM t", ["'1'", "interval '1 second'", "1"]),
        ("SELECT j -> $1, to_tsvector($2, a) FROM t", ["'value'", "'simple'"]),
        ("SELECT id FROM t WHERE $1 = $2 AND EXISTS (SELECT $3 FROM u)", ["1", "1", "1"]),
        ("WITH x AS (SELECT $1 AS k, id FROM t) SELECT * FROM x", [None]),
        ("SELECT regexp_replace(a, $1, a) FROM t ORDER BY $2", [None, None]),
        ("MERGE INTO t USING (VALUES ($1, $2)) v(i, x) ON t.id = v.i WHEN MATCHED THEN DO NOTHING",
         [None, None]),
    ],
)  # fmt: skip
def test_a_constant_is_what_stands_around_it(query: str, literals: list[str | None]) -> None:
    found = sorted(read(query).parameters, key=lambda each: each.number)
    assert [each.literal for each in found] == literals


def test_what_conflicts_is_changed_or_passed_over() -> None:
    passed = read("INSERT INTO t (id) VALUES ($1), ($2) ON CONFLICT DO NOTHING")
    assert (passed.has_conflict, passed.passes_over, passed.tuples) == (True, True, 2)
    changed = read("INSERT INTO t (id) VALUES ($1) ON CONFLICT (id) DO UPDATE SET a = excluded.a")
    assert (changed.has_conflict, changed.passes_over, changed.tuples) == (True, False, 1)


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("DELETE FROM t WHERE length(a) > $1", "what $1 is compared with was not understood"),
        ("DELETE FROM t WHERE now() - at > interval $1", "what $1 is compared with was not understood"),
        ("SELECT $1", "it has no table"),
        ("SELECT audit($1, $2)", "it calls audit, a function of the database"),
        ("TRUNCATE t", "it is no SELECT, INSERT, UPDATE, DELETE or MERGE"),
        ("SELECT * FROM nothing WHERE id = $1", "nothing is no table that was read"),
        ("SELECT * FROM best b WHERE id = $1", "best is a view, which a load has none of"),
        ('SELECT * FROM other."Sums"', 'other."Sums" is a materialised view, which a load has none of'),
        ("SELECT * FROM public.sums s", "public.sums is no table that was read"),
        ("SELECT audit($1) FROM t", "it calls audit, a function of the database"),
        ("SELECT ext.max(a) FROM t", "it calls max, a function of the database"),
        ("UPDATE t SET a = pg_read_file($1)", "it calls pg_read_file, which acts on the server"),
        ("SELECT lo_export($1, $2) FROM t", "it calls lo_export, which acts on the server"),
        ("SELECT lowrite($1, $2) FROM t", "it calls lowrite, which acts on the server"),
        ("SELECT * FROM t, ts_stat(t.a)", "it calls ts_stat, which acts on the server"),
        (
            "SELECT ts_rewrite($1, enum_first(a)::text) FROM t",
            "it calls ts_rewrite, which acts on the server",
        ),
        ('SELECT U&"pg\\005fread_file"(a) FROM t', "it has a name that is written with escapes"),
        ('SELECT u&"\\0061" FROM t', "it has a name that is written with escapes"),
        ("SELECT * FROM t WHERE id = length(a || $1)", "the expression around $1 was not understood"),
        ("INSERT INTO t (nothing) VALUES ($1)", "its column nothing is not known"),
        ("SELECT FROM WHERE (", "its text was not understood"),
        ("SELECT 1; SELECT 2", "its text was not understood"),
        ("", "its text was not understood"),
    ],
)
def test_what_cannot_be_read_says_why(query: str, reason: str) -> None:
    with pytest.raises(Unreadable) as caught:
        read(query)
    assert str(caught.value) == reason


@pytest.mark.parametrize(
    "query", ["SELECT * FROM pg_class WHERE relname = $1", "SELECT pid FROM pg_catalog.pg_stat_activity"]
)
def test_what_reads_the_catalogs_is_none_of_the_application(query: str) -> None:
    with pytest.raises(NoneOfIt, match="it reads the server's own catalogs or statistics"):
        read(query)


def test_a_table_whose_name_begins_like_the_servers_own_is_the_applications() -> None:
    found = table("pg_search_documents", column("id", "integer"), column("content", "text"))
    catalog = Catalog([found])
    update = "UPDATE pg_search_documents SET content = $1 WHERE id = $2"
    assert read_statement(update, catalog).tables == (found,)
    with pytest.raises(NoneOfIt):
        read_statement("SELECT * FROM pg_catalog.pg_search_documents", catalog)


def test_a_table_without_a_schema_is_the_one_in_public() -> None:
    assert read("SELECT a FROM t").tables == (T,)
    assert read("SELECT x FROM other.t").tables[0].schema == "other"


def test_a_table_that_is_empty_is_none_where_another_of_its_name_has_rows() -> None:
    empty, used = table("x", column("a", "text"), rows=0), table("x", column("a", "text"), schema="app")
    assert read_statement("SELECT a FROM x", Catalog([empty, used])).tables == (used,)
    assert read_statement("SELECT a FROM public.x", Catalog([empty, used])).tables == (empty,)
    assert read_statement("SELECT a FROM x", Catalog([empty])).tables == (empty,)


def test_harmless_functions_of_the_server_stay() -> None:
    assert read("SELECT pg_advisory_xact_lock($1) FROM t WHERE id = $2").verb == "select"
    assert read("SELECT pg_notify($1, $2) FROM t").verb == "select"
    assert read("SELECT pg_catalog.max(a) FROM t").verb == "select"


WORDS = r"""
    SELECT|INSERT INTO|UPDATE|DELETE FROM|MERGE INTO|t|u|id|a|b|at|j|tags|(|)|,|$1|$2|$3|= ANY|IN|VALUES|SET
    |WHERE|FROM|=|+|BETWEEN|AND|LIKE|LIMIT|OFFSET|ON CONFLICT|DO UPDATE|RETURNING|WITH x AS|interval|::int[]
    |::text|now()|CASE WHEN|THEN|END|JOIN|ON|*|'|"|--|/*|*/|;|\|:"""


@given(st.lists(st.sampled_from([word.strip() for word in WORDS.split("|")]), max_size=30))
def test_any_words_are_read_or_refused(words: list[str]) -> None:
    with suppress(Unreadable):
        assert read(" ".join(words)).tables


@given(st.text(max_size=200))
def test_no_text_breaks_the_reader(text: str) -> None:
    with suppress(Unreadable):
        read(text)
