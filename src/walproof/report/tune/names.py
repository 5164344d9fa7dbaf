"""How what a configuration gives is written in reports."""

from __future__ import annotations

from walproof.advise.wording import is_vague
from walproof.analysis.interval import Interval
from walproof.analysis.tuning.lines import ConfLine, LineVerdict
from walproof.report.numbers import ratio


def gained(value: float | None, interval: Interval | None, rounds: int) -> str:
    """``1.20x (1.15 to 1.26)``; ``1.01x (n = 2: too few to say)`` where the interval is vague and holds 1."""
    if value is None or interval is None or not (is_vague(interval) and interval.contains(1.0)):
        return ratio(value, interval)
    few = f"n = {rounds}: too few to say" if rounds else "too few to say"
    return f"{ratio(value)} ({few})"


def verdict_words(line: ConfLine) -> str:
    """``kept``; ``not proven here, out``. A line that was proven in a step and is in no conf is ``proven, but
    out``, or ``not confirmed, out`` where the gain that is shown with it, of later rounds, may be none."""
    if line.verdict is LineVerdict.KEPT and not line.in_conf:
        is_open = line.interval is not None and line.interval.contains(1.0)
        return "not confirmed, out" if is_open else "proven, but out"
    verdict = str(line.verdict.value)
    if line.verdict is LineVerdict.NOT_PROVEN:
        verdict += ", in" if line.in_conf else ", out"
    return verdict
