"""What a unique index says of the rows of its table."""

from __future__ import annotations

import pytest

from walproof.facts.application import AppColumn, AppIndex, AppKey
from walproof.observe.app_index import index_of

ROWS = 300_000
KEYS = (AppKey("f", ("customer",), "", "public.customers", ("id",)),)
PARTIAL = "CREATE UNIQUE INDEX u ON public.t USING btree ({}) WHERE active"


def column(name: str, distinct: float | None, null_share: float = 0.0) -> AppColumn:
    return AppColumn(
        name, "bigint", False, None, False, False, distinct=distinct, null_share=null_share
    )  # fmt: skip


def index(definition: str, *columns: AppColumn) -> AppIndex:
    names = tuple(each.name for each in columns)
    return index_of(
        definition.format(", ".join(names)), names, 0, columns, KEYS, is_unique=True, rows=ROWS
    )  # fmt: skip


@pytest.mark.parametrize(
    ("columns", "is_unique"),
    [
        ([column("queue", 5.0)], False),
        ([column("token", -1.0)], True),
        ([column("token", -0.1, null_share=0.9)], True),  # each row that has one has its own
        ([column("customer", 100_000.0)], False),
        ([column("customer", -0.6)], False),
        ([column("customer", None)], False),
        ([column("customer", -0.5, null_share=0.5)], True),
        ([column("tenant", 40.0), column("mail", -0.9)], True),
        ([column("tenant", 40.0), column("place", 20.0)], False),
        ([column("tenant", 40.0), column("place", None)], True),
    ],
)
def test_a_predicate_that_holds_few_rows_leaves_no_unique_key(
    columns: list[AppColumn], is_unique: bool
) -> None:
    """``(customer) WHERE active``: a customer has one subscription that is active, others that are not."""
    found = index(PARTIAL, *columns)
    assert (found.is_unique, found.was_unique) == (is_unique, not is_unique)
    assert found.definition.startswith("CREATE UNIQUE INDEX" if is_unique else "CREATE INDEX")


def test_a_unique_index_of_all_rows_is_one_whatever_the_estimate() -> None:
    found = index(PARTIAL.removesuffix(" WHERE active"), column("customer", 100_000.0))
    assert (found.is_unique, found.was_unique) == (True, False)
