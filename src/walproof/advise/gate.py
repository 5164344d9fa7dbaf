"""What a gate says while it measures, and about what is still undecided when its time is over."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from walproof.advise.wording import say_ratio
from walproof.analysis.carry_over import lasting_ms
from walproof.analysis.gate import FIRST_ROUNDS, Judged, Judgement, Outcome
from walproof.analysis.unmeasured import MEND, FailedSide, Unmeasured, unmeasured
from walproof.errors import AnalysisError
from walproof.facts import Design, Plan, Trial
from walproof.sentences import say_count, say_list, say_percent
from walproof.units import format_duration

_ROUNDS_SENSIBLE = 1000
"""More rounds than this are not advised."""
_ELSEWHERE = "docs/metrics.md says which versions have a metric, and which probe measures it (--probes)."
"""Hint where no trial has the metric of a promise."""


def say_beginning(plan: Plan, round_s: float | None = None) -> str:
    """How long it may take; said before anything is measured. ``round_s``: about how many seconds a round
    takes; None where nobody knows, as for a number of transactions."""
    assert plan.gate is not None
    promises = say_count(len(plan.gate.promises), "promise")
    return f"a gate of {promises}: measures until it is decided, {say_most(plan, round_s)}"


def say_most(plan: Plan, round_s: float | None) -> str:
    """``10 min 00 s at most``, or how long one round takes, which is run in any case."""
    noun = _noun(plan)
    if plan.budget_s is None:
        return f"{say_count(plan.rounds, noun)} at most, after what is prepared"
    budget = format_duration(plan.budget_s)
    if round_s is None:
        return f"{budget} at most, but one {noun} in any case, after what is prepared"
    if round_s > plan.budget_s:
        return (
            f"but one {noun} alone takes about {format_duration(round_s)}: longer than the budget, {budget}"
        )
    return f"{budget} at most, after what is prepared"


def say_look(plan: Plan, found: Judgement, trials: Sequence[Trial]) -> tuple[str, ...]:
    """Lines after a look: what is known about each promise, and when the next look is."""
    number = found.looks.index(found.done) + 1
    lines = [f"look {number} of at most {len(found.looks)}, after {say_count(found.done, _noun(plan))}:"]
    for judged in found.judged:
        line = f"  {judged.promise.text}  {subject(plan, judged)}: {_known(judged)}, {judged.outcome.value}"
        if number == 1 and not found.is_over and judged.outcome is Outcome.UNDECIDED:
            line += _expected(judged)
        lines.append(line)
    if not found.is_over:
        after = next(later for earlier, later in pairwise(found.looks) if earlier == found.done)
        each = sum(trial.ended_at - trial.started_at for trial in trials) / found.done
        wait = format_duration(each * (after - found.done))
        lines.append(f"  the next look is after {say_count(after, _noun(plan))}, in about {wait}")
    return tuple(lines)


def _known(judged: Judged) -> str:
    if judged.ratio is not None:
        return say_ratio(judged.ratio, judged.interval)
    # With rounds and no ratio, trials have 0.
    return judged.reason if judged.rounds and judged.reason else "nothing measured"


def subject(plan: Plan, judged: Judged) -> str:
    """What is compared with what: only what differs is named."""
    if judged.cell.workload != judged.baseline.workload:
        return f"{judged.cell.workload} against {judged.baseline.workload}"
    where = f", {judged.cell.workload}" if len(plan.workloads) > 1 else ""
    if judged.cell.install != judged.baseline.install:
        return f"PostgreSQL {judged.cell.install} against {judged.baseline.install}{where}"
    return f"{judged.cell.variant}{where}"


def say_answer(plan: Plan, found: Judgement) -> tuple[str, ...]:
    """The gate's outcome in sentences; after them, what is judged and cannot differ."""
    same = {
        f"{judged.cell.variant} and {judged.baseline.variant} differ in nothing that acts: "
        "a difference is chance."
        for judged in found.judged
        if judged.cell.variant in plan.same
        and (judged.cell.install, judged.cell.workload) == (judged.baseline.install, judged.baseline.workload)
    }
    return (*_say_outcome(plan, found), *sorted(same))


def _say_outcome(plan: Plan, found: Judgement) -> tuple[str, ...]:
    if found.outcome is Outcome.HOLDS:
        return (f"It holds, known after {say_count(found.done, _noun(plan))}.",)
    if found.outcome is Outcome.BROKEN:
        return tuple(
            f"Broken: {judged.promise.text} for {subject(plan, judged)}{_shown(judged)}."
            for judged in found.judged
            if judged.outcome is Outcome.BROKEN
        )
    spent = "" if found.done == 0 else f" after {say_count(found.done, _noun(plan))}"
    return (
        f"It is undecided{spent}.",
        *(
            f"{judged.promise.text} for {subject(plan, judged)}: {judged.reason}."
            for judged in found.judged
            if judged.outcome is Outcome.UNDECIDED
        ),
    )


def _shown(judged: Judged) -> str:
    if judged.ratio is None:
        return f": {judged.reason}"
    return f", which has {say_ratio(judged.ratio, judged.interval)}"


def not_measured(plan: Plan, found: Judgement, trials: Sequence[Trial]) -> AnalysisError | None:
    """The error of a gate that failed trials, or trials without its metric, left without an answer; None for
    one that was measured.

    A promise that is shown to be broken is an answer, whatever became of the others.
    """
    lost = () if found.outcome is Outcome.BROKEN else unmeasured(plan, found, trials)
    if not lost:
        return None
    return AnalysisError(
        f"the gate could not be measured: {say_lost(plan, lost[0])}",
        detail="\n".join(
            f"{item.judged.promise.text} for {subject(plan, item.judged)}: {item.reason}" for item in lost
        ),
        hint=MEND if any(item.sides for item in lost) else _ELSEWHERE,
    )


def say_lost(plan: Plan, lost: Unmeasured) -> str:
    """``2 of 2 trials of this version failed``: the sides that did; or that nothing has the metric."""
    if not lost.sides:
        return f"no {_noun(plan)} has {lost.judged.promise.metric} on both sides"
    noun = "start" if plan.slices_all else "trial"

    def side(failed: FailedSide) -> str:
        judged = lost.judged
        name = failed.cell.variant
        if judged.cell.workload != judged.baseline.workload:
            name = failed.cell.workload
        elif judged.cell.install != judged.baseline.install:
            name = f"PostgreSQL {failed.cell.install}"
        return f"{failed.failed} of {say_count(failed.trials, noun)} of {name}"

    return f"{say_list([side(failed) for failed in lost.sides])} failed"


def say_help(plan: Plan, found: Judgement, trials: Sequence[Trial]) -> tuple[str, ...]:
    """Say what would decide it."""
    undecided = [judged for judged in found.judged if judged.outcome is Outcome.UNDECIDED]
    if found.outcome is not Outcome.UNDECIDED or not found.done:
        return ()
    lost = unmeasured(plan, found, trials)
    if lost:
        # Rounds would fail as these did.
        if not lost[0].sides:
            return (f"The gate: {say_lost(plan, lost[0])}. {_ELSEWHERE}",)
        return (f"The gate: first mend what failed. {say_lost(plan, lost[0])}: {lost[0].reason}.",)
    if any(judged.ratio is None and judged.rounds for judged in undecided):
        return (
            "The gate: of a metric that is above 0 in every trial a promise can be decided; where only one "
            "side has 0, more rounds may show it, too.",
        )
    if any(_is_too_long(plan, judged, trials) for judged in undecided):
        return ("The gate: --design fresh judges such a load, on servers of its own.",)
    lines = [_more_rounds(plan, found, undecided, trials)]
    of_wal = [judged.promise.metric for judged in undecided if judged.promise.metric.startswith("wal_")]
    if of_wal and any(workload.duration_s is not None for workload in plan.workloads):
        lines.append(
            f"The gate: {of_wal[0]} varies less where both sides run equally many transactions "
            "(--transactions 2000; in a study file transactions instead of duration)."
        )
    return tuple(lines)


def _is_too_long(plan: Plan, judged: Judged, trials: Sequence[Trial]) -> bool:
    """Whether its transactions are too long for the slices that it is judged by."""
    is_toggled = plan.variant(judged.cell.variant).design is Design.TOGGLED
    return is_toggled and lasting_ms(plan, trials, judged.cell.install, judged.cell.workload) is not None


def _more_rounds(plan: Plan, found: Judgement, undecided: Sequence[Judged], trials: Sequence[Trial]) -> str:
    each = sum(trial.ended_at - trial.started_at for trial in trials) / found.done
    if any(judged.ratio is not None and judged.interval is None for judged in undecided):
        noun = _noun(plan)
        more = _budget(plan, found, FIRST_ROUNDS, each)
        return (
            f"The gate: one {noun} says nothing about the spread; {more} has room for {FIRST_ROUNDS} {noun}s."
        )
    wanted = [_rounds_wanted(judged) for judged in undecided]
    known = [rounds for rounds in wanted if rounds is not None]
    if len(known) < len(wanted) or max(known) > _ROUNDS_SENSIBLE:
        said = (
            "The gate: no number of rounds that makes sense would decide it. Limits farther from the ratios "
            "would"
        )
        if any(not judged.promise.metric.startswith("wal_") for judged in undecided):
            said += ", and metrics that vary less: WAL bytes vary least"
        return f"{said}."
    # A quarter more: the ratio moves, too.
    more = _budget(plan, found, math.ceil(1.25 * max(known)), each)
    return f"The gate: {more} will probably decide it, if the ratios stay as they are."


def _budget(plan: Plan, found: Judgement, rounds: int, each_s: float) -> str:
    """Options that have room for so many rounds."""
    more = f"--budget {math.ceil(rounds * each_s / 60)}min"
    return f"--rounds {rounds} {more}" if found.done >= plan.rounds else more


def _rounds_wanted(judged: Judged) -> int | None:
    """Rounds after which the interval would exclude its limit, if ratio and spread stay the same; None:
    unknown."""
    if judged.ratio is None or judged.interval is None or judged.interval.low <= 0:
        return None
    reach = math.log(judged.interval.high / judged.interval.low) / 2
    distance = abs(math.log(judged.ratio / judged.promise.limit))
    if distance == 0 or not math.isfinite(reach):
        return None
    return math.ceil(min(judged.rounds * (reach / distance) ** 2, 1e9))


def _expected(judged: Judged) -> str:
    """Whether the budget will probably do."""
    if judged.half_width_then is None or judged.ratio is None or not math.isfinite(judged.half_width_then):
        return ""
    text = f"; +-{say_percent(judged.half_width_then)} expected by the end"
    if math.log1p(judged.half_width_then) > abs(math.log(judged.ratio / judged.promise.limit)):
        text += ", which may not decide it"
    return text


def _noun(plan: Plan) -> str:
    return "start" if plan.slices_all else "round"
