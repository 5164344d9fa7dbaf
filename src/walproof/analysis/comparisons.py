"""Many comparisons without a baseline in common (the terms of a factorial): Holm's adjustment of p values.

Of twenty comparisons at the 95 % level, one shows a difference by chance. Holm (1979) keeps the chance of
any such false difference in the family at 5 %, whatever the dependence between the comparisons. Where that is
known, as among ratios to one baseline, :mod:`walproof.analysis.inference.family` asks for less.
"""

from __future__ import annotations

from collections.abc import Sequence


def adjust_p_values(p_values: Sequence[float | None]) -> tuple[float | None, ...]:
    """Holm-adjusted p values in the given order; None stays None and does not count in the family."""
    present = sorted((p, index) for index, p in enumerate(p_values) if p is not None)
    adjusted: list[float | None] = [None] * len(p_values)
    floor = 0.0
    for rank, (p, index) in enumerate(present):
        floor = max(floor, min(1.0, (len(present) - rank) * p))
        adjusted[index] = floor
    return tuple(adjusted)
