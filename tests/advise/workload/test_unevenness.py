"""What the statements of a load touch, as far as their images are asked about."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.advise.workload.apps import (
    ID,
    ORDER,
    application,
    baskets,
    column,
    foreign,
    of_tenants,
    primary,
    statement,
    table,
)
from walproof.advise.workload.draft import draft
from walproof.advise.workload.unevenness import Traffic
from walproof.analysis.working_set import Draws, Law
from walproof.facts.application import Application


def traffic(seen: Application) -> Traffic:
    """Of the load as it is drafted, whose scripts with two and three items are a transaction together."""
    first, *_ = draft(seen, ORDER).scripts.values()
    mean = [replace(each, times=max(1.0, each.statement.calls / 1000)) for each in first.members]
    made = replace(first, members=tuple(mean), calls=1000.0)
    return Traffic([made], {each.name: each for each in seen.tables}, 10.0)


@pytest.mark.parametrize(("name", "rows"), [("public.tenants", 1000.0), ("public.products", 2500.0)])
def test_a_row_that_the_order_has_locked_is_not_locked_by_its_items(name: str, rows: float) -> None:
    seen = of_tenants(baskets())
    locked = [
        family.changes_per_s * family.share
        for table in seen.tables
        for family in traffic(seen).families(table, {name: Draws(Law.ZIPF, 1.2)})
        if family.draws is not None and family.draws.law is Law.ZIPF
    ]
    assert locked == pytest.approx([rows / 10])


def test_entries_of_an_index_go_where_the_rows_are_that_they_point_to() -> None:
    customers = table("customers", ID, keys=(primary("id"),))
    orders = table(
        "orders", ID, column("customer", "bigint", not_null=True, distinct=500.0),
        keys=(primary("id"), foreign("customer", "public.customers")),
    )  # fmt: skip
    orders = replace(orders, index_pages=((("id",), 40), (("customer", "id"), 60)))
    seen = application((customers, orders), statement("INSERT INTO orders (customer) VALUES ($1)"))
    law = Draws(Law.ZIPF, 1.3, is_adjacent=True)
    index, heap = traffic(seen).families(orders, {"public.customers": law})
    assert (index.rows, index.pages, index.draws) == (orders.rows, 60, law)
    assert (heap.rows, heap.draws) == (customers.rows, law)
