"""What the statements of a load touch, as far as their images are asked about."""

from __future__ import annotations

from collections.abc import Sequence
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
from walproof.analysis.working_set import Counted, Draws, Law, Pages, fit
from walproof.facts.application import Application, CyclePart


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


def test_no_law_is_looked_for_twice_in_the_same_images(monkeypatch: pytest.MonkeyPatch) -> None:
    """Laws are found several times, because one depends on others: most do not change any more."""
    customers = table("customers", ID, column("n", "integer"), rows=100_000, keys=(primary("id"),))
    orders = table(
        "orders", ID, column("customer", "bigint", not_null=True, distinct=-0.2),
        keys=(primary("id"), foreign("customer", "public.customers")),
    )  # fmt: skip
    statements = [
        replace(statement(query, calls=calls), wal_fpi=images, wal_fpi_first_half=0.6 * images)
        for query, calls, images in (
            ("UPDATE customers SET n = n + $1 WHERE id = $2", 5000.0, 500.0),
            ("INSERT INTO orders (customer) VALUES ($1)", 4000.0, 300.0),
        )
    ]
    parts = (CyclePart(0.0, 5.0, 1.0, is_first_half=True), CyclePart(5.0, 5.0, 1.0))
    seen = replace(application((customers, orders), *statements, commits=9000.0), cycle_parts=parts)
    asked: list[tuple[tuple[Pages, ...], Counted]] = []

    def noted(families: Sequence[Pages], parts: Sequence[CyclePart], counted: Counted) -> Draws | None:
        asked.append((tuple(families), counted))
        return fit(families, parts, counted)

    monkeypatch.setattr("walproof.advise.workload.unevenness.fit", noted)
    laws = draft(seen, ORDER).laws
    assert laws["public.customers"].law is not Law.EVEN
    assert {counted for _, counted in asked} == {Counted(500.0, 300.0), Counted(300.0, 180.0)}
    assert len(asked) == len(set(asked))
