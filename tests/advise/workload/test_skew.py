"""Values that come unevenly in the rows of the start: as the law draws them and as pg_stats counts them."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from tests.advise.workload.apps import ID, ORDER, application, column, foreign, primary, statement, table
from walproof.advise.workload.draft import draft
from walproof.advise.workload.skew import law_of, of_rows, rank
from walproof.advise.workload.spaces import MadeTable, make_table, step_of
from walproof.analysis.working_set import Draws, Law, Pages, images
from walproof.facts.application import AppColumn, AppTable, CyclePart

ZIPF = Draws(Law.ZIPF, 1.2)
EXPONENTIAL = Draws(Law.EXPONENTIAL, 8.0)
ROWS, CUSTOMERS, KNOWN = 20_000, 1000, 100


def chances(draws: Draws, values: int) -> list[float]:
    """Chance of each rank, as pgbench draws it."""
    if draws.law is Law.ZIPF:
        weights = [k**-draws.parameter for k in range(1, values + 1)]
    else:
        weights = [math.exp(-draws.parameter * k / values) for k in range(values)]
    total = sum(weights)
    return [weight / total for weight in weights]


def compiled(sql: str) -> Callable[..., int]:
    """A number of SQL's, as a function of what it names; its own functions and casts are few."""
    case = re.fullmatch(r"CASE WHEN (.+) THEN (.+) ELSE (.+) END", sql)
    if case is not None:
        condition, yes, no = (compiled(part) for part in (f"({case[1]})", case[2], case[3]))
        return lambda **names: yes(**names) if condition(**names) else no(**names)
    # The server divides whole numbers as such: where a column's number is made of nothing else.
    is_whole = "power" not in sql and "ln(" not in sql
    whole = re.sub(r"::\w+", "", sql).replace("/", "//" if is_whole else "/")
    known = {"power": pow, "ln": math.log, "floor": math.floor, "greatest": max, "least": min, "round": round}
    code = compile(whole, sql, "eval")
    return lambda **names: int(eval(code, {"__builtins__": {}}, {**known, **names}))


@pytest.mark.parametrize("draws", [ZIPF, Draws(Law.ZIPF, 1.001), Draws(Law.ZIPF, 2.5), EXPONENTIAL])
def test_ranks_come_as_often_as_the_law_draws_them(draws: Draws) -> None:
    count = 20_000
    ranked = compiled(rank(draws, CUSTOMERS, "u"))
    made = Counter(ranked(u=(n + 0.5) / count) for n in range(count))
    assert min(made) >= 1
    assert max(made) <= CUSTOMERS
    wanted = chances(draws, CUSTOMERS)
    assert made[1] / count == pytest.approx(wanted[0], rel=0.15)
    for most in (10, 100, 500):
        found = sum(made[k] for k in range(1, most + 1)) / count
        assert found == pytest.approx(sum(wanted[:most]), rel=0.08), most


@pytest.mark.parametrize("draws", [ZIPF, EXPONENTIAL])
@pytest.mark.parametrize("share", [0.1, 0.5, 1.0])
def test_how_many_rows_came_by_the_law(draws: Draws, share: float) -> None:
    wanted = [share * chance + (1 - share) / CUSTOMERS for chance in chances(draws, CUSTOMERS)][:KNOWN]
    law, found = of_rows(draws, CUSTOMERS, wanted)
    assert law.parameter == pytest.approx(draws.parameter, rel=0.02)
    assert found == pytest.approx(share, rel=0.1)


def test_frequencies_that_tell_nothing() -> None:
    assert of_rows(ZIPF, CUSTOMERS, ())[1] == 0
    assert of_rows(ZIPF, 50, [0.02] * 50)[1] == 0
    assert of_rows(ZIPF, CUSTOMERS, [1.02 / CUSTOMERS] * 20)[1] == 0
    assert of_rows(Draws(), CUSTOMERS, [0.2, 0.1])[1] == 0


@pytest.mark.parametrize(
    ("draws", "values", "known"),
    [
        (ZIPF, 50_000, 100),
        (ZIPF, 50_000, 10),
        (Draws(Law.ZIPF, 1.05), 50_000, 100),
        (EXPONENTIAL, 1000, 100),
        (Draws(Law.EXPONENTIAL, 30.0), 5000, 100),
        (Draws(Law.EXPONENTIAL, 30.0), 1000, 100),
    ],
)
def test_frequencies_tell_the_law(draws: Draws, values: int, known: int) -> None:
    found = law_of(values, chances(draws, values)[:known])
    assert found is not None
    assert found.law is draws.law
    assert found.parameter == pytest.approx(draws.parameter, rel=0.03)


@pytest.mark.parametrize("shares", [(), (0.3,), (1 / CUSTOMERS,) * 20, (0.2,) * 5, (0.012,) * 50])
def test_frequencies_that_are_of_no_law(shares: tuple[float, ...]) -> None:
    assert law_of(CUSTOMERS, shares) is None


def test_rows_tell_a_steeper_law_than_images() -> None:
    """Images of a minute say 1.25, rows that are there 1.3; those who order often lie side by side."""
    customers = table("customers", ID, column("n", "integer"), rows=100_000, keys=(primary("id"),))
    parts = (CyclePart(0.0, 5.0, 1.0, is_first_half=True), CyclePart(5.0, 5.0, 1.0))
    own = replace(
        column("customer", "bigint", not_null=True, distinct=-0.2),
        usual_shares=tuple(chances(Draws(Law.ZIPF, 1.3), 100_000)[:KNOWN]),
    )  # fmt: skip
    orders = table("orders", ID, own, keys=(primary("id"), foreign("customer", "public.customers")))

    def laws(of: AppTable, draws: Draws, updates: float = 5000.0) -> Mapping[str, Draws]:
        # Some of the changes of its rows are locks of new orders, whose images count there.
        changes = updates + 5000
        heap = Pages(customers.rows, customers.heap_pages, changes / 10, share=updates / changes)
        counted = [images([heap], some, draws) for some in (parts, parts[:1])]
        update = replace(
            statement("UPDATE customers SET n = n + $1 WHERE id = $2", calls=updates),
            wal_fpi=counted[0], wal_fpi_first_half=counted[1],
        )  # fmt: skip
        insert = statement("INSERT INTO orders (customer) VALUES ($1)", calls=5000)
        seen = replace(application((customers, of), update, insert, commits=changes), cycle_parts=parts)
        return draft(seen, ORDER).laws

    flat = Draws(Law.ZIPF, 1.25, is_adjacent=True)
    told = laws(replace(orders, columns=(ID, replace(own, usual_shares=()))), flat)["public.customers"]
    assert told.parameter == pytest.approx(1.25, abs=0.03)
    found = laws(orders, flat)["public.customers"]
    assert (found.law, found.is_adjacent) == (Law.ZIPF, True)
    assert found.parameter == pytest.approx(1.3, rel=0.02)
    # Where most changes of customers come from elsewhere, these say how often each is changed.
    elsewhere = laws(orders, flat, updates=10_000.0)["public.customers"]
    assert elsewhere.parameter == pytest.approx(1.25, abs=0.03)
    # Where images say that all rows are changed equally often, whoever has most rows is not drawn most.
    even = laws(orders, Draws()).get("public.customers", Draws())
    assert even.law is Law.EVEN


@pytest.mark.parametrize(("flat", "steep"), [(1.05, 1.3), (3.0, 12.0)])
def test_rows_that_are_more_uneven_than_draws_tell_a_law_of_their_own(flat: float, steep: float) -> None:
    law = Law.ZIPF if flat < 2 else Law.EXPONENTIAL
    wanted = chances(Draws(law, steep), CUSTOMERS)[:KNOWN]
    found, share = of_rows(Draws(law, flat), CUSTOMERS, wanted)
    assert (found.law, share) == (law, 1.0)
    assert found.parameter == pytest.approx(steep, rel=0.03)


def shop(
    shares: tuple[float, ...], correlation: float = 0.0, key: AppColumn = ID
) -> tuple[AppTable, dict[str, AppTable]]:
    """(orders, all tables): an order has a foreign key to its customer."""
    customers = table("customers", key, rows=CUSTOMERS, keys=(primary("id"),))
    own = replace(
        column("customer", key.type, not_null=True, distinct=800.0),
        usual_shares=shares, correlation=correlation,
    )  # fmt: skip
    keys = (primary("id"), foreign("customer", "public.customers"))
    orders = table("orders", ID, own, rows=ROWS, keys=keys)
    return orders, {each.name: each for each in (customers, orders)}


def counts(made: MadeTable, name: str) -> Counter[int]:
    number = compiled(made.spaces[name].number)
    return Counter(number(i=i) for i in range(1, made.rows + 1))


@pytest.mark.parametrize("is_adjacent", [False, True])
@pytest.mark.parametrize("share", [0.4, 1.0])
def test_who_is_drawn_often_has_most_rows(share: float, is_adjacent: bool) -> None:
    draws = replace(ZIPF, is_adjacent=is_adjacent)
    wanted = [share * chance + (1 - share) / CUSTOMERS for chance in chances(draws, CUSTOMERS)]
    orders, tables = shop(tuple(wanted[:KNOWN]))
    found = make_table(orders, tables, 1.0, {"public.customers": draws})
    made = counts(found, "customer")
    assert set(made) <= set(range(1, CUSTOMERS + 1))
    hottest = 1 if is_adjacent else 1 + step_of(CUSTOMERS) % CUSTOMERS
    assert made.most_common(1)[0][0] == hottest
    top = sum(count for _, count in made.most_common(KNOWN)) / ROWS
    assert top == pytest.approx(sum(wanted[:KNOWN]), rel=0.1)
    # Whoever draws a customer as the scripts do finds as many orders as the application.
    drawn = sum(
        chance * made[k if is_adjacent else 1 + k * step_of(CUSTOMERS) % CUSTOMERS]
        for k, chance in enumerate(chances(draws, CUSTOMERS), start=1)
    )
    wanted_rows = sum(
        chance * ROWS * own for chance, own in zip(chances(draws, CUSTOMERS), wanted, strict=True)
    )
    assert drawn == pytest.approx(wanted_rows, rel=0.15)


def test_without_a_law_or_in_an_order_rows_are_even() -> None:
    shares = tuple(chances(ZIPF, CUSTOMERS)[:KNOWN])
    orders, tables = shop(shares)
    even = make_table(orders, tables, 1.0)
    assert max(counts(even, "customer").values()) < 2 * ROWS / 800
    assert make_table(orders, tables, 1.0, {"public.orders": ZIPF}) == even
    ordered, tables = shop(shares, correlation=0.99)
    assert make_table(ordered, tables, 1.0, {"public.customers": ZIPF}) == make_table(ordered, tables, 1.0)


def test_a_key_that_is_scattered_is_that_of_the_row_that_is_drawn() -> None:
    """Of uuids the first row has not the first number."""
    draws = replace(ZIPF, is_adjacent=True)
    key = column("id", "uuid", not_null=True)
    orders, tables = shop(tuple(chances(draws, CUSTOMERS)[:KNOWN]), key=key)
    laws = {"public.customers": draws}
    of_key = compiled(make_table(tables["public.customers"], tables, 1.0, laws).spaces["id"].number)
    assert of_key(i=1) != 1
    made = counts(make_table(orders, tables, 1.0, laws), "customer")
    assert [number for number, _ in made.most_common(3)] == [of_key(i=row) for row in (1, 2, 3)]


def test_rows_without_a_value_do_not_make_the_others_even() -> None:
    draws = replace(ZIPF, is_adjacent=True)
    wanted = chances(draws, CUSTOMERS)[:KNOWN]
    laws = {"public.customers": draws}
    orders, tables = shop(tuple(wanted))
    whole = make_table(orders, tables, 1.0, laws)
    half, tables = shop(tuple(share / 2 for share in wanted))
    columns = tuple(
        replace(each, not_null=False, null_share=0.5) if each.name == "customer" else each
        for each in half.columns
    )
    half = replace(half, columns=columns)
    found = make_table(half, {**tables, half.name: half}, 1.0, laws)
    assert found.spaces["customer"].number == whole.spaces["customer"].number


def test_a_key_that_leads_further_than_the_next_table_is_even() -> None:
    """Profiles of some users, and posts of those: a user who is drawn may have no profile."""
    users = table("users", ID, rows=CUSTOMERS, keys=(primary("id"),))
    profiles = table(
        "profiles", column("user_id", "bigint", not_null=True), rows=CUSTOMERS // 2,
        keys=(primary("user_id"), foreign("user_id", "public.users")),
    )  # fmt: skip
    own = replace(
        column("user_id", "bigint", not_null=True, distinct=400.0),
        usual_shares=tuple(chances(ZIPF, CUSTOMERS)[:KNOWN]),
    )
    keys = (primary("id"), foreign("user_id", "public.profiles", "user_id"))
    posts = table("posts", ID, own, rows=ROWS, keys=keys)
    tables = {each.name: each for each in (users, profiles, posts)}
    assert make_table(posts, tables, 1.0, {"public.users": ZIPF}) == make_table(posts, tables, 1.0)
