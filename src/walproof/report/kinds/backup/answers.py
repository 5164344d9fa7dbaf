"""The first sentences of a report on backups: their cost for the load, their time and their size."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from walproof.advise.wording import reach_down, reach_up, say_none
from walproof.analysis.effect import Conclusion, Effect
from walproof.analysis.summary import Analysis
from walproof.facts import Cell
from walproof.report.answer import Answer
from walproof.report.cells import Cells
from walproof.report.kinds.backup.tables import BACKUP_METRIC
from walproof.report.numbers import number, percent, ratio, size

KEPT, SIZE = "backup_tps_share", "backup_bytes"
_FEW = 2
"""Trials of which the report names each share."""


def backup_answers(cells: Cells, analyses: Mapping[str, Analysis]) -> tuple[Answer, ...]:
    """Two sentences per workload and install: about the baseline, and about what is measurably better.

    ``analyses``: metric -> its analysis, of BACKUP_METRIC, SIZE and KEPT.
    """
    found = []
    for install, workload in cells.groups():
        base = Cell(install, workload, cells.plan.baseline)
        if cells.median(base, BACKUP_METRIC) is None:
            sentences = [f"No trial of {base.variant} finished: there is no answer yet."]
        else:
            sentences = [_cost(cells, base, analyses[KEPT]), _back(cells, base, analyses)]
        found.append(Answer(cells.group_title(install, workload), tuple(sentences)))
    return tuple(found)


def _cost(cells: Cells, base: Cell, kept: Analysis) -> str:
    took = f"{number(cells.median(base, 'backup_s'))} s"
    share = cells.median(base, KEPT)
    if share is None:
        return f"With {base.variant} the backup took {took}, without a load beside it."
    shares = cells.values(base, KEPT)
    # The middle of two says less than both.
    ends = f" ({percent(min(shares))} and {percent(max(shares))})" if len(shares) == _FEW else ""
    kept_share = f"{percent(share)}{ends}"
    said = f"With {base.variant} the load kept {kept_share} of its throughput for the {took} of the backup"
    best = _best(kept, base, Conclusion.HIGHER, max)
    if best is None:
        found = [(effect.variant, effect.interval) for effect in _compared(kept, base)]
        none = say_none("with no variant measurably more", "whether a variant keeps more", found, reach_up)
        return f"{'; '.join(filter(None, (said, none)))}."
    lasted = number(cells.median(best.cell, "backup_s"))
    return f"{said}; with {best.variant} {ratio(best.ratio, best.interval)} of that, for {lasted} s."


def _back(cells: Cells, base: Cell, analyses: Mapping[str, Analysis]) -> str:
    back, large = cells.median(base, BACKUP_METRIC), cells.median(base, SIZE)
    parts = [f"A server is back {number(back)} s after the restore of its {size(large)} begins"]
    soonest = _best(analyses[BACKUP_METRIC], base, Conclusion.LOWER, min)
    if soonest is None:
        found = [(effect.variant, effect.interval) for effect in _compared(analyses[BACKUP_METRIC], base)]
        whether = "whether a variant is sooner"
        parts.append(say_none("with no variant measurably sooner", whether, found, reach_down))
    else:
        parts.append(f"with {soonest.variant} in {ratio(soonest.ratio, soonest.interval)} the time")
    smallest = _best(analyses[SIZE], base, Conclusion.LOWER, min)
    if smallest is not None:
        times = ratio(smallest.ratio, smallest.interval)
        parts.append(f"the smallest backup is that of {smallest.variant}, {times} the size")
    return f"{'; '.join(filter(None, parts))}."


def _best(
    analysis: Analysis, base: Cell, conclusion: Conclusion, choose: Callable[..., Effect]
) -> Effect | None:
    """Among the effects of that group with that conclusion, the one with the largest or smallest ratio."""
    found = [effect for effect in _compared(analysis, base) if effect.conclusion is conclusion]
    return choose(found, key=lambda effect: effect.ratio or 0.0) if found else None


def _compared(analysis: Analysis, base: Cell) -> list[Effect]:
    """The effects of that group that have a ratio and are not chance alone."""
    return [
        effect
        for effect in analysis.effects
        if effect.baseline == base and effect.ratio is not None and effect.conclusion is not Conclusion.SAME
    ]
