"""What a tuning found, what is predicted of it, what each line costs and what limits ruled out.

Verdicts and gains come from `walproof.analysis.tuning.lines`; this module adds costs and risks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from walproof.advise.tune.conclusion import Conclusion, conclude
from walproof.advise.tune.judge import RecordedJudge
from walproof.analysis.tuning.lines import ConfLine, TuningOutcome, concluding_facts, outcome
from walproof.analysis.tuning.space import Space
from walproof.facts.tuning import (
    DEFAULT,
    Candidate,
    CandidatePrediction,
    Judge,
    Limit,
    RuledOut,
    TuningFacts,
)
from walproof.settings.durability import DurabilityClass
from walproof.settings.risk import durability_class, risk_of


@dataclass(frozen=True, slots=True)
class LineCosts:
    """A line of the winner, with the predictions for its reference with it and without it."""

    line: ConfLine
    had: CandidatePrediction
    without: CandidatePrediction
    memory_bytes: tuple[int, int]
    """With the line, and without it."""
    durability: DurabilityClass
    breaks: tuple[RuledOut, ...]
    """Limits that would be broken without the line."""


@dataclass(frozen=True, slots=True)
class LimitCount:
    """The single changes from the default that a limit ruled out."""

    limit: Limit
    candidates: tuple[tuple[Candidate, RuledOut], ...]


@dataclass(frozen=True, slots=True)
class TuneAnswer:
    """What to set, and why."""

    outcome: TuningOutcome
    why_default: str | None
    """Why nothing is advised; None if a configuration is."""
    lines: tuple[LineCosts, ...]
    """Lines of the winner, including those that were dropped."""
    durability: DurabilityClass
    """Class of the advised configuration."""
    prediction: CandidatePrediction
    """Prediction for the advised configuration."""
    default_prediction: CandidatePrediction
    default_broken: tuple[RuledOut, ...]
    """Promises that the defaults themselves would break."""
    broken: tuple[RuledOut, ...]
    """Promises that the advised configuration would break at its own speed, which is above the recorded."""
    ruled_out: tuple[LimitCount, ...]
    own_prediction: CandidatePrediction | None
    """Prediction for the user's own configuration; None without one."""
    own_broken: tuple[RuledOut, ...]
    """Promises that the user's own configuration would break."""
    conclusion: Conclusion = Conclusion.DEFAULTS
    """What may be said of the tuning as a whole; answers that earlier versions kept have only
    ``why_default``."""
    broken_as_recorded: tuple[RuledOut, ...] = ()
    """Those of ``broken`` that it breaks at the recorded speed, too: with other costs than those it was
    searched with."""
    at_own_speed: CandidatePrediction | None = None
    """``prediction`` at its own speed; None where nothing is advised, and of answers of earlier versions."""

    @property
    def conf(self) -> Candidate:
        """The advised configuration; DEFAULT if nothing better was found."""
        return self.outcome.advised

    @property
    def expected_away_s(self) -> float | None:
        """Its longest time away, at its own speed."""
        return (self.at_own_speed or self.prediction).recovery_s


def answer(
    facts: TuningFacts,
    judge: RecordedJudge,
    fast_judge: Callable[[Candidate], Judge],
    own: Mapping[str, str] | None = None,
) -> TuneAnswer:
    """The answer from the facts so far. ``fast_judge``: a judge at the speed of a configuration; ``own``: all
    lines of the user's that may move, also those that this machine cannot try. None: those of the plan."""
    concluding = concluding_facts(facts)
    found = outcome(concluding, judge)
    space = Space(facts.plan)
    conf = found.advised
    default_prediction, default_broken = judge(DEFAULT)
    conclusion, why_default = conclude(concluding, found, default_broken, space, judge)
    prediction, broken_as_recorded = judge(conf)
    at_own_speed, broken = fast_judge(conf)(conf) if conf != DEFAULT else (None, ())
    own_prediction, own_broken = _of_own(facts, judge, own or {})
    return TuneAnswer(
        outcome=found,
        why_default=why_default,
        lines=tuple(_costs(line, space, judge) for line in found.lines),
        durability=durability_class({**judge.kept, **conf.conf}),
        prediction=prediction,
        default_prediction=default_prediction,
        default_broken=default_broken,
        broken=broken,
        ruled_out=_ruled_out(space, judge),
        own_prediction=own_prediction,
        own_broken=own_broken,
        conclusion=conclusion,
        broken_as_recorded=broken_as_recorded if conf != DEFAULT else (),
        at_own_speed=at_own_speed,
    )


def _of_own(
    facts: TuningFacts, judge: RecordedJudge, own: Mapping[str, str]
) -> tuple[CandidatePrediction | None, tuple[RuledOut, ...]]:
    """Prediction for the user's own configuration as it is on their server, and the promises that it breaks.

    What this machine has no memory for may fit on the user's, unless a limit was named.
    """
    tried, promises = facts.plan.own, facts.plan.promises
    whole = Candidate.of(own) if own else tried
    if whole is None:
        return None, ()
    prediction, broken = judge(whole)
    if tried is not None and any(each.limit is Limit.REFUSED for each in broken):
        prediction, broken = judge(tried)
    lost = durability_class(whole.conf)
    if lost.rank > promises.may_lose.rank and all(each.limit is not Limit.MAY_LOSE for each in broken):
        broken = (*broken, RuledOut(Limit.MAY_LOSE, lost.value, promises.may_lose.value))
    uncounted = {Limit.REFUSED} if promises.memory_bytes is not None else {Limit.REFUSED, Limit.MEMORY}
    return prediction, tuple(each for each in broken if each.limit not in uncounted)


def _costs(line: ConfLine, space: Space, judge: RecordedJudge) -> LineCosts:
    without = space.without(line.reference, line.setting)
    had, _ = judge(line.reference)
    has_not, broken = judge(without)
    return LineCosts(
        line=line,
        had=had,
        without=has_not,
        memory_bytes=(judge.memory_bytes(line.reference), judge.memory_bytes(without)),
        durability=line_durability(line, judge),
        breaks=broken,
    )


def line_durability(line: ConfLine, judge: RecordedJudge) -> DurabilityClass:
    """What the line risks beside the others: some risk nothing by themselves."""
    risks = risk_of({**judge.kept, **line.reference.conf})
    return max((found for name, found, _ in risks if name == line.setting), default=DurabilityClass.NONE)


def _ruled_out(space: Space, judge: RecordedJudge) -> tuple[LimitCount, ...]:
    """What each limit rules out among the single changes from the default."""
    found: dict[Limit, list[tuple[Candidate, RuledOut]]] = {}
    for neighbour in space.neighbours(DEFAULT):
        for broken in judge(neighbour)[1]:
            found.setdefault(broken.limit, []).append((neighbour, broken))
    return tuple(LimitCount(limit, tuple(found[limit])) for limit in Limit if limit in found)
