"""What may be said of a tuning: a configuration is advised, the defaults are best, or it is not decided.

"The defaults are best" is said only after a comparison that could have shown something else.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from walproof.advise.tune.shown_by import OF_DISTANCE, OVER_CYCLES
from walproof.advise.wording import is_vague
from walproof.analysis.tuning.ablation import chain_step
from walproof.analysis.tuning.blocks import Blocks
from walproof.analysis.tuning.lines import TuningOutcome
from walproof.analysis.tuning.proof import is_beyond
from walproof.analysis.tuning.race import second_limit
from walproof.analysis.tuning.space import Space
from walproof.analysis.tuning.values import compared_in, objective_values
from walproof.facts.tuning import DEFAULT, Candidate, Judge, Objective, Purpose, RuledOut, TuningFacts
from walproof.facts.tuning_answers import candidate_name
from walproof.sentences import say_list, say_percent


class Conclusion(Enum):
    """How a tuning ended."""

    ADVISED = "a configuration is advised"
    DEFAULTS = "the defaults are best"
    UNDECIDED = "not decided"
    NONE_KEEPS = "no configuration keeps the promises"
    """Not even the defaults do. Of the others only the starts and each setting by itself were looked at: two
    settings together might keep them."""


def conclude(
    facts: TuningFacts, found: TuningOutcome, default_broken: Sequence[RuledOut], space: Space, judge: Judge
) -> tuple[Conclusion, str | None]:
    """The conclusion, and why nothing is advised; ``default_broken``: promises that the defaults break."""
    if not found.defaults_are_best:
        return Conclusion.ADVISED, None
    tried = [
        candidate
        for candidate in dict.fromkeys(each for step in facts.steps for each in step.candidates)
        if candidate != DEFAULT
    ]
    if not tried:
        starts = (space.candidate(start.conf) for start in facts.plan.starts)
        others = [start for start in starts if start != DEFAULT]
        if any(not judge(other)[1] for other in (*others, *space.neighbours(DEFAULT))):
            return Conclusion.UNDECIDED, "the budget had no room to try anything else"
        if default_broken:
            broken = (
                f"{each.limit.value} {each.predicted}, allowed {each.allowed}" for each in default_broken
            )
            return Conclusion.NONE_KEEPS, "; ".join(broken)
        return Conclusion.DEFAULTS, "no other configuration that was looked at keeps the promises"
    if default_broken:
        objective = facts.plan.objective
        within = "" if objective.limit is None else f" within {_no_worse(objective)}"
        return (
            Conclusion.UNDECIDED,
            "the defaults do not keep the promises, and of the configurations that do, none was "
            f"measured{within}",
        )
    conclusion, why = _compared(facts, found, tried)
    if conclusion is Conclusion.DEFAULTS and (unseen := _unseen_saving(facts, space, judge)) is not None:
        return Conclusion.UNDECIDED, unseen
    return conclusion, why


def _compared(facts: TuningFacts, found: TuningOutcome, tried: Sequence[Candidate]) -> tuple[Conclusion, str]:
    if found.winner == DEFAULT:
        if (lacking := _lacking(facts, tried)) is not None:
            return Conclusion.UNDECIDED, lacking
        within = _within_second(facts, tried)
        return (
            Conclusion.DEFAULTS,
            f"no configuration {within}was better than the defaults by more than the noise",
        )
    objective = facts.plan.objective
    if objective.limit is not None and is_beyond(facts, found.second):
        return (
            Conclusion.DEFAULTS,
            f"the best configuration did not keep {_no_worse(objective)}",
        )
    if found.short == DEFAULT:
        return _all_dropped(facts, found)
    is_tried = any(step.purpose is Purpose.CONFIRM for step in facts.steps)
    if not found.is_final and (not is_tried or found.gain is None or found.gain > 1):
        return (
            Conclusion.UNDECIDED,
            "the budget ended before the best configuration could be confirmed on fresh servers",
        )
    if found.interval is None or (found.interval.contains(1.0) and is_vague(found.interval)):
        return (
            Conclusion.UNDECIDED,
            "the rounds on fresh servers are too few to say whether the best configuration is better",
        )
    return (
        Conclusion.DEFAULTS,
        "on fresh servers the best configuration was not better than the defaults by more than the noise",
    )


def _within_second(facts: TuningFacts, tried: Sequence[Candidate]) -> str:
    """``that keeps the limit of --no-worse ... ``; empty where all that was tried keeps it."""
    if facts.plan.objective.limit is None:
        return ""
    beyond = second_limit(facts)
    is_beyond_some = any((found := beyond(each)) is not None and found > 0 for each in tried)
    return f"that keeps {_no_worse(facts.plan.objective)} " if is_beyond_some else ""


def _all_dropped(facts: TuningFacts, found: TuningOutcome) -> tuple[Conclusion, str]:
    """Each line of the winner was left out in turn, until nothing but the defaults was left."""
    step = chain_step(facts)
    assert step is not None, "lines are dropped by what that step measured"
    interval = compared_in(facts, step, [(found.winner, DEFAULT)])[0].interval()
    if interval is None or is_vague(interval):
        return Conclusion.UNDECIDED, "what was tried ran in too few rounds to compare it with the defaults"
    return (
        Conclusion.DEFAULTS,
        "no line of the best configuration earned its place: without them it was not measurably slower",
    )


def _unseen_saving(facts: TuningFacts, space: Space, judge: Judge) -> str | None:
    """The line about the distance of checkpoints that saves most WAL as simulated, if that is the objective:
    windows do not show it, so that nothing is known for the defaults. None where no line saves any; where no
    simulation tells, that."""
    default = judge(DEFAULT)[0].wal_bytes_per_txn
    if facts.plan.objective.metric != "wal_bytes_per_txn" or not default:
        return None
    saving: dict[Candidate, float] = {}
    is_told = True
    for each in space.neighbours(DEFAULT):
        if each.conf.keys() <= OF_DISTANCE:
            predicted, broken = judge(each)
            if broken:
                continue
            if predicted.wal_bytes_per_txn is None:
                is_told = False
            else:
                saving[each] = predicted.wal_bytes_per_txn / default
    best = min(saving, key=lambda each: saving[each], default=None)
    if best is None or saving[best] >= 1 - facts.plan.margin:
        if is_told:
            return None
        return (
            "windows come too soon after a checkpoint to show what its distance saves, and the recording is "
            "shorter than a checkpoint cycle"
        )
    return (
        f"windows come too soon after a checkpoint to show what {candidate_name(best)} saves, with which WAL "
        f"per transaction is {say_percent(saving[best])} of the defaults' as simulated over whole cycles"
    )


def _no_worse(objective: Objective) -> str:
    assert objective.limit is not None
    return f"the limit of --no-worse ({objective.limit[0]} {objective.limit_words})"


def _lacking(facts: TuningFacts, tried: Sequence[Candidate]) -> str | None:
    """What lacks for saying that nothing tried is better than the defaults; None if that can be said."""
    blocks = Blocks(objective_values(facts))
    estimates = [found for each in tried if (found := blocks.estimate(each, DEFAULT)) is not None]
    if not estimates:
        return "nothing that was tried could be measured beside the defaults"
    moved = {name for each in tried for name, _ in each.settings}
    if facts.plan.objective.metric in OVER_CYCLES and moved <= OF_DISTANCE:
        is_crash = facts.plan.objective.metric == "recovery_s"
        return (
            f"the {'crashes' if is_crash else 'windows'} of the trials came too soon after a checkpoint to "
            f"show what {say_list(sorted(moved))} gives"
            + ("; --recovery-target keeps a time away by simulation" if is_crash else "")
        )
    interval = max(estimates, key=lambda found: found.mean).interval()
    if interval is None or is_vague(interval):
        return "what was tried ran in too few rounds to compare it with the defaults"
    return None
