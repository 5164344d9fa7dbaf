"""Measure every point of a small grid with the live tool: the truth that searches are replayed on.

    PYTHONPATH=. python bench/tune/measure.py bench/tune/cases/commits-slow.toml --out FOLDER

A grid of at most 48 points becomes a study with a variant for each; ``walproof run`` measures it in
interleaved rounds, and the same command goes on where it was stopped. Then FOLDER/table.jsonl is written: a
head, and a line for each trial, as ``table.load`` reads it. ``--table`` writes it from what there is so far.
"""

from __future__ import annotations

import argparse
import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.tune.studies import measured, newest, study_text
from walproof.analysis.tuning.space import Space
from walproof.analysis.tuning.values import written
from walproof.facts import Trial
from walproof.facts.tuning import Candidate, Factor, Objective, Promises, Scale, TuningPlan
from walproof.settings.durability import DurabilityClass

POINTS_MOST = 48


def main() -> None:
    """Measure, then write the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("case", type=Path)
    parser.add_argument("--out", type=Path, required=True, help="folder of study, results, table")
    parser.add_argument("--table", action="store_true", help="write the table of what there is")
    given = parser.parse_args()
    case = tomllib.loads(given.case.read_text(encoding="utf-8"))
    points = grid(case)
    if len(points) > POINTS_MOST:
        parser.error(f"a grid of {len(points)} points, at most {POINTS_MOST} are measured")
    given.out.mkdir(parents=True, exist_ok=True)
    name = given.case.stem
    if given.table:
        trials = newest(given.out, name)
    else:
        study = given.out / f"{name}.toml"
        study.write_text(study_of(name, case, points), encoding="utf-8")
        trials = measured(study, case, given.out, case["rounds"] * len(points))
    rows = table_rows(case, points, trials, name)
    path = given.out / "table.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    print(f"{path}: {len(points)} points, {len(rows) - 1} trials")


def factors_of(case: Mapping[str, Any]) -> tuple[Factor, ...]:
    """The factors of a case."""
    return tuple(
        Factor(
            factor["setting"],
            tuple(factor["choices"]),
            Scale(factor["scale"]) if "scale" in factor else None,
            factor["default"],
            "fresh",
            tuple((name, value) for name, value in factor.get("needs", ())),
        )
        for factor in case["factor"]
    )


def grid(case: Mapping[str, Any]) -> dict[str, Candidate]:
    """Every point by the name of its variant; the default is the first."""
    plan = TuningPlan(
        factors_of(case), {}, (), Promises(DurabilityClass.NONE), Objective(case["objective"], True), 1.0, 1
    )
    points = sorted(Space(plan).everything(), key=lambda candidate: (len(candidate.settings), candidate))
    return {written(candidate): candidate for candidate in points}


def is_ruled_out(case: Mapping[str, Any], candidate: Candidate) -> bool:
    """Whether a limit of the case rules a point out; the default never is."""
    conf = candidate.conf
    return bool(conf) and any(
        all(conf.get(name) == value for name, value in rule["settings"].items())
        for rule in case.get("ruled_out", ())
    )


def study_of(name: str, case: Mapping[str, Any], points: Mapping[str, Candidate]) -> str:
    """The study file of the grid."""
    return study_text(
        name,
        f"What does each point of the grid do? {name}",
        base={
            **case.get("base", {}),
            **{factor["setting"]: factor["default"] for factor in case["factor"]},
        },
        load={**case["load"], "duration": case["window"]},
        variants={variant: candidate.conf for variant, candidate in points.items()},
        rounds=case["rounds"],
    )


def table_rows(
    case: Mapping[str, Any], points: Mapping[str, Candidate], trials: Sequence[Trial], name: str
) -> list[dict[str, Any]]:
    """The head and a row for each trial of the grid."""
    head = {
        "case": name,
        "objective": case["objective"],
        "larger_is_better": case["larger_is_better"],
        "device": case.get("device"),
        "factors": [
            {
                "setting": factor.setting,
                "choices": list(factor.choices),
                "scale": factor.scale.value if factor.scale else None,
                "default": factor.default,
                "needs": [list(need) for need in factor.needs],
            }
            for factor in factors_of(case)
        ],
    }
    rows = [
        {
            "settings": points[trial.variant].conf,
            "round": trial.round,
            "value": trial.metrics.get(case["objective"]),
            "seconds": round(trial.ended_at - trial.started_at, 2),
            "broken": is_ruled_out(case, points[trial.variant]),
        }
        for trial in trials
    ]
    return [head, *rows]


if __name__ == "__main__":
    main()
