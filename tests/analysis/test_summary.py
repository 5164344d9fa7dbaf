"""One call asks all questions; its answer is plain data."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict
from enum import Enum
from pathlib import Path

import walproof
from tests.analysis.facts import (
    DEFAULT,
    FSYNC_OFF,
    INSTALL,
    OLDER,
    fail,
    make_plan,
    make_trials,
    make_workload,
)
from walproof.analysis.summary import Analysis, analyse
from walproof.facts import Cell, Variant

FACTORS = {"fsync": ("on", "off"), "full_page_writes": ("on", "off")}


def truth(cell: Cell) -> float:
    return (2000.0 if "fsync=off" in cell[2] else 500.0) * (2 if cell[1] == "scale 50" else 1)


def full_analysis() -> Analysis:
    """Two installs, two workloads, failures, with a factorial design beside: everything is filled."""
    variants = [
        Variant(name, settings, levels=levels)
        for name, settings, levels in (
            ("default", {}, {"fsync": "on", "full_page_writes": "on"}),
            ("fsync=off", {"fsync": "off"}, {"fsync": "off", "full_page_writes": "on"}),
            ("fpw=off", {"full_page_writes": "off"}, {"fsync": "on", "full_page_writes": "off"}),
            (
                "both",
                {"fsync": "off", "full_page_writes": "off"},
                {"fsync": "off", "full_page_writes": "off"},
            ),
        )
    ]
    plan = make_plan(
        variants,
        (make_workload(), make_workload("scale 50", 50)),
        (INSTALL, OLDER),
        factors=FACTORS,
    )
    trials = make_trials(plan, 4, truth, metrics={"wal_sync_ms_avg": 1.0})
    return analyse(plan, fail(trials, lambda trial: trial.number % 13 == 0))


def test_everything_is_there() -> None:
    found = full_analysis()
    assert (found.rounds, found.trials, found.failed) == (4, 64, 4)
    assert len(found.absolute) == 16
    assert len(found.effects) == 12
    assert len(found.install_effects) == 8
    assert [(p.cell, p.baseline) for p in found.precision] == [
        (e.cell, e.baseline) for e in (*found.effects, *found.install_effects)
    ]
    assert len(found.factors) == 4
    assert [lock.install for lock in found.locks] == ["18.3", "15.9"]
    assert sum(len(failure.trials) for failure in found.failures) == 4
    assert found.unanswered == ()
    assert found.effect("18.3", "scale 1", "fsync=off") in found.effects
    assert found.effect("18.3", "scale 1", "default") is None


def test_what_cannot_be_answered_has_a_reason() -> None:
    plan = make_plan((DEFAULT, FSYNC_OFF), (make_workload("scale 50", 50),))
    found = analyse(plan, make_trials(plan, 3, truth))
    assert found.locks == ()
    assert [(u.question, u.reason) for u in found.unanswered] == [
        (
            "lock or disk (18.3)",
            "no workload makes several clients update the one branch row (TPC-B-like, scale 1)",
        )
    ]


def test_an_empty_run_is_analysed_too() -> None:
    found = analyse(make_plan(), ())
    assert (found.rounds, found.trials, found.failed, found.failures) == (0, 0, 0, ())
    assert all(effect.ratio is None for effect in found.effects)


def foreign_types(value: object) -> set[type]:
    """Types other than those of plain data, anywhere in the value: numpy's numbers, for instance."""
    if isinstance(value, Mapping):
        return set().union(*(foreign_types(part) for pair in value.items() for part in pair))
    if isinstance(value, (list, tuple)):
        return set().union(*(foreign_types(part) for part in value))
    plain = type(value) in (str, int, float, bool, type(None)) or isinstance(value, Enum)
    return set() if plain else {type(value)}


def test_an_analysis_is_json() -> None:
    found = asdict(full_analysis())
    assert foreign_types(found) == set()
    text = json.dumps(found, default=lambda member: member.value, allow_nan=False)
    assert json.loads(text)["effects"][0]["conclusion"] == "higher"


def test_importing_analysis_loads_no_numerical_library() -> None:
    """They cost more CPU time than everything else that a command does at its start."""
    source = Path(walproof.__file__).parents[1]
    code = (
        f"import sys; sys.path.insert(0, {str(source)!r})\n"
        "import walproof.analysis.summary, walproof.advise.verdict\n"
        "print(sorted({'numpy', 'scipy', 'statsmodels'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ast.literal_eval(done.stdout) == []
