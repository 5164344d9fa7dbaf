"""How like the application's statements a load's are: rows and WAL records of a call, side by side.

Records rather than bytes are compared: a call writes equally many whenever it runs, while page images, and
with them most bytes, depend on the time since a checkpoint.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean, pvariance

from walproof.facts.drafted import (
    DraftedLoad,
    DraftedScript,
    DraftedStatement,
    TriedFigures,
    TriedTogether,
)
from walproof.facts.tried import TriedLoad, TriedScript, TriedStatement

_APART = 1.3
"""A ratio further from 1 is a difference, unless it may be chance or is as good as nothing."""
_CHANCE = 3.0
"""Standard errors."""
_NOTHING = 0.2
"""Of a row or a record."""


def with_try(drafted: DraftedLoad, tried: TriedLoad) -> DraftedLoad:
    """The load with what it did beside what the application did. A script is known by its file's name."""
    by_name = {script.name: script for script in tried.scripts}
    scripts = tuple(_script(script, by_name.get(script.file)) for script in drafted.scripts)
    return replace(
        drafted,
        scripts=scripts,
        tried=TriedTogether(tried.version, _together(scripts, "rows"), _together(scripts, "wal_records")),
        not_tried=None,
    )


def failures(tried: TriedLoad) -> Mapping[tuple[str, int], str]:
    """(script, place of its statement) -> why it failed, of failures whose statement is known."""
    return {
        (script.name, script.failed): script.error for script in tried.scripts
        if script.error is not None and script.failed is not None
    }  # fmt: skip


def _script(script: DraftedScript, tried: TriedScript | None) -> DraftedScript:
    statements = tuple(replace(each, tried=None) for each in script.statements)
    if tried is None:
        return replace(script, statements=statements, tried=None, error="the load's file does not name it")
    ran = [each for each in tried.statements if each.calls]
    if len(tried.statements) == len(statements):
        statements = tuple(
            replace(each, tried=_figures([each], [here]) if here.calls else None)
            for each, here in zip(statements, tried.statements, strict=True)
        )
    # Where somebody has added or removed statements, all of the script can still be compared.
    whole = _figures(statements, ran) if ran and tried.error is None else None
    return replace(script, statements=statements, tried=whole, error=tried.error)


def _figures(application: Sequence[DraftedStatement], here: Sequence[TriedStatement]) -> TriedFigures:
    """``application``: statements of a run, which ``here`` did."""
    rows = _sums([each.rows for each in here])
    records = _sums([each.wal_records for each in here])
    pruning = _sums([each.pruning_records for each in here])
    own = [count - less for count, less in zip(records, pruning, strict=True)]
    calls = min(each.calls for each in application)
    differs = []
    if _differs(sum(each.rows / each.calls for each in application), rows, calls):
        differs.append("rows")
    there = sum(each.wal_records / each.calls for each in application)
    # Whoever comes to a page first prunes it: what a statement has of that depends on what else runs.
    only_prunes = not differs and fmean(own) < _NOTHING
    if not only_prunes and all(_differs(there, each, calls) for each in (records, own)):
        differs.append("wal_records")
    return TriedFigures(
        len(rows),
        fmean(rows),
        fmean(records),
        fmean(pruning),
        fmean(_sums([each.wal_bytes for each in here])),
        tuple(differs),
    )


def _sums(columns: Sequence[Sequence[int]]) -> list[int]:
    """Of each run; the last one may have been cut after some of its statements."""
    return [sum(run) for run in zip(*columns, strict=False)]


def _differs(application: float, here: Sequence[int], calls: float) -> bool:
    """``here``: of each run; ``calls`` of the application vary as much."""
    mean = fmean(here)
    error = math.sqrt(pvariance(here, mean) * (1 / len(here) + 1 / max(1.0, calls)))
    is_apart = max(mean, application) > _APART * min(mean, application)
    return is_apart and abs(mean - application) > max(_NOTHING, _CHANCE * error)


def _together(scripts: Sequence[DraftedScript], figure: str) -> float | None:
    """Here relative to the application, over all calls of scripts that ran."""
    there = here = 0.0
    for script in scripts:
        if script.tried is not None:
            here += script.calls * getattr(script.tried, figure)
            there += script.calls * sum(getattr(each, figure) / each.calls for each in script.statements)
    return here / there if there else None
