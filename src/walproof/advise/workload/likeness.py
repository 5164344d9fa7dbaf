"""How like the application's statements a load's are: rows and WAL records of a call, side by side.

Records rather than bytes are compared: a call writes equally many whenever it runs, while page images, and
with them most bytes, depend on the time since a checkpoint.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from statistics import fmean, variance

from walproof.advise.workload.turns import places_of
from walproof.facts.drafted import (
    DraftedLoad,
    DraftedScript,
    DraftedStatement,
    TriedFigures,
    TriedTogether,
)
from walproof.facts.tried import TriedLoad, TriedScript, TriedStatement
from walproof.sqltext import folded, tokens

_APART = 1.3
"""A ratio further from 1 is a difference, unless it may be chance or is as good as nothing."""
_CHANCE = 3.0
"""Standard errors."""
_NOTHING = 0.2
"""Of a row or a record."""
_RUNS_LEAST = 10
"""Fewer tell no difference."""
_BEFORE_TABLE = ("INTO", "UPDATE", "FROM")


def with_try(drafted: DraftedLoad, tried: TriedLoad) -> DraftedLoad:
    """The load with what it did beside what the application did. A script is known by its file's name; one
    that the draft did not have comes last, with no calls of the application."""
    by_name = {script.name: script for script in tried.scripts}
    known = [script for script in drafted.scripts if script.statements]
    names = {script.file for script in known}
    scripts = tuple(
        [_script(script, by_name.get(script.file)) for script in known]
        + [
            DraftedScript(script.name, 0.0, (), None, script.error, script.note)
            for script in by_name.values()
            if script.name not in names
        ]
    )
    return replace(
        drafted,
        scripts=scripts,
        tried=TriedTogether(tried.version, _together(scripts, "rows"), _together(scripts, "wal_records")),
        not_tried=None,
    )


def failures(tried: TriedLoad) -> Mapping[tuple[str, int | None], str]:
    """(script, place of its statement, None for all of it) -> why it failed."""
    return {
        (script.name, script.failed): script.error for script in tried.scripts if script.error is not None
    }


def _script(script: DraftedScript, tried: TriedScript | None) -> DraftedScript:
    statements = tuple(replace(each, tried=None) for each in script.statements)
    if tried is None:
        gone = "the load's file does not name it"
        return replace(script, statements=statements, tried=None, error=gone, note=None)
    places = places_of([each.times for each in statements])
    is_alike = _are_alike([statements[at] for at in places], tried.statements)
    if is_alike:
        ran = _by_place(places, tried.statements)
        statements = tuple(
            replace(each, tried=_of_statement(each, ran[at]) if at in ran else None)
            for at, each in enumerate(statements)
        )
    whole, note = None, tried.note
    if tried.error is None and tried.statements and all(each.calls for each in tried.statements):
        # Where somebody has added or removed statements, all of the script can still be compared.
        whole = _of_runs(script, tried.statements)
    elif tried.error is None and note is None:
        note = "it has no statements"
    return replace(script, statements=statements, tried=whole, error=tried.error, note=note)


def _by_place(places: Sequence[int], here: Sequence[TriedStatement]) -> dict[int, TriedStatement]:
    """Place of a statement in its script -> what it did, in all turns in which a run calls it."""
    turns: dict[int, list[TriedStatement]] = defaultdict(list)
    for at, ran in zip(places, here, strict=False):
        if ran.calls:
            turns[at].append(ran)
    return {
        at: TriedStatement(
            each[0].sql,
            *(
                tuple(chain.from_iterable(getattr(turn, figure) for turn in each))
                for figure in ("rows", "wal_records", "upkeep_records", "wal_bytes")
            ),
        )
        for at, each in turns.items()
    }


def _of_statement(statement: DraftedStatement, here: TriedStatement) -> TriedFigures:
    return _figures(statement.per_call("rows"), statement.per_call("wal_records"), statement.calls, [here])


def _of_runs(script: DraftedScript, here: Sequence[TriedStatement]) -> TriedFigures:
    runs = min(each.calls / each.times for each in script.statements)
    return _figures(script.per_run("rows"), script.per_run("wal_records"), runs, here)


def _are_alike(statements: Sequence[DraftedStatement], here: Sequence[TriedStatement]) -> bool:
    """Whether those at the same place do the same to the same table. After a failure the last are missing."""
    return len(here) <= len(statements) and all(
        _about(each.query) == _about(ran.sql) for each, ran in zip(statements, here, strict=False)
    )


def _about(sql: str) -> tuple[str, str]:
    """(verb, first table) of a statement, the latter without its schema."""
    words = [token for token in tokens(sql) if token.kind not in ("space", "comment")]
    verb = next((token.text.upper() for token in words if token.kind == "word"), "")
    for at, token in enumerate(words):
        if token.text.upper() in _BEFORE_TABLE:
            names = [each.text for each in words[at + 1 :] if each.text.upper() != "ONLY"]
            table = names[2] if names[1:2] == ["."] and len(names) > 2 else (names or [""])[0]
            return verb, folded(table)
    return verb, ""


def _figures(
    rows_there: float, records_there: float, calls: float, here: Sequence[TriedStatement]
) -> TriedFigures:
    """``rows_there``, ``records_there``: of a call in the application, the mean of ``calls``; ``here``: the
    statements that do the same, all of which ran in each call."""
    rows = _sums([each.rows for each in here])
    records = _sums([each.wal_records for each in here])
    upkeep = _sums([each.upkeep_records for each in here])
    own = [count - less for count, less in zip(records, upkeep, strict=True)]
    differs = []
    if _differs(rows_there, rows, calls):
        differs.append("rows")
    # Whoever comes to a page first does its upkeep: what a statement has of that depends on what else runs.
    is_upkeep = not differs and fmean(own) < _NOTHING
    if not is_upkeep and all(_differs(records_there, each, calls) for each in (records, own)):
        differs.append("wal_records")
    return TriedFigures(
        len(rows),
        fmean(rows),
        fmean(records),
        fmean(upkeep),
        fmean(_sums([each.wal_bytes for each in here])),
        tuple(differs),
    )


def _sums(columns: Sequence[Sequence[int]]) -> list[int]:
    """Of each run; the last one may have been cut after some of its statements."""
    return [sum(run) for run in zip(*columns, strict=False)]


def _differs(application: float, here: Sequence[int], calls: float) -> bool:
    """``here``: of each run. The application's ``calls`` vary as much, or as much as counts of rare events
    do where nothing varies here."""
    if len(here) < _RUNS_LEAST:
        return False
    mean, spread = fmean(here), variance(here)
    error = math.sqrt(spread / len(here) + max(spread, application) / max(1.0, calls))
    is_apart = max(mean, application) > _APART * min(mean, application)
    return is_apart and abs(mean - application) > max(_NOTHING, _CHANCE * error)


def _together(scripts: Sequence[DraftedScript], figure: str) -> float | None:
    """Here relative to the application, over all calls of scripts that ran."""
    there = here = 0.0
    for script in scripts:
        if script.tried is not None:
            here += script.calls * getattr(script.tried, figure)
            there += script.calls * script.per_run(figure)
    return here / there if there else None
