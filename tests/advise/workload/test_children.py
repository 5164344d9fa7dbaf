"""Rows that point to a row which the same transaction has inserted."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tests.advise.workload.apps import (
    ID,
    application,
    baskets,
    column,
    foreign,
    of_tenants,
    primary,
    statement,
    table,
)
from walproof.advise.workload.draft import DraftOrder, draft
from walproof.facts.application import AppKey, AppTable

ORDER = DraftOrder("shop", 1 << 30, 20)
CUSTOMERS = table("customers", ID, column("name", "text"), keys=(primary("id"),))
ITEM = "INSERT INTO items (order_id, product) VALUES ($1, $2)"
PLACE = "INSERT INTO orders (customer, note) VALUES ($1, $2) RETURNING id"
NEW = "currval(pg_get_serial_sequence('public.orders', 'id'))"


def tables(
    key: str = "bigint", *item_keys: AppKey, default: str | None = None, is_identity: bool | None = None
) -> tuple[AppTable, ...]:
    counted = key == "bigint" if is_identity is None else is_identity
    id_ = ID if counted else column("id", key, not_null=True, default=default)
    orders = table(
        "orders", id_, column("customer", "bigint", not_null=True, distinct=-0.5), column("note", "text"),
        keys=(primary("id"), foreign("customer", "public.customers")),
    )  # fmt: skip
    items = table(
        "items", column("id", "bigint", not_null=True, is_identity=True, correlation=1.0),
        column("order_id", key, not_null=True, distinct=-0.3), column("product", "integer", distinct=100.0),
        rows=30_000, keys=(*(item_keys or (primary("id"),)), foreign("order_id", "public.orders")),
    )  # fmt: skip
    return CUSTOMERS, items, orders


def with_number(orders: AppTable, type_: str) -> AppTable:
    """The table with a second unique key."""
    number = column("number", type_, not_null=True)
    key = AppKey("u", ("number",), "UNIQUE (number)")
    return replace(orders, columns=(*orders.columns, number), keys=(*orders.keys, key))


def script_of(*queries: str, of: tuple[AppTable, ...], calls: float = 1000.0) -> str:
    """The statements as one transaction: there are as many commits as calls of each."""
    found = draft(application(of, *(statement(query, calls) for query in queries), commits=calls), ORDER)
    (name,) = found.scripts
    assert not found.left_out
    return found.files[name]


@pytest.mark.parametrize("queries", [(PLACE, ITEM), (ITEM, PLACE)])
def test_items_are_those_of_the_new_order(queries: tuple[str, ...]) -> None:
    """Whichever of the two was counted first."""
    text = script_of(*queries, of=tables())
    assert text.index("INSERT INTO orders") < text.index("INSERT INTO items")
    assert text.count(NEW) == 1
    assert f"VALUES (({NEW}), " in text
    # The customer is one of those that are there.
    assert re.search(r"INSERT INTO orders \(customer, note\) VALUES \(:v\d+::bigint, ", text)


def test_several_items_of_one_statement() -> None:
    text = script_of(
        PLACE, "INSERT INTO items (order_id, product) VALUES ($1, $2), ($3, $4), ($5, $6)", of=tables()
    )
    assert text.count(NEW) == 3


def test_items_of_an_array() -> None:
    query = "INSERT INTO items (order_id, product) SELECT unnest($1::bigint[]), unnest($2::int[])"
    text = script_of(PLACE, query, of=tables())
    assert f"ARRAY[({NEW})" in text


def test_a_key_that_the_application_makes_is_drawn_once() -> None:
    place = "INSERT INTO orders (id, customer, note) VALUES ($1, $2, $3)"
    text = script_of(place, ITEM, of=tables("uuid"))
    (drawn,) = re.findall(r"\\set (v\d+) random\(1000000000000, 9000000000000000000\)", text)
    assert text.count(f"md5(:{drawn}::bigint::text)::uuid") == 2
    # Alone it has no items, and a number of the sequence does.
    alone = script_of(place, of=tables("uuid"))
    assert "random(1000000000000" not in alone
    assert "nextval('walproof_fresh')" in alone


@pytest.mark.parametrize(
    "place",
    [
        "INSERT INTO orders (customer, note) SELECT id, $1 FROM customers WHERE id = $2",
        "INSERT INTO orders (customer, note) VALUES ($1, $2), ($3, $4)",
        "INSERT INTO orders (id, customer, note) VALUES ($1, $2, $3) ON CONFLICT (id) DO NOTHING",
    ],
)
def test_who_may_have_inserted_none_or_several_is_no_parent(place: str) -> None:
    text = script_of(place, ITEM, of=tables())
    assert "currval" not in text
    assert "random(1000000000000" not in text


def test_a_row_that_may_be_passed_over_is_no_parent() -> None:
    """Its number may be there already, so that nothing is inserted."""
    customers, items, orders = tables("uuid")
    numbered = with_number(orders, "smallint")
    place = "INSERT INTO orders (id, customer, number) VALUES ($1, $2, $3)"
    text = script_of(place, ITEM, of=(customers, items, numbered))
    assert "ON CONFLICT DO NOTHING" in text
    (drawn,) = re.findall(r"\\set (v\d+) random\(1000000000000", text)
    assert text.count(f":{drawn}::bigint") == 1


def test_a_tree_has_no_new_parent() -> None:
    comments = table(
        "comments", ID, column("parent", "bigint", distinct=-0.5), column("body", "text"),
        keys=(primary("id"), foreign("parent", "public.comments")),
    )  # fmt: skip
    text = script_of("INSERT INTO comments (parent, body) VALUES ($1, $2)", of=(comments,))
    assert "currval" not in text


def test_a_tree_with_likes_points_to_earlier_rows_still() -> None:
    comments = table(
        "comments", column("id", "uuid", not_null=True), column("parent", "uuid", distinct=-0.5),
        column("body", "text"), keys=(primary("id"), foreign("parent", "public.comments")),
    )  # fmt: skip
    likes = table(
        "likes", ID, column("comment", "uuid", not_null=True, distinct=-0.5),
        keys=(primary("id"), foreign("comment", "public.comments")),
    )  # fmt: skip
    text = script_of(
        "INSERT INTO comments (id, parent, body) VALUES ($1, $2, $3)",
        "INSERT INTO likes (comment) VALUES ($1)",
        of=(comments, likes),
    )
    (drawn,) = re.findall(r"\\set (v\d+) random\(1000000000000", text)
    assert text.count(f"md5(:{drawn}::bigint::text)::uuid") == 2


def test_a_later_insert_that_may_do_nothing_ends_what_is_known() -> None:
    customers, items, orders = tables()
    numbered = with_number(orders, "bigint")
    text = script_of(
        "INSERT INTO orders (customer, number) VALUES ($1, $2)",
        "INSERT INTO orders (customer, number) VALUES ($1, $2) ON CONFLICT (number) DO NOTHING",
        ITEM,
        of=(customers, items, numbered),
    )
    assert text.index("DO NOTHING") < text.index("INSERT INTO items")
    assert "currval" not in text


@pytest.mark.parametrize("key", ["bigint", "integer", "numeric"])
def test_a_number_that_the_application_makes_is_that_of_a_sequence_of_its_own(key: str) -> None:
    place = "INSERT INTO orders (id, customer, note) VALUES ($1, $2, $3)"
    of = tables(key, is_identity=False)
    found = draft(application(of, statement(place), statement(ITEM), commits=1000.0), ORDER)
    (text,) = (found.files[name] for name in found.scripts)
    (sequence,) = set(re.findall(r"nextval\('(walproof_fresh_\d+_\d+)'\)", text))
    assert text.count(f"currval('{sequence}')") == 1
    assert f"CREATE SEQUENCE {sequence} START 1000000000;" in found.files["schema.sql"]


@pytest.mark.parametrize(
    ("key", "is_drawn"),
    [
        ("text", True),
        ("character varying(26)", True),
        ("character(26)", True),
        ("character varying(8)", False),
    ],
)
def test_a_text_that_the_application_makes_is_drawn_where_it_has_room(key: str, is_drawn: bool) -> None:
    place = "INSERT INTO orders (id, customer, note) VALUES ($1, $2, $3)"
    text = script_of(place, ITEM, of=tables(key, is_identity=False))
    drawn = re.findall(r"\\set (v\d+) random\(1000000000000", text)
    assert bool(drawn) is is_drawn
    assert all(text.count(f":{name}::bigint") == 2 for name in drawn)
    assert ("nextval('walproof_fresh')" in text) is not is_drawn


@pytest.mark.parametrize(
    ("returning", "name"),
    [("id", "id"), ("orders.id AS order_no", "order_no"), ("*", "id"), ("note, id", "id")],
)
def test_a_key_that_the_server_makes_is_kept_from_its_answer(returning: str, name: str) -> None:
    place = f"INSERT INTO orders (customer, note) VALUES ($1, $2) RETURNING {returning}"
    text = script_of(
        place, ITEM, ITEM.replace("product", "id"), of=tables("uuid", default="gen_random_uuid()")
    )
    assert f"RETURNING {returning} \\gset new1_\n" in text
    assert text.count(f"(:new1_{name}::uuid, ") == 2


@pytest.mark.parametrize("key", ["character varying(8)", "smallint"])
def test_a_key_that_nothing_else_tells_is_kept_from_the_answer(key: str) -> None:
    place = "INSERT INTO orders (id, customer, note) VALUES ($1, $2, $3) RETURNING id"
    text = script_of(place, ITEM, of=tables(key, is_identity=False))
    is_sure = "ON CONFLICT DO NOTHING" not in text
    assert (r"RETURNING id \gset new1_" in text) is is_sure
    assert (f"(:new1_id::{key}, " in text) is is_sure
    assert is_sure is (key != "smallint"), "numbers of a smallint begin again"


@pytest.mark.parametrize("returning", ["", " RETURNING note", " RETURNING id, 1 + 1"])
def test_a_key_that_is_not_returned_is_not_known(returning: str) -> None:
    place = f"INSERT INTO orders (customer, note) VALUES ($1, $2){returning}"
    text = script_of(place, ITEM, of=tables("uuid", default="gen_random_uuid()"))
    assert "gset" not in text
    assert ":new" not in text


def test_several_keys_of_a_row_have_a_sequence_each() -> None:
    customers, items, orders = tables("bigint", is_identity=False)
    numbered = with_number(orders, "bigint")
    bills = table(
        "bills", ID, column("no", "bigint"), keys=(primary("id"), foreign("no", "public.orders", "number"))
    )
    text = script_of(
        "INSERT INTO orders (id, customer, number) VALUES ($1, $2, $3)",
        ITEM,
        "INSERT INTO bills (no) VALUES ($1)",
        of=(customers, items, numbered, bills),
    )
    sequences = re.findall(r"currval\('(walproof_fresh_\d+_\d+)'\)", text)
    assert len(set(sequences)) == len(sequences) == 2


def test_what_returns_within_another_statement_is_not_its_answer() -> None:
    place = (
        "WITH placed AS (INSERT INTO orders (customer, note) VALUES ($1, $2) RETURNING id) "
        "SELECT id, $3::int AS n FROM placed"
    )
    text = script_of(place, ITEM, of=tables("uuid", default="gen_random_uuid()"))
    assert "gset" not in text
    assert ":new" not in text


def test_items_one_by_one_are_in_scripts_that_differ_in_how_many() -> None:
    found = draft(baskets(), ORDER)
    assert [(len(each.members), each.calls) for each in found.scripts.values()] == [(3, 500.0), (3, 500.0)]
    more, fewer = (found.files[name] for name in found.scripts)
    for text, count in ((more, 3), (fewer, 2)):
        drawn = re.findall(rf"VALUES \({re.escape(f'({NEW})')}, (:v\d+)", text)
        assert len(drawn) == count
        assert re.findall(r"WHERE id = (:v\d+)", text) == drawn, "the stock is that of the item's product"
        assert len(set(drawn)) == count
    assert any("in the mean 2.5 of public.items" in note for note in found.notes)


def test_items_keep_the_tenant_of_their_order() -> None:
    """Each has a product of its own; the order has locked the tenant, so that items spare that lock, too."""
    found = draft(of_tenants(baskets()), ORDER)
    assert len(found.scripts) == 2
    for text in (found.files[name] for name in found.scripts):
        (tenant,) = re.findall(r"INSERT INTO orders \(tenant, note\) VALUES \((:v\d+)", text)
        items = re.findall(r"INSERT INTO items .*, (:v\d+)::bigint, (:v\d+)::bigint\);", text)
        assert len(items) in (2, 3)
        assert {of for of, _ in items} == {tenant}
        assert len({product for _, product in items}) == len(items)
