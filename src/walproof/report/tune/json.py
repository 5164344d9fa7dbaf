"""A tuning as JSON: keys are named as in the types, with units in their names."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from walproof.advise.tune.answer import LineCosts, TuneAnswer
from walproof.advise.tune.conclusion import Conclusion
from walproof.analysis.interval import Interval
from walproof.analysis.tuning.flush import flush_gains
from walproof.facts.tuning import Candidate, CandidatePrediction, RuledOut
from walproof.report.hosts import host_facts
from walproof.report.tune.view import TuneView

FORMAT = 1


def to_json(view: TuneView) -> str:
    """The answer, its lines, what was ruled out, and every step with its measurements."""
    answer, facts, asked, lines = view.answer, view.facts, view.asked, view.pasted.lines
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
        "apply": lines.apply if lines else None,
        "undo": lines.undo if lines else None,
        "lines_notes": list(lines.told) if lines else [],
        "refused": [
            {
                "name": refusal.change.name,
                "value": refusal.change.value,
                "reason": refusal.reason,
                "source": refusal.source,
            }
            for refusal in view.pasted.refusals
        ],
        "crashes": [
            {
                "wal_bytes": crash.wal_bytes,
                "measured_s": crash.measured_s,
                "predicted_s": None if crash.predicted_s is None else crash.predicted_s[1],
                "predicted_high_s": None if crash.predicted_s is None else crash.predicted_s[2],
                "is_within": crash.is_within,
                "failure": crash.failure,
                "host": crash.host,
            }
            for crash in asked.crashes
        ],
        "wal_checks": [asdict(check) for check in asked.wal_checks],
        "hosts": None if asked.hosts is None else host_facts(asked.hosts),
        "limits_now": [{"kind": kind, "sentence": sentence} for kind, sentence in asked.limits],
        "flush": [
            {"device": gain.device, "gain": _gain(gain.ratio, gain.interval), "rounds": gain.rounds}
            for gain in flush_gains(facts)
        ],
        "not_moved": [
            {
                "setting": unmoved.setting,
                "value": unmoved.value,
                "limit": unmoved.limit.value if unmoved.limit else None,
                "reason": unmoved.reason,
            }
            for unmoved in asked.not_moved
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
                "candidates": [candidate.conf for candidate in step.candidates],
                "measured": [
                    {
                        "round": trial.round,
                        "host": trial.host,
                        "conf": trial.candidate.conf,
                        "value": trial.value,
                        "limit_value": trial.limit_value,
                        "failure": trial.failure,
                    }
                    for trial in facts.measured
                    if trial.step == step.number
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
        "short": None if outcome.short is None else outcome.short.conf,
        "conclusion": answer.conclusion.value,
        "defaults_are_best": answer.conclusion is Conclusion.DEFAULTS,
        "why_default": answer.why_default,
        "is_final": outcome.is_final,
        "gain": _gain(outcome.gain, outcome.interval),
        "to_winner": _gain(outcome.to_winner, outcome.to_winner_interval),
        "to_own": _gain(outcome.to_own, outcome.to_own_interval),
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
        "lines": [_line(costs) for costs in answer.lines],
        "prediction": _prediction(answer.prediction),
        "at_own_speed": None if answer.at_own_speed is None else _prediction(answer.at_own_speed),
        "default_prediction": _prediction(answer.default_prediction),
        "default_broken": [_broken(broken) for broken in answer.default_broken],
        "own_prediction": None if answer.own_prediction is None else _prediction(answer.own_prediction),
        "own_broken": [_broken(broken) for broken in answer.own_broken],
        "broken": [_broken(broken) for broken in answer.broken],
        "ruled_out": [
            {"limit": ruled_out.limit.value, "candidates": [_ruled(*pair) for pair in ruled_out.candidates]}
            for ruled_out in answer.ruled_out
        ],
    }


def _ruled(candidate: Candidate, broken: RuledOut) -> dict[str, Any]:
    return {"conf": candidate.conf, "predicted": broken.predicted, "allowed": broken.allowed}


def _broken(broken: RuledOut) -> dict[str, str]:
    return {"limit": broken.limit.value, "predicted": broken.predicted, "allowed": broken.allowed}


def _gain(value: float | None, interval: Interval | None) -> dict[str, float | None] | None:
    if value is None:
        return None
    return {
        "ratio": value,
        "low": interval.low if interval else None,
        "high": interval.high if interval else None,
    }


def _prediction(prediction: CandidatePrediction) -> dict[str, float | None]:
    return {
        "wal_bytes_per_txn": prediction.wal_bytes_per_txn,
        "pg_wal_bytes": prediction.pg_wal_bytes,
        "recovery_s": prediction.recovery_s,
        "recovery_low_s": prediction.recovery_low_s,
        "recovery_high_s": prediction.recovery_high_s,
    }


def _line(costs: LineCosts) -> dict[str, Any]:
    line = costs.line
    return {
        "setting": line.setting,
        "value": line.value,
        "verdict": line.verdict.value,
        "in_conf": line.in_conf,
        "gain": _gain(line.gain, line.interval),
        "p": line.p,
        "rounds": list(line.rounds),
        "reference": line.reference.conf,
        "in_winner": _gain(line.in_winner, line.in_winner_interval),
        "alone": _gain(line.alone, line.alone_interval),
        "durability_class": costs.durability.value,
        "with_it": {**_prediction(costs.had), "memory_bytes": costs.memory_bytes[0]},
        "without_it": {**_prediction(costs.without), "memory_bytes": costs.memory_bytes[1]},
        "breaks_without_it": [_broken(each) for each in costs.breaks],
    }
