"""What slices of servers that take turns say: one value of each variant from each start.

A start of a server is one draw of its memory layout and caches, which its slices share, so the start is the
unit: it has one value of each variant, and values are compared as those of rounds are
(:mod:`walproof.analysis.contrast`). Slices make the value sharper, in two steps that a bad second does not
move: from each slice the median of its pass is taken, which is what moves the machine from pass to pass; of
what is left the Hodges-Lehmann estimate over passes, the median of all means of two (Hodges and Lehmann,
"Estimates of Location Based on Rank Tests", Annals of Mathematical Statistics 34, 1963). Slices that end
nothing, or few transactions, are summed instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations_with_replacement
from statistics import fmean, median

from walproof.facts import Slice

Totals = Callable[[Slice], tuple[float, float]]

FEW = 20
"""Transactions of a usual slice below which slices are summed: the logarithm of a small count is coarse, and
its middle is not that of the mean."""


def levels(slices: Sequence[Slice], totals: Totals) -> Mapping[str, float]:
    """Variant -> its typical quotient of totals in a start; empty where none has any.

    From passes in which all variants have one. From the sums over all slices instead where a slice ended
    nothing, which has no logarithm: without its pass a variant that stood still would seem as fast as it is
    between. So, too, where a variant usually ends fewer than ``FEW`` transactions in a slice, or fewer than
    half of the passes have a quotient of each variant.
    """
    logs: dict[int, dict[str, float]] = {}
    variants = list(dict.fromkeys(slice_.variant for slice_ in slices))
    for slice_ in slices:
        above, below = totals(slice_)
        if above > 0 and below > 0:
            logs.setdefault(slice_.pass_number, {})[slice_.variant] = math.log(above / below)
    whole = [of_pass for of_pass in logs.values() if len(of_pass) == len(variants)]
    are_most = 2 * len(whole) >= len({slice_.pass_number for slice_ in slices})
    if not whole or not are_most or _are_few(slices):
        return _summed(slices, totals)
    middles = [median(of_pass.values()) for of_pass in whole]
    common = median(middles)
    found = {}
    for name in variants:
        left = [of_pass[name] - middle for of_pass, middle in zip(whole, middles, strict=True)]
        found[name] = math.exp(common + hodges_lehmann(left))
    return found


def hodges_lehmann(values: Sequence[float]) -> float:
    """The median of the means of all pairs, each value with itself among them. At least one value."""
    return median(fmean(pair) for pair in combinations_with_replacement(values, 2))


def _are_few(slices: Sequence[Slice]) -> bool:
    """Whether a slice ended nothing, or a variant usually ends too few transactions for logarithms."""
    counts: dict[str, list[int]] = {}
    for slice_ in slices:
        counts.setdefault(slice_.variant, []).append(slice_.transactions)
    return any(min(of_variant) == 0 or median(of_variant) < FEW for of_variant in counts.values())


def _summed(slices: Sequence[Slice], totals: Totals) -> dict[str, float]:
    sums: dict[str, tuple[float, float]] = {}
    for slice_ in slices:
        above, below = totals(slice_)
        first, second = sums.get(slice_.variant, (0.0, 0.0))
        sums[slice_.variant] = (first + above, second + below)
    return {name: above / below for name, (above, below) in sums.items() if above > 0 and below > 0}
