"""Statements that a transaction calls several times."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.advise.workload.apps import ID, column, foreign, primary, statement, table
from walproof.advise.workload.naming import Catalog
from walproof.advise.workload.parameters import read_statement
from walproof.advise.workload.repeats import with_repeats
from walproof.advise.workload.transactions import Member, Transaction, transactions
from walproof.advise.workload.turns import in_whole_turns, places_of
from walproof.facts.application import AppIndex, AppTable

ORDERS = table("orders", ID, column("who", "integer"), keys=(primary("id"),))
ITEMS = table(
    "items", ID, column("order_id", "bigint", not_null=True), column("product", "integer", null_share=0.5),
    keys=(primary("id"), foreign("order_id", "public.orders"), foreign("product", "public.products")),
    indexes=(
        AppIndex("CREATE INDEX i ON public.items USING btree (order_id)", ("order_id",), False),
        AppIndex("CREATE INDEX p ON public.items USING btree (product) WHERE x", ("product",), False),
        AppIndex("CREATE INDEX g ON public.items USING gin (tags)", ("tags",), False),
    ),
)  # fmt: skip
PRODUCTS = table("products", ID, column("stock", "integer"), keys=(primary("id"),))
CATALOG = Catalog([ORDERS, ITEMS, PRODUCTS])
ORDER, ITEM = "INSERT INTO orders (who) VALUES ($1)", "INSERT INTO items (order_id, product) VALUES ($1, $2)"
STOCK, BROWSE = (
    "UPDATE products SET stock = stock - $1 WHERE id = $2",
    "SELECT stock FROM products WHERE id = $1",
)
APART = 4.0
"""Records of an item, at least: its row, two indexes, a lock on its order. Its product may be NULL."""
ALONE = [[("insert", 1.0)], [("insert", 1.0)]]


def member(query: str, calls: float, records: float = 1.0) -> Member:
    row = replace(statement(query, calls), wal_records=records * calls)
    return Member(row, read_statement(row.query, CATALOG))


def found(commits: float | None, *members: Member) -> list[list[tuple[str, float]]]:
    """(verb, how often a run calls it) of the statements of each transaction."""
    made = with_repeats(transactions(members, 0, commits), commits)
    return [[(each.read.verb, round(each.times, 2)) for each in one.members] for one in made]


@pytest.mark.parametrize(
    ("means", "scripts"),
    [
        ((1.0, 2.0), [(1.0, (1, 2))]),
        ((1.0, 2.6), [(0.6, (1, 3)), (0.4, (1, 2))]),
        ((1.0, 1.99, 3.01), [(1.0, (1, 2, 3))]),
        ((1.0, 2.25, 5.75), [(0.25, (1, 3, 6)), (0.5, (1, 2, 6)), (0.25, (1, 2, 5))]),
        ((1.0, 2.5, 4.51), [(0.5, (1, 3, 5)), (0.5, (1, 2, 4))]),
    ],
)
def test_scripts_have_whole_turns_and_together_the_mean(
    means: tuple[float, ...], scripts: list[tuple[float, tuple[int, ...]]]
) -> None:
    members = tuple(replace(member(ITEM, 1000), times=times) for times in means)
    found = list(in_whole_turns(Transaction(members, 1000.0)))
    assert [tuple(each.times for each in one.members) for one in found] == [turns for _, turns in scripts]
    assert [one.calls for one in found] == pytest.approx([1000 * share for share, _ in scripts])


def test_neighbours_that_are_called_equally_often_take_turns() -> None:
    assert places_of([1, 3, 3, 1]) == [0, 1, 2, 1, 2, 1, 2, 3]
    assert places_of([1, 1, 2]) == [0, 1, 2, 2]
    assert places_of([]) == []


def test_items_go_where_the_order_is_inserted() -> None:
    members = (
        member(BROWSE, 5000, 0), member(ORDER, 1000, 2), member(ITEM, 2500, APART - 0.6),
        member(STOCK, 2500, 1),
    )  # fmt: skip
    assert found(6000, *members) == [
        [("select", 1.0)],
        [("insert", 1.0), ("insert", 2.5), ("update", 2.5)],
    ]


@pytest.mark.parametrize("records", [APART, APART - 0.25, APART + 0.3, APART - 0.95])
def test_items_that_lock_an_order_each_have_transactions_of_their_own(records: float) -> None:
    """Or that lock none of them, because something else has."""
    assert found(1000, member(ORDER, 1000, 2), member(ITEM, 2500, records)) == ALONE


@pytest.mark.parametrize("commits", [3500.0, 2300.0, None])
def test_as_many_commits_as_statements_are_as_many_transactions(commits: float | None) -> None:
    assert found(commits, member(ORDER, 1000, 2), member(ITEM, 2500, APART - 0.6)) == ALONE


@pytest.mark.parametrize(("calls", "spared"), [(1050, 0.05), (25_000, 0.9)])
def test_what_is_called_as_often_or_without_end_stands_alone(calls: float, spared: float) -> None:
    assert found(1000, member(ORDER, 1000, 2), member(ITEM, calls, APART - spared)) == ALONE


def of(*tables: AppTable, insert: str, calls: float, records: float) -> Member:
    """An INSERT of an application that has other tables."""
    row = replace(statement(insert, calls), wal_records=records * calls)
    return Member(row, read_statement(row.query, Catalog([ORDERS, PRODUCTS, *tables])))


def test_parts_of_items_come_after_the_items_and_what_goes_along() -> None:
    keys = (primary("id"), foreign("item", "public.items"))
    parts = table("parts", ID, column("item", "bigint", not_null=True), keys=keys)
    part = of(ITEMS, parts, insert="INSERT INTO parts (item) VALUES ($1)", calls=5000, records=2.5)
    members = (member(ORDER, 1000, 2), member(ITEM, 2500, APART - 0.6), member(STOCK, 2500, 1), part)
    assert found(1000, *members) == [[("insert", 1.0), ("insert", 2.5), ("update", 2.5), ("insert", 5.0)]]


@pytest.mark.parametrize(
    "conflict", ["ON CONFLICT DO NOTHING", "ON CONFLICT (id) DO UPDATE SET product = excluded.product"]
)
def test_an_upsert_tells_nothing(conflict: str) -> None:
    upsert = member(f"{ITEM} {conflict}", 2500, APART - 0.6)
    assert found(1000, member(ORDER, 1000, 2), upsert) == ALONE


@pytest.mark.parametrize("definition", ["DEFERRABLE INITIALLY DEFERRED", "NOT ENFORCED"])
def test_a_key_that_no_insert_checks_tells_nothing(definition: str) -> None:
    """A lock is spared that the order's tenant may have spared."""
    keys = (
        primary("id"), replace(foreign("order_id", "public.orders"), definition=definition),
        foreign("product", "public.products"),
    )  # fmt: skip
    product = column("product", "bigint", not_null=True)
    items = replace(ITEMS, keys=keys, columns=(*ITEMS.columns[:2], product))
    item = of(items, insert=ITEM, calls=2500, records=APART - 0.6)
    assert found(1000, member(ORDER, 1000, 2), item) == ALONE


def test_an_unlogged_table_tells_nothing() -> None:
    item = of(replace(ITEMS, is_unlogged=True), insert=ITEM, calls=2500, records=APART - 0.6)
    assert found(1000, member(ORDER, 1000, 2), item) == ALONE


def test_a_key_that_the_insert_does_not_name_is_no_lock() -> None:
    by = foreign("by", "public.products")
    more = replace(
        ITEMS, columns=(*ITEMS.columns, column("by", "bigint", not_null=True)), keys=(*ITEMS.keys, by)
    )
    named = ITEM.replace("product)", "by)")
    for insert, records in ((ITEM, APART - 0.6), (named, APART + 0.4)):
        assert (
            len(found(1000, member(ORDER, 1000, 2), of(more, insert=insert, calls=2500, records=records)))
            == 1
        )


def test_two_keys_to_one_table_may_be_of_one_row() -> None:
    """They count as one lock, or the other would look spared."""
    columns = (*ITEMS.columns[:2], *(column(name, "bigint", not_null=True) for name in ("product", "by")))
    keys = (*ITEMS.keys, foreign("by", "public.products"))
    more = replace(ITEMS, columns=columns, keys=keys)
    insert = "INSERT INTO items (order_id, product, by) VALUES ($1, $2, $3)"
    item = of(more, insert=insert, calls=2500, records=APART + 1)
    assert found(1000, member(ORDER, 1000, 2), item) == ALONE


@pytest.mark.parametrize(("records", "is_spared"), [(2.4, True), (3.0, False)])
def test_two_inserts_that_point_to_the_order_lock_it_once(records: float, is_spared: bool) -> None:
    """Together they write an item's three records and a move's two, and a lock of the order in some calls."""
    moves = table(
        "moves", ID, column("order_id", "bigint", not_null=True),
        keys=(primary("id"), foreign("order_id", "public.orders")),
    )  # fmt: skip
    move = of(ITEMS, moves, insert="INSERT INTO moves (order_id) VALUES ($1)", calls=2500, records=2)
    item = member(ITEM, 2500, 1 + records)
    made = found(1000, member(ORDER, 1000, 2), item, move)
    assert (len(made) == 1) is is_spared


@pytest.mark.parametrize(("in_orders", "records"), [(True, APART - 0.6), (False, APART + 0.4)])
def test_a_tenant_that_the_order_has_locked_is_not_locked_again(in_orders: bool, records: float) -> None:
    tenant, key = column("tenant", "bigint", not_null=True), foreign("tenant", "public.products")
    items = replace(ITEMS, columns=(*ITEMS.columns, tenant), keys=(*ITEMS.keys, key))
    orders = replace(ORDERS, columns=(*ORDERS.columns, tenant), keys=(*ORDERS.keys, key))
    catalog = Catalog([orders if in_orders else ORDERS, items, PRODUCTS])

    def read(query: str, calls: float, records: float) -> Member:
        row = replace(statement(query, calls), wal_records=records * calls)
        return Member(row, read_statement(row.query, catalog))

    order = "INSERT INTO orders (who, tenant) VALUES ($1, $2)" if in_orders else ORDER
    item = "INSERT INTO items (order_id, tenant) VALUES ($1, $2)"
    assert len(found(1000, read(order, 1000, 3), read(item, 2500, records))) == 1


@pytest.mark.parametrize(
    "first", ["UPDATE orders SET who = $1 WHERE id = $2", "SELECT who FROM orders WHERE id = $1 FOR UPDATE"]
)
def test_who_has_changed_the_order_does_not_lock_it(first: str) -> None:
    """Items are added to an order that was there before."""
    inner = Transaction((member(first, 2500, 1), member(ITEM, 2500, APART - 0.6)), 2500.0)
    alone = [inner, Transaction((member(ORDER, 1000, 2),), 1000.0)]
    assert with_repeats(alone, 1000) == alone


def test_an_insert_that_makes_several_rows_is_not_repeated() -> None:
    many = member("INSERT INTO items (order_id, product) VALUES ($1, $2), ($3, $4)", 2500, APART - 0.6)
    alone = [Transaction((many,), 2500.0), Transaction((member(ORDER, 1000, 2),), 1000.0)]
    assert with_repeats(alone, 1000) == alone
