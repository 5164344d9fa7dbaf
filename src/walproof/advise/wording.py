"""How numbers read in a sentence: no more digits, and no more certainty, than the interval supports."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from walproof.analysis.effect import Conclusion, Effect
from walproof.analysis.interval import Interval
from walproof.sentences import say_list

VAGUE = 2.0
"""An interval whose ends differ by more than this factor has no centre that is worth a figure."""
OPEN = 1.25
"""Where intervals reach so far from 1, "no variant is measurably better" would sound like an answer."""

_SMALL = 0.1
"""Ratios below this would be 0.00 with two decimals."""
NOT_KNOWN = "not known yet"
"""Instead of an interval that says nothing."""
_NOTHING = 1e6
"""An interval that holds 1 and whose ends differ by this factor says nothing."""


def is_vague(interval: Interval) -> bool:
    """Whether next to nothing is known, because the ends are a factor of VAGUE or more apart."""
    return interval.low <= 0 or interval.high / interval.low > VAGUE


def say_conclusion(effect: Effect) -> str:
    """The conclusion in words: ``not known yet`` where no difference was seen and next to nothing is
    known."""
    holds_one = effect.conclusion is Conclusion.NO_DIFFERENCE
    if holds_one and effect.interval is not None and is_vague(effect.interval):
        return NOT_KNOWN
    return effect.conclusion.value


def is_unknown(interval: Interval) -> bool:
    """Whether an end is 0 or infinite, or so far away that its figures would only be long."""
    # A gate's first look asks for so high a level that few rounds reach beyond what a float holds.
    if interval.low <= 0 or math.isinf(interval.high):
        return True
    return interval.contains(1.0) and interval.high / interval.low >= _NOTHING


def reach_up(interval: Interval) -> float:
    """How far above 1 the interval reaches, as a factor."""
    return interval.high


def reach_down(interval: Interval) -> float:
    """How far below 1 it reaches, as a factor."""
    return 1 / interval.low if interval.low > 0 else math.inf


def reach_both(interval: Interval) -> float:
    """How far from 1 it reaches, as a factor."""
    return max(reach_up(interval), reach_down(interval))


def say_none(
    none: str,
    whether: str,
    found: Sequence[tuple[str, Interval | None]],
    reach: Callable[[Interval], float],
) -> str:
    """``none`` where that is an answer, and otherwise why ``whether`` is not known; nothing where nothing is
    compared. ``found``: names with the intervals of their ratios, None after one round."""
    if not found:
        return ""
    known = [(name, interval) for name, interval in found if interval is not None]
    if not known:
        return f"{whether} is not known from one round"
    widest, interval = max(known, key=lambda pair: reach(pair[1]))
    if reach(interval) >= OPEN:
        said = f"{whether} is {NOT_KNOWN}"
        if is_unknown(interval):
            return said
        ends = f"{say_ratio(interval.low, None)} to {say_ratio(interval.high, None)}"
        return f"{said}: {ends} fits what was measured ({widest})"
    single = [name for name, interval in found if interval is None]
    return f"{whether} is not known: one round only of {say_list(single)}" if single else none


def say_ratio(ratio: float, interval: Interval | None) -> str:
    """``3.9x (3.7 to 4.1)``; without an interval ``3.9x``; for a vague one its ends, ``0.29x to 1.70x``, or
    ``not known yet``. What is below 0.1 has two significant digits: ``0.0040x to 0.012x``."""
    if interval is None:
        if ratio < _SMALL:
            return f"{_part(ratio)}x"
        return f"{ratio:.2f}x" if ratio < 10 else f"{ratio:.1f}x"
    if is_vague(interval):
        return _say_ends(interval)
    centre, ends = _say_parts(ratio, interval)
    return f"{centre} ({ends})"


def say_ratio_in_brackets(ratio: float, interval: Interval) -> str:
    """``0.99x, 0.97 to 1.02``: the same for a place that is already in brackets."""
    return _say_ends(interval) if is_vague(interval) else ", ".join(_say_parts(ratio, interval))


def _say_ends(interval: Interval) -> str:
    if is_unknown(interval):
        return NOT_KNOWN
    return f"{_part(interval.low)}x to {_part(interval.high)}x"


def _say_parts(ratio: float, interval: Interval) -> tuple[str, str]:
    if min(ratio, interval.low) < _SMALL:
        return f"{_part(ratio)}x", f"{_part(interval.low)} to {_part(interval.high)}"
    digits = ratio_digits(interval)
    return f"{ratio:.{digits}f}x", f"{interval.low:.{digits}f} to {interval.high:.{digits}f}"


def _part(value: float) -> str:
    """A ratio, or an end of its interval, that stands by itself or beside one that is close to 0."""
    if 0 < value < _SMALL:
        return f"{value:.{1 - math.floor(math.log10(value))}f}"
    return f"{value:.2f}" if value < 10 else f"{value:.0f}"


def ratio_digits(interval: Interval) -> int:
    """How many decimals show the interval's width, and on which side of 1 its ends are."""
    width = interval.high - interval.low
    digits = 2 if width <= 0 else min(4, max(1, math.ceil(-math.log10(width))))
    # Two decimals at least near 1, where the second one is what people look at.
    digits = max(digits, 2 if interval.low < 2 else 1)
    while digits < 4 and any(end != 1 and round(end, digits) == 1 for end in (interval.low, interval.high)):
        digits += 1
    return digits
