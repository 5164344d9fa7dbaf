"""A tuning as JSON: keys as the types name them, figures in the units that they name."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from walproof.advise.tune.answer import LineCosts, TuneAnswer
from walproof.analysis.interval import Interval
from walproof.analysis.tuning.flush import flush_gains
from walproof.facts.tuning import Candidate, Prediction, RuledOut
from walproof.report.hosts import host_facts
from walproof.report.tune.view import TuneView

FORMAT = 1


def to_json(view: TuneView) -> str:
    """The answer, its lines, what was ruled out, and every step with its measurements."""
    answer, facts, asked = view.answer, view.facts, view.asked
    data: dict[str, Any] = {
        "format": FORMAT,
        "name": asked.name,
        "dateline": view.dateline,
        "summary": list(view.summary),
        "objective": facts.plan.objective.metric,
        "larger_is_better": facts.plan.objective.larger_is_better,
        "promises": {
            "may_lose": facts.plan.promises.may_lose.value,
            "recovery_target_s": facts.plan.promises.recovery_target_s,
            "wal_disk_bytes": facts.plan.promises.wal_disk_bytes,
            "memory_bytes": facts.plan.promises.memory_bytes,
        },
        "budget_s": facts.plan.budget_s,
        "spent_s": facts.spent_s,
        "seed": facts.plan.seed,
        **_answer(answer),
        "platform": view.platform,
        "apply": view.lines.apply if view.lines else None,
        "undo": view.lines.undo if view.lines else None,
        "refused": [
            {"name": one.change.name, "value": one.change.value, "reason": one.reason, "source": one.source}
            for one in view.refusals
        ],
        "crashes": [
            {
                "wal_bytes": one.wal_bytes,
                "measured_s": one.measured_s,
                "predicted_s": None if one.predicted_s is None else one.predicted_s[1],
                "predicted_high_s": None if one.predicted_s is None else one.predicted_s[2],
                "is_within": one.is_within,
                "failure": one.failure,
                "host": one.host,
            }
            for one in asked.crashes
        ],
        "wal_checks": [asdict(one) for one in asked.wal_checks],
        "hosts": None if asked.hosts is None else host_facts(asked.hosts),
        "limits_now": [{"kind": kind, "sentence": sentence} for kind, sentence in asked.limits],
        "flush": [
            {"device": one.device, "gain": _gain(one.ratio, one.interval), "rounds": one.rounds}
            for one in flush_gains(facts)
        ],
        "not_moved": [
            {
                "setting": one.setting,
                "value": one.value,
                "limit": one.limit.value if one.limit else None,
                "reason": one.reason,
            }
            for one in asked.not_moved
        ],
        "steps": [
            {
                "number": step.number,
                "purpose": step.purpose.value,
                "design": step.design,
                "rounds": step.rounds,
                "seed": step.seed,
                "why": step.why,
                "run": run,
                "seconds": seconds,
                "candidates": [one.conf for one in step.candidates],
                "measured": [
                    {
                        "round": one.round,
                        "host": one.host,
                        "conf": one.candidate.conf,
                        "value": one.value,
                        "limit_value": one.limit_value,
                        "failure": one.failure,
                    }
                    for one in facts.measured
                    if one.step == step.number
                ],
            }
            for step, run, seconds in zip(facts.steps, asked.runs, asked.seconds, strict=True)
        ],
        "notes": [*asked.left_out, *asked.notes, *facts.notes],
    }
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def _answer(answer: TuneAnswer) -> dict[str, Any]:
    outcome = answer.outcome
    expected = outcome.expected
    return {
        "conf": answer.conf.conf,
        "winner": outcome.winner.conf,
        "defaults_are_best": outcome.defaults_are_best,
        "why_default": answer.why_default,
        "is_final": outcome.is_final,
        "gain": _gain(outcome.gain, outcome.interval),
        "to_winner": _gain(outcome.to_winner, outcome.to_winner_interval),
        "second": _gain(outcome.second, outcome.second_interval),
        "expected": None
        if expected is None
        else {
            "value": expected.value,
            "value_low": expected.value_interval.low,
            "value_high": expected.value_interval.high,
            "ratio": expected.ratio,
            "ratio_low": expected.ratio_interval.low,
            "ratio_high": expected.ratio_interval.high,
            "starts": expected.starts,
        },
        "durability_class": answer.durability.value,
        "lines": [_line(one) for one in answer.lines],
        "prediction": _prediction(answer.prediction),
        "default_prediction": _prediction(answer.default_prediction),
        "default_broken": [_broken(one) for one in answer.default_broken],
        "broken": [_broken(one) for one in answer.broken],
        "ruled_out": [
            {"limit": one.limit.value, "candidates": [_ruled(*pair) for pair in one.candidates]}
            for one in answer.ruled_out
        ],
    }


def _ruled(candidate: Candidate, broken: RuledOut) -> dict[str, Any]:
    return {"conf": candidate.conf, "predicted": broken.predicted, "allowed": broken.allowed}


def _broken(one: RuledOut) -> dict[str, str]:
    return {"limit": one.limit.value, "predicted": one.predicted, "allowed": one.allowed}


def _gain(value: float | None, interval: Interval | None) -> dict[str, float | None] | None:
    if value is None:
        return None
    return {
        "ratio": value,
        "low": interval.low if interval else None,
        "high": interval.high if interval else None,
    }


def _prediction(one: Prediction) -> dict[str, float | None]:
    return {
        "wal_bytes_per_txn": one.wal_bytes_per_txn,
        "pg_wal_bytes": one.pg_wal_bytes,
        "recovery_s": one.recovery_s,
        "recovery_low_s": one.recovery_low_s,
        "recovery_high_s": one.recovery_high_s,
    }


def _line(one: LineCosts) -> dict[str, Any]:
    line = one.line
    return {
        "setting": line.setting,
        "value": line.value,
        "verdict": line.verdict.value,
        "in_conf": line.in_conf,
        "gain": _gain(line.gain, line.interval),
        "p": line.p,
        "rounds": list(one.rounds),
        "alone": _gain(line.alone, line.alone_interval),
        "durability_class": one.durability.value,
        "with_it": {**_prediction(one.had), "memory_bytes": one.memory_bytes[0]},
        "without_it": {**_prediction(one.without), "memory_bytes": one.memory_bytes[1]},
        "breaks_without_it": [_broken(each) for each in one.breaks],
    }
