"""How what a configuration gives is written in reports."""

from __future__ import annotations

from walproof.advise.wording import is_vague
from walproof.analysis.interval import Interval
from walproof.analysis.tuning.ablation import PROVEN_P
from walproof.analysis.tuning.lines import ConfLine, LineVerdict
from walproof.report.numbers import ratio


def gained(value: float | None, interval: Interval | None, rounds: int) -> str:
    """``1.20x (1.15 to 1.26)``; ``1.01x (n = 2: too few to say)`` where the interval is vague and holds 1."""
    if value is None or interval is None or not (is_vague(interval) and interval.contains(1.0)):
        return ratio(value, interval)
    few = f"n = {rounds}: too few to say" if rounds else "too few to say"
    return f"{ratio(value)} ({few})"


def is_confirmed(line: ConfLine) -> bool:
    """Whether the gain that is shown with a line is one: of the final rounds, where these measured it."""
    if line.gain is not None and line.p is not None:
        return line.gain > 1 and line.p <= PROVEN_P
    return line.interval is None or line.interval.low > 1


def verdict_words(line: ConfLine) -> str:
    """``kept``; ``not proven here, out``. A line that a step proved is ``not confirmed`` where the gain that
    is shown with it, of later rounds, may be none; in no conf it is ``proven, but out``."""
    if line.verdict is LineVerdict.KEPT and not is_confirmed(line):
        if not line.in_conf:
            return "not confirmed, out"
        is_worse = line.interval is not None and line.interval.high < 1
        return "kept, but worse in the final rounds" if is_worse else "kept, not confirmed"
    if line.verdict is LineVerdict.KEPT and not line.in_conf:
        return "proven, but out"
    verdict = str(line.verdict.value)
    if line.verdict is LineVerdict.NOT_PROVEN:
        verdict += ", in" if line.in_conf else ", out"
    return verdict
