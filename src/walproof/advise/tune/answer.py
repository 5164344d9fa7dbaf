"""What a tuning found, with what is predicted of it: what each line costs and what limits ruled out.

The verdicts and gains are of `walproof.analysis.tuning.lines`; here are their costs and their risks.
"""

from __future__ import annotations

from dataclasses import dataclass

from walproof.advise.tune.judge import RecordedJudge
from walproof.analysis.tuning.lines import ConfLine, TuningOutcome, outcome
from walproof.analysis.tuning.space import Space
from walproof.facts.tuning import (
    DEFAULT,
    Candidate,
    CandidatePrediction,
    Limit,
    Purpose,
    RuledOut,
    TuningFacts,
)
from walproof.settings.durability import DurabilityClass
from walproof.settings.risk import durability_class


@dataclass(frozen=True, slots=True)
class LineCosts:
    """A line of the winner, with what is predicted of the conf with it and without it."""

    line: ConfLine
    had: CandidatePrediction
    without: CandidatePrediction
    memory_bytes: tuple[int, int]
    """With it, without it."""
    durability: DurabilityClass
    breaks: tuple[RuledOut, ...]
    """What would be broken without it."""
    rounds: tuple[float, ...]
    """Of each round of the step on lines: the winner's value to that without the line, above 1: better."""


@dataclass(frozen=True, slots=True)
class LimitCount:
    """What a limit ruled out among the single changes from the default."""

    limit: Limit
    candidates: tuple[tuple[Candidate, RuledOut], ...]


@dataclass(frozen=True, slots=True)
class TuneAnswer:
    """What to set, and why."""

    outcome: TuningOutcome
    why_default: str | None
    """Why nothing is advised; None where something is."""
    lines: tuple[LineCosts, ...]
    """Of the winner, those that went among them."""
    durability: DurabilityClass
    """Of what is advised."""
    prediction: CandidatePrediction
    """Of what is advised."""
    default_prediction: CandidatePrediction
    default_broken: tuple[RuledOut, ...]
    """Promises that the defaults themselves would break."""
    broken: tuple[RuledOut, ...]
    """Promises that what is advised is predicted to break at its own speed, higher than recorded."""
    ruled_out: tuple[LimitCount, ...]

    @property
    def conf(self) -> Candidate:
        """What is advised; DEFAULT: the defaults are the best that was found."""
        return self.outcome.advised


def answer(facts: TuningFacts, judge: RecordedJudge, fast_judge: RecordedJudge) -> TuneAnswer:
    """The answer of the facts as they are. ``fast_judge`` knows the load at the speed of the winner."""
    found = outcome(facts, judge)
    space = Space(facts.plan)
    conf = found.advised
    default_prediction, default_broken = judge(DEFAULT)
    return TuneAnswer(
        outcome=found,
        why_default=_why_default(facts, found),
        lines=tuple(_costs(facts, line, space, judge, found.winner) for line in found.lines),
        durability=durability_class({**facts.plan.keep, **conf.conf}),
        prediction=judge(conf)[0],
        default_prediction=default_prediction,
        default_broken=default_broken,
        broken=fast_judge(conf)[1] if conf != DEFAULT else (),
        ruled_out=_ruled_out(space, judge),
    )


def _why_default(facts: TuningFacts, found: TuningOutcome) -> str | None:
    if not found.defaults_are_best:
        return None
    if not any(step.purpose is not Purpose.RECORD for step in facts.steps):
        return "nothing else was tried, because the budget has no room for it"
    if found.winner == DEFAULT:
        return "no configuration was better than the defaults by more than the noise"
    if not found.is_final and not any(step.purpose is Purpose.CONFIRM for step in facts.steps):
        return "the budget ended before the best one could be confirmed on fresh servers"
    return "the best one was not better by more than the noise when both were run again on fresh servers"


def _costs(
    facts: TuningFacts, line: ConfLine, space: Space, judge: RecordedJudge, winner: Candidate
) -> LineCosts:
    without = space.without(winner, line.setting)
    had, _ = judge(winner)
    has_not, broken = judge(without)
    return LineCosts(
        line=line,
        had=had,
        without=has_not,
        memory_bytes=(judge.memory_bytes(winner), judge.memory_bytes(without)),
        durability=durability_class({line.setting: line.value}),
        breaks=broken,
        rounds=_rounds(facts, winner, without),
    )


def _rounds(facts: TuningFacts, winner: Candidate, without: Candidate) -> tuple[float, ...]:
    import math

    from walproof.analysis.tuning.values import objective_values

    step = next((taken for taken in facts.steps if taken.purpose is Purpose.LINES), None)
    if step is None:
        return ()
    values = objective_values(facts, [step.number])
    return tuple(math.exp(log) for log in values.ratios(winner, without).values())


def _ruled_out(space: Space, judge: RecordedJudge) -> tuple[LimitCount, ...]:
    """Of the single changes from the default."""
    found: dict[Limit, list[tuple[Candidate, RuledOut]]] = {}
    for neighbour in space.neighbours(DEFAULT):
        for broken in judge(neighbour)[1]:
            found.setdefault(broken.limit, []).append((neighbour, broken))
    return tuple(LimitCount(limit, tuple(found[limit])) for limit in Limit if limit in found)
