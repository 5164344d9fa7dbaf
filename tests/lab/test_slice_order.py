"""Orders of slices: every pass whole, predecessors and places even, always the same for a seed."""

from __future__ import annotations

from collections import Counter
from itertools import chain, pairwise

import pytest

from walproof.lab.slice_order import slice_orders

NAMES = "abcdefgh"
PASSES = 40


@pytest.mark.parametrize("seed", ["1/1", "1/2", "77/1"])
@pytest.mark.parametrize("count", [2, 3, 4, 5, 6, 8])
def test_predecessors_and_places_are_balanced(count: int, seed: str) -> None:
    names = NAMES[:count]
    orders = slice_orders(names, PASSES, seed)
    assert all(sorted(order) == list(names) for order in orders)
    followers = Counter(pairwise(chain.from_iterable(orders)))
    others = [followers[first, other] for first in names for other in names if first != other]
    # 40 passes of n slices are shared by n (n - 1) pairs; without a rule some would come twice as often.
    assert max(others) - min(others) <= 4
    places = Counter((name, place) for order in orders for place, name in enumerate(order))
    assert max(places[name, at] for name in names for at in range(count)) <= PASSES / count + 3
    assert min(places[name, at] for name in names for at in range(count)) >= PASSES / count - 3


def test_two_variants_follow_themselves_too() -> None:
    """Or each would have one predecessor, and its own effect could not be told from what it leaves."""
    orders = slice_orders("ab", PASSES, "1/1")
    followers = Counter(pairwise(chain.from_iterable(orders)))
    assert min(followers["a", "a"], followers["b", "b"]) >= 6


def test_an_order_depends_on_its_seed_alone() -> None:
    assert slice_orders("abc", 10, "1/1") == slice_orders("abc", 10, "1/1")
    assert slice_orders("abc", 10, "1/1") != slice_orders("abc", 10, "1/2")
    assert slice_orders("abc", 10, "1/1") == slice_orders("abc", 20, "1/1")[:10]


def test_orders_are_no_rhythm() -> None:
    """A rhythm could meet another one, of a background process."""
    orders = slice_orders("ab", PASSES, "1/1")
    for period in range(1, 9):
        assert any(order != other for order, other in zip(orders, orders[period:], strict=False)), period
