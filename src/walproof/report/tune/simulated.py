"""What windows show only in part: a metric over whole checkpoint cycles, as simulated."""

from __future__ import annotations

import math

from walproof.advise.tune.answer import TuneAnswer
from walproof.advise.tune.shown_by import OVER_CYCLES
from walproof.facts.tuning import DEFAULT, CandidatePrediction, TuningFacts
from walproof.report.numbers import percent
from walproof.report.tune.words import OBJECTIVES


def simulated_ratio(answer: TuneAnswer, metric: str) -> float | None:
    """The metric with what is advised over that with the defaults, as simulated over whole cycles.

    None where nothing is advised, or the recording does not tell.
    """
    had, default = _of(answer.prediction, metric), _of(answer.default_prediction, metric)
    return had / default if answer.conf != DEFAULT and had is not None and default else None


def window_sentence(facts: TuningFacts, answer: TuneAnswer) -> str | None:
    """What the gain is worth over whole cycles; None of an objective that windows show."""
    metric = facts.plan.objective.metric
    if metric not in OVER_CYCLES or answer.conf == DEFAULT:
        return None
    words, simulated = OBJECTIVES[metric], simulated_ratio(answer, metric)
    where = "That was measured soon after a checkpoint"
    if simulated is None:
        return f"{where}, and the recording has no whole checkpoint cycle to simulate the {words} over."
    return f"{where}: simulated over whole cycles, the {words} is {percent(simulated)} of the defaults'."


def simulated_limit(facts: TuningFacts, answer: TuneAnswer) -> tuple[float, bool] | None:
    """(ratio to the defaults over whole cycles, whether it is beyond the limit of --no-worse) of the second
    metric; None of one that windows show."""
    objective = facts.plan.objective
    simulated = None if objective.limit is None else simulated_ratio(answer, objective.limit[0])
    return None if not simulated else (simulated, objective.beyond(math.log(simulated)) > 0)


def _of(prediction: CandidatePrediction, metric: str) -> float | None:
    found = {"wal_bytes_per_txn": prediction.wal_bytes_per_txn, "recovery_s": prediction.recovery_s}
    return found.get(metric)
