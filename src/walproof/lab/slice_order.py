"""In which order the slices of a start come. Pure: a seed in, orders out.

Every pass holds each variant once. What a slice leaves behind reaches all other variants about equally often:
each pass is drawn among the orders that keep three tables nearly even: which variant follows which within
passes, which follows which from one pass to the next, and which stands at which place. Within a pass no
variant follows itself; from pass to pass one may, or two variants could only alternate, and each would have
one predecessor. (Williams, "Experimental designs balanced for the estimation of residual effects of
treatments", Australian Journal of Scientific Research A 2, 1949, has squares for passes that stand apart.)
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise, permutations
from math import factorial

_SLACK = 6.0
"""The unevenness accepted for orders that nobody can foretell: only the evenest would be a rhythm."""
_ALL_TRIED = 5
"""Up to so many variants all orders are weighed; with more, as many drawn ones."""


def slice_orders(variants: Sequence[str], passes: int, seed: str) -> tuple[tuple[str, ...], ...]:
    """The order of each pass: always the same for a seed."""
    draw = random.Random(seed)  # a text seeds the same on every machine
    seen: Counter[tuple[str, str, str]] = Counter()
    found: list[tuple[str, ...]] = []
    last: str | None = None
    for _ in range(passes):
        weighed = [
            (_unevenness(order, last, seen) + draw.uniform(0, _SLACK), order)
            for order in _candidates(variants, draw)
        ]
        _, best = min(weighed)
        seen.update(_events(best, last))
        found.append(best)
        last = best[-1]
    return tuple(found)


def _candidates(variants: Sequence[str], draw: random.Random) -> Iterator[tuple[str, ...]]:
    if len(variants) <= _ALL_TRIED:
        yield from permutations(variants)
        return
    for _ in range(factorial(_ALL_TRIED)):
        yield tuple(draw.sample(list(variants), len(variants)))


def _events(order: Sequence[str], last: str | None) -> list[tuple[str, str, str]]:
    """Table, row and column of everything that the order adds."""
    events = [("within", name, other) for name, other in pairwise(order)]
    events += [("place", name, str(place)) for place, name in enumerate(order)]
    if last is not None:
        events.append(("between", last, order[0]))
    return events


def _unevenness(order: Sequence[str], last: str | None, seen: Counter[tuple[str, str, str]]) -> int:
    """How much the order adds to the squares of all counts; the least if it adds to the rarest."""
    return sum(2 * seen[event] + 1 for event in _events(order, last))
