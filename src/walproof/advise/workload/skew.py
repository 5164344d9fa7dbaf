"""Values that come unevenly among the rows that are there: whoever orders often has most orders.

What is drawn by a law (``unevenness.py``) was drawn by it before, so the rows of the start follow it, too, as
far as pg_stats says: it knows how often the most frequent values of a column come.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from scipy.optimize import brentq

from walproof.analysis.working_set import RANGE, Draws, Law
from walproof.facts.application import AppColumn

_UNLIKE = 0.1
"""Relative difference at which frequencies are of another law."""
_LEAST = 0.02
"""Share of the rows below which the frequencies may be chance."""


def of_rows(draws: Draws, values: int, shares: Sequence[float]) -> tuple[Draws, float]:
    """(law, share of the rows whose values came by it), while the others have all values equally often: such
    that the most frequent values have as many rows as ``shares`` says. That is the law by which rows are
    drawn; where it does not explain so much, a steeper one of its kind. Share 0 where nothing can be told."""
    count = len(shares)
    if draws.law is Law.EVEN or not 0 < count < values:
        return draws, 0.0
    wanted, even, by_law = sum(shares), count / values, _of_first(draws, count, values)
    if wanted >= by_law:
        return _steeper(draws, values, count, wanted), 1.0
    found = (wanted - even) / (by_law - even) if by_law > even else 0.0
    return draws, found if found >= _LEAST else 0.0


def shares_of(column: AppColumn) -> tuple[float, ...]:
    """Shares of the rows that are not NULL which the most frequent values have."""
    # Frequencies are of all rows, those with NULL included.
    return tuple(share / (1 - column.null_share) for share in column.usual_shares)


def law_of(values: int, shares: Sequence[float]) -> Draws | None:
    """The law under which the most frequent of the values have these shares of the rows, the largest first.

    Of each law the parameter is taken with which they have as much together; of the laws the one under which
    half of them are nearest to what they have. None where they are of neither law.
    """
    count = len(shares)
    if not 1 < count < values:
        return None
    wanted, half = sum(shares), count // 2
    found = []
    for law, (least, most) in RANGE.items():
        flattest = Draws(law, least)
        if _of_first(flattest, count, values) < wanted < _of_first(Draws(law, most), count, values):
            found.append(_steeper(flattest, values, count, wanted))
    wanted_first = sum(shares[:half])

    def apart(draws: Draws) -> float:
        return abs(_of_first(draws, half, values) / wanted_first - 1)

    best = min(found, key=apart, default=None)
    return None if best is None or apart(best) > _UNLIKE else best


def _steeper(draws: Draws, values: int, count: int, wanted: float) -> Draws:
    """The law of that kind under which the ``count`` likeliest values have so large a share."""
    most = RANGE[draws.law][1]

    def lacks(parameter: float) -> float:
        return wanted - _of_first(replace(draws, parameter=parameter), count, values)

    if lacks(most) >= 0:
        return replace(draws, parameter=most)
    return replace(draws, parameter=float(brentq(lacks, draws.parameter, most)))


def rank(draws: Draws, size: int, u: str) -> str:
    """SQL of a rank from 1 to ``size``, as pgbench would draw it for ``u``, SQL of a number between 0 and 1.

    Zipf's law is continued between whole numbers, and rounded: of the first rank that is 1.1 times its share
    at an exponent of 1.3. pgbench's exponential law is inverted as it is (src/bin/pgbench/pgbench.c,
    getExponentialRand).
    """
    if draws.law is Law.EXPONENTIAL:
        kept = -math.expm1(-draws.parameter)
        made = f"1 + floor({size} * -ln(1 - {kept:.12g} * {u}) / {draws.parameter:.12g})"
    else:
        first, last, power = _zipf(draws.parameter, size)
        made = f"round(power({first:.12g} - {first - last:.12g} * {u}, {1 / power:.12g}))"
    return f"greatest(1, least({size}, {made}))::bigint"


def _of_first(draws: Draws, count: int, values: int) -> float:
    """Share of the draws that the ``count`` likeliest of the values have."""
    if draws.law is Law.EXPONENTIAL:
        return math.expm1(-draws.parameter * count / values) / math.expm1(-draws.parameter)
    first, last, power = _zipf(draws.parameter, values)
    return float((first - (count + 0.5) ** power) / (first - last))


def _zipf(exponent: float, values: int) -> tuple[float, float, float]:
    """Antiderivative of ``x ** -exponent``, without its factor, at both ends; and its exponent."""
    power = 1 - exponent
    return 0.5**power, (values + 0.5) ** power, power
