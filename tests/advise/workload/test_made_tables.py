"""The tables of a draft: names, keys and indexes of applications that are set up in their own way."""

from __future__ import annotations

import math
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
from walproof.advise.workload.spaces import MadeTable, make_table
from walproof.facts.application import AppIndex, AppKey


def test_names_without_a_schema_are_found_as_the_application_finds_them() -> None:
    state = replace(
        column("state", "app.state", not_null=True, labels=("new", "paid", "lost"), distinct=2.0),
        usual=("lost", "paid"),
    )
    orders = table("orders", ID, state, keys=(replace(primary("id"), name="orders_key"),), schema="app")
    schema = made("UPDATE orders SET state = $1 WHERE id = $2", tables=(orders,)).files["schema.sql"]
    assert schema.count("CREATE SCHEMA") == 1
    assert 'ALTER DATABASE %I SET search_path = "app", "public"' in schema
    assert 'ADD CONSTRAINT "orders_key" PRIMARY KEY (id);' in schema
    # The type keeps its order; rows have the labels that are used.
    assert "CREATE TYPE app.state AS ENUM ('new', 'paid', 'lost');" in schema
    assert "(ARRAY['lost', 'paid', 'new'])[1 + " in schema
    assert "search_path" not in made("UPDATE parents SET name = $1", tables=(PARENTS,)).files["schema.sql"]


def test_a_key_is_known_and_the_number_of_values_is_an_estimate() -> None:
    """Both columns point to other tables, and pg_stats estimates too few pairs for the rows."""
    parts = [table(name, column("id", "integer", not_null=True), rows=rows, keys=(primary("id"),))
             for name, rows in (("products", 300), ("stores", 40))]  # fmt: skip
    stock = table(
        "stock", column("product", "integer", not_null=True, distinct=250.0),
        column("store", "integer", not_null=True, distinct=38.0), column("n", "integer"),
        rows=10_000,
        keys=(primary("product", "store"), foreign("product", "public.products"),
              foreign("store", "public.stores")),
    )  # fmt: skip
    query = "UPDATE stock SET n = n + 1 WHERE product = $1 AND store = $2"
    (of_stock,) = (
        each for each in made(query, tables=(stock, *parts)).tables if each.table.relation == "stock"
    )
    assert of_stock.lost_keys == ()
    pairs = {
        tuple(
            eval(of_stock.spaces[name].number.replace("/", "//"), {"i": i}) for name in ("product", "store")
        )
        for i in range(1, 10_001)
    }
    assert len(pairs) == 10_000
    assert max(product for product, _ in pairs) <= 300
    assert max(store for _, store in pairs) <= 40
    # More rows than pairs: then it is lost, and said.
    (crowded,) = (
        each for each in made(query, tables=(replace(stock, rows=13_000), *parts)).tables
        if each.table.relation == "stock"
    )  # fmt: skip
    assert crowded.lost_keys == (("product", "store"),)


@pytest.mark.parametrize(
    ("definition", "columns", "kept"),
    [
        ("USING gist (place, during)", ("place", "during"), 'CREATE INDEX b ON public.bookings ("place");'),
        ("USING gist (during)", ("during",), "CREATE INDEX b ON public.bookings USING gist (during);"),
        ("USING gin (tags)", ("tags",), "CREATE INDEX b ON public.bookings USING gin (tags);"),
        ("USING gin (tags, id)", ("id", "tags"), 'CREATE INDEX b ON public.bookings ("id");'),
        (
            "USING gist (note inet_ops)",
            ("note",),
            "CREATE INDEX b ON public.bookings USING gist (note inet_ops);",
        ),
        ("USING btree (place)", ("place",), "CREATE INDEX b ON public.bookings USING btree (place);"),
    ],
)
def test_an_index_that_needs_an_extension_is_a_btree(
    definition: str, columns: tuple[str, ...], kept: str
) -> None:
    index = AppIndex(f"CREATE INDEX b ON public.bookings {definition}", columns, False)
    bookings = table(
        "bookings", ID, column("place", "integer"), column("during", "tstzrange"), column("tags", "text[]"),
        column("note", "inet"),
        keys=(primary("id"),), indexes=(index,),
    )  # fmt: skip
    found = made("UPDATE bookings SET place = $1 WHERE id = $2", tables=(bookings,))
    assert kept in found.files["schema.sql"]
    assert any("needs an extension" in note for note in found.notes) == ("USING" not in kept)


SESSIONS = table(
    "sessions", ID, column("token", "text", not_null=True), column("expires", "timestamp with time zone"),
    column("day", "date"), keys=(primary("id"), AppKey("u", ("token",), "UNIQUE (token)")),
)  # fmt: skip


@pytest.mark.parametrize(
    ("query", "rows", "found"),
    [
        ("SELECT id FROM sessions WHERE token = $1 AND expires > now()", 1, "expires > ({} + 0 * {})"),
        ("DELETE FROM sessions WHERE now() > expires", 100, "({} + 101 * {}) > expires"),
        ("UPDATE sessions SET expires = now() WHERE expires >= LOCALTIMESTAMP AND id = $1", 1,
         "expires = CURRENT_TIMESTAMP WHERE expires >= ({}"),
        ("SELECT id FROM sessions WHERE expires > now() - interval $1", 5, "expires > ({} + 9995 * {})"),
    ],
)  # fmt: skip
def test_what_is_compared_with_now_is_compared_with_the_times_of_rows(
    query: str, rows: float, found: str
) -> None:
    draft_ = draft(application((SESSIONS,), statement(query, rows=1000 * rows)), ORDER)
    expected = found.format("timestamptz '2020-01-01 00:00+00'", "interval '1 second'")
    assert expected in only_script(draft_)
    assert "now()" not in only_script(draft_)


def test_a_day_of_now_is_a_day_of_the_rows() -> None:
    query = "SELECT id FROM sessions WHERE CURRENT_DATE = day"
    script = only_script(draft(application((SESSIONS,), statement(query)), ORDER))
    assert "CURRENT_DATE" not in script
    assert "date '2000-01-01' + " in script


def test_tables_of_pgbench_take_the_place_of_those_that_are_there() -> None:
    own = table("pgbench_accounts", ID, column("abalance", "integer"), keys=(primary("id"),))
    query = "UPDATE pgbench_accounts SET abalance = abalance + $1 WHERE id = $2"
    lines = made(query, tables=(own,)).files["schema.sql"].splitlines()
    dropped = lines.index(
        "DROP TABLE IF EXISTS pgbench_accounts, pgbench_branches, pgbench_history, pgbench_tellers;"
    )
    assert dropped < min(n for n, line in enumerate(lines) if line.startswith("CREATE"))
    query = "UPDATE mine.pgbench_accounts SET abalance = abalance + $1 WHERE id = $2"
    elsewhere = made(query, tables=(replace(own, schema="mine", name="mine.pgbench_accounts"),))
    assert "DROP" not in elsewhere.files["schema.sql"]
    assert "DROP" not in made("UPDATE parents SET name = $1", tables=(PARENTS,)).files["schema.sql"]


@pytest.mark.parametrize(
    ("type_", "labels", "usual", "shares", "counts"),
    [
        ("boolean", None, ("f", "t"), (0.9, 0.05), (53, 947)),
        ("boolean", None, ("t", "f"), (0.75, 0.25), (750, 250)),
        ("public.state", ("new", "paid", "lost"), ("lost", "new"), (0.8, 0.2), (800, 200)),
    ],
)
def test_labels_come_as_often_as_in_the_application(
    type_: str, labels: tuple[str, ...] | None, usual: tuple[str, ...], shares: tuple[float, ...],
    counts: tuple[int, ...],
) -> None:  # fmt: skip
    own = replace(
        column("state", type_, not_null=True, labels=labels, distinct=2.0), usual=usual, usual_shares=shares
    )
    found = make_table(table("t", ID, own, rows=1000, keys=(primary("id"),)), {}, 1.0)
    number = found.spaces["state"].number
    match = re.fullmatch(r"CASE WHEN i \* (\d+) % 1000 < (\d+) THEN 1 ELSE 2 END", number)
    assert match is not None, number
    first = sum(i * int(match[1]) % 1000 < int(match[2]) for i in range(1, 1001))
    assert (first, 1000 - first) == counts


def test_columns_tell_nothing_of_each_other() -> None:
    """As many pairs of values as there would be by chance, or more; with two columns, and with three."""
    columns = [
        column(name, "integer", distinct=size) for name, size in (("a", 200.0), ("b", 20.0), ("c", 10.0))
    ]
    found = make_table(table("t", ID, *columns, rows=20_000, keys=(primary("id"),)), {}, 1.0)
    rows = []
    for name in "abc":
        match = re.fullmatch(r"1 \+ \(i \* (\d+) % 20000\) \* (\d+) / 20000", found.spaces[name].number)
        assert match is not None
        rows.append([i * int(match[1]) % 20_000 * int(match[2]) // 20_000 for i in range(1, 20_001)])
    a, b, c = rows
    assert [len(set(each)) for each in rows] == [200, 20, 10]
    assert len(set(zip(a, b, strict=True))) > 3900
    assert len(set(zip(a, b, c, strict=True))) > 0.8 * 40_000 * (1 - math.exp(-0.5))


def test_values_that_rise_with_the_rows_do_so_also_where_each_row_has_its_own() -> None:
    """When a row was made, to the microsecond: an index on it grows at its end."""
    for distinct in (-1.0, 400.0):
        at = column("at", "timestamp with time zone", not_null=True, distinct=distinct, correlation=1.0)
        found = numbers(make_table(table("t", ID, at, rows=1000, keys=(primary("id"),)), {}, 1.0), "at")
        assert found == sorted(found)
        assert len(set(found)) == (1000 if distinct < 0 else 400)


def numbers(made_table: MadeTable, name: str) -> list[int]:
    """The column's number in each row, in order."""
    expression = compile(made_table.spaces[name].number.replace("/", "//"), name, "eval")
    return [eval(expression, {"i": i}) for i in range(1, made_table.rows + 1)]


def test_a_table_between_two_others_has_all_of_both() -> None:
    rooms = table("rooms", ID, rows=500, keys=(primary("id"),))
    people = table("people", ID, rows=5000, keys=(primary("id"),))
    members = table(
        "members",
        column("room", "bigint", not_null=True, distinct=500.0),
        column("person", "bigint", not_null=True, distinct=4000.0),
        rows=10_000,
        keys=(primary("room", "person"), foreign("room", "public.rooms"), foreign("person", "public.people")),
    )
    tables = {each.name: each for each in (rooms, people, members)}
    found = make_table(members, tables, 1.0)
    assert found.lost_keys == ()
    pairs = list(zip(*(numbers(found, name) for name in ("room", "person")), strict=True))
    assert len(set(pairs)) == 10_000
    assert {room for room, _ in pairs} == set(range(1, 501))
    assert len({person for _, person in pairs}) == 4000


def test_a_table_between_three_others_has_many_of_each() -> None:
    sizes = {"person": 5000, "product": 500, "role": 10}
    others = {name: table(f"{name}s", ID, rows=size, keys=(primary("id"),)) for name, size in sizes.items()}
    columns = [column(name, "bigint", not_null=True, distinct=float(size)) for name, size in sizes.items()]
    own = table(
        "grants",
        *columns,
        rows=10_000,
        keys=(primary(*sizes), *(foreign(name, f"public.{name}s") for name in sizes)),
    )
    found = make_table(own, {each.name: each for each in (*others.values(), own)}, 1.0)
    assert found.lost_keys == ()
    rows = [numbers(found, name) for name in sizes]
    assert len(set(zip(*rows, strict=True))) == 10_000
    assert [len(set(each)) for each in rows] == list(sizes.values())


def test_a_key_that_shares_a_column_with_another_is_given_up() -> None:
    columns = [column(name, "integer", not_null=True, distinct=100.0) for name in "abd"]
    keys = (primary("a", "b"), AppKey("u", ("b", "d"), "UNIQUE (b, d)"), AppKey("u", ("a", "b", "d"), ""))
    found = make_table(table("t", *columns, rows=5000, keys=keys), {}, 1.0)
    assert found.lost_keys == (("b", "d"),)
    assert len(set(zip(numbers(found, "a"), numbers(found, "b"), strict=True))) == 5000


def test_numbers_of_large_tables_are_bigints() -> None:
    rows = 2_000_000_000
    columns = [column(name, "bigint", not_null=True, distinct=500_000.0) for name in "abcd"]
    own = table("t", *columns, column("e", "integer", distinct=9.0), rows=rows, keys=(primary(*"abcd"),))
    found = make_table(own, {}, 1.0)
    for name in "abcde":
        factors = [int(each) for each in re.findall(r"\* (\d+)", found.spaces[name].number)]
        assert all(rows * factor < 2**63 for factor in factors), found.spaces[name].number


@pytest.mark.parametrize("key", ["uuid", "bigint"])
def test_statements_of_a_transaction_are_about_the_same_row(key: str) -> None:
    """Whether it is named by its key, by another unique column, or by a foreign key."""
    people = table(
        "people",
        column("id", key, not_null=True),
        column("mail", "text", not_null=True),
        column("org", "integer", distinct=30.0),
        keys=(primary("id"), AppKey("u", ("mail",), "UNIQUE (mail)")),
    )
    orders = table(
        "orders",
        column("id", "bigint", not_null=True, is_identity=True, correlation=1.0),
        column("person", key, not_null=True, distinct=5000.0),
        keys=(primary("id"), foreign("person", "public.people")),
    )
    text = only_script(
        made(
            "SELECT id FROM people WHERE id = $1 AND org = $2 FOR UPDATE",
            "INSERT INTO orders (person) VALUES ($1)",
            tables=(people, orders),
            commits=1000.0,
        )
    )
    assert text.count("\\set") == 1
    made_people = make_table(people, {people.name: people}, 1.0)
    id_, org = (made_people.spaces[name].number.replace("i", ":v1::bigint") for name in ("id", "org"))
    assert text.count(id_) == 2, text
    assert text.count(org) == 1, text


@pytest.mark.parametrize("distinct", [-0.5, None])
def test_a_key_over_a_smaller_table_has_rows_that_are_there(distinct: float | None) -> None:
    """People, some of whom are customers, and orders of those."""
    people = table("people", ID, rows=10_000, keys=(primary("id"),))
    customers = table(
        "customers", column("person_id", "bigint", not_null=True), column("note", "text"), rows=2000,
        keys=(primary("person_id"), foreign("person_id", "public.people")),
    )  # fmt: skip
    orders = table(
        "orders", ID, column("customer_id", "bigint", not_null=True, distinct=distinct),
        keys=(primary("id"), foreign("customer_id", "public.customers", "person_id")),
    )  # fmt: skip
    tables = {each.name: each for each in (people, customers, orders)}
    there = set(numbers(make_table(customers, tables, 1.0), "person_id"))
    assert there == set(range(1, 2001))
    assert set(numbers(make_table(orders, tables, 1.0), "customer_id")) <= there
    insert = "INSERT INTO orders (customer_id) VALUES ($1)"
    assert "random(1, 2000)\n" in only_script(made(insert, tables=tuple(tables.values())))
    text = only_script(
        made("SELECT id FROM people WHERE id = $1", insert, tables=tuple(tables.values()), commits=1000.0)
    )
    assert "random(1, 10000)\n" in text
    assert "random(1, 2000)\n" in text


@pytest.mark.parametrize("correlation", [0.0, 1.0])
def test_a_row_of_another_one_alone_is_made_where_that_one_is(correlation: float) -> None:
    """How many rows each table has is an estimate of its own: here more profiles than users."""
    users = table("users", ID, rows=5000, keys=(primary("id"),))
    owner = column("user_id", "bigint", not_null=True, correlation=correlation)
    keys = (primary("user_id"), foreign("user_id", "public.users"))
    profiles = table("profiles", owner, rows=5047, keys=keys)
    pictures = table(
        "pictures", owner, rows=5100,
        keys=(primary("user_id"), foreign("user_id", "public.profiles", "user_id")),
    )  # fmt: skip
    tables = {each.name: each for each in (users, profiles, pictures)}
    for each in (profiles, pictures):
        found = make_table(each, tables, 1.0)
        assert sorted(numbers(found, "user_id")) == list(range(1, 5001))
    # Where it need not have one, the rows for which none is left have none.
    guests = replace(profiles, columns=(replace(owner, not_null=False),), keys=(
        AppKey("u", ("user_id",), "UNIQUE (user_id)"), keys[1],
    ))  # fmt: skip
    found = make_table(guests, tables, 1.0)
    assert found.rows == 5047
    assert found.spaces["user_id"].is_root == "i > 5000"
    assert sorted(numbers(found, "user_id")[:5000]) == list(range(1, 5001))


def test_tables_that_point_to_each_other_have_as_many_rows() -> None:
    other = column("other", "bigint", not_null=True)
    tables = {
        f"public.{name}": table(
            name, other, rows=rows, keys=(primary("other"), foreign("other", f"public.{of}", "other"))
        )
        for name, of, rows in (("a", "b", 2000), ("b", "c", 1500), ("c", "a", 1800))
    }
    assert {make_table(each, tables, 1.0).rows for each in tables.values()} == {1500}


def test_where_null_may_stand_once_no_row_has_it() -> None:
    """UNIQUE NULLS NOT DISTINCT: rows that have another value each would be alike without it."""
    gone = column("gone", "timestamp with time zone", distinct=-0.1, null_share=0.9)
    names = ("tenant", "gone")
    for definition, is_null in (("UNIQUE NULLS NOT DISTINCT", False), ("UNIQUE", True)):
        key = AppKey("u", names, f"{definition} (tenant, gone)")
        own = table(
            "own", ID, column("tenant", "integer", distinct=50.0), gone, keys=(primary("id"), key)
        )  # fmt: skip
        schema = made("SELECT id FROM own WHERE id = $1", tables=(own,)).files["schema.sql"]
        assert ("% 1000 >= 900 THEN" in schema) is is_null


def test_a_unique_index_that_made_rows_would_break_is_a_plain_one_and_said() -> None:
    index = AppIndex(
        "CREATE INDEX one ON public.own USING btree (queue) WHERE active", ("queue",), False, was_unique=True
    )
    own = table("own", ID, column("queue", "bigint", distinct=5.0), keys=(primary("id"),), indexes=(index,))
    upsert = "INSERT INTO own (queue) VALUES ($1) ON CONFLICT (queue) WHERE active DO NOTHING"
    (left_out,) = made(upsert, tables=(own,)).left_out
    assert "its ON CONFLICT names a unique index that is a plain one here" in left_out.why
    found = made("UPDATE own SET queue = $1 WHERE id = $2", tables=(own,))
    assert f"{index.definition};" in found.files["schema.sql"]
    assert found.left_out == ()
    assert any("has a unique index that is a plain one here" in note for note in found.notes)


@pytest.mark.parametrize(
    ("type_", "definition", "is_here"),
    [
        ("public.hstore", "USING btree (((v OPERATOR(public.->) 'color'::text)))", False),
        ("numrange", "USING btree (lower(v))", False),
        ("cidr", "USING gist (id) WHERE (family(v) = 4)", False),
        ('"char"', "USING btree (id) WHERE (v = 'a'::\"char\")", False),
        ("text", "USING btree (id) WHERE (v OPERATOR(public.%) 'a'::text)", False),
        ("text", "USING btree (id) WHERE (v OPERATOR(pg_catalog.=) 'v'::text)", True),
        ("cidr", "USING btree (id) WHERE (id > length('v'::text))", True),
    ],
)
def test_an_index_over_what_is_bytes_here_is_left_out(type_: str, definition: str, is_here: bool) -> None:
    """Also where only its expression or its predicate names the column: bytea has no such operator."""
    index = AppIndex(f"CREATE INDEX x ON public.own {definition}", (), False)
    own = table("own", ID, column("v", type_), keys=(primary("id"),), indexes=(index,))
    found = made("DELETE FROM own WHERE id = $1", tables=(own,))
    assert (f"{index.definition};" in found.files["schema.sql"]) is is_here
    assert any("has an index that is not here" in note for note in found.notes) is not is_here


def test_a_column_that_is_made_of_what_is_bytes_here_is_filled() -> None:
    low = replace(column("low", "numeric", default="lower(v)"), is_generated=True)
    own = table("own", ID, column("v", "numrange"), low, keys=(primary("id"),))
    insert = "INSERT INTO own (id) VALUES ($1)"
    schema = made(insert, tables=(own,)).files["schema.sql"]
    assert "GENERATED ALWAYS" not in schema
    assert 'INSERT INTO public.own ("id", "v", "low")' in schema
    needed = replace(own, columns=(*own.columns[:2], replace(low, not_null=True)))
    (left,) = made(insert, tables=(needed,)).left_out
    assert left.why == "it gives no low, which is NOT NULL in public.own: its default lower(v) is not here"
