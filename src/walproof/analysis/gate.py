"""A gate: which of its promises hold, which are broken, and when that is known.

Every promise is judged for every comparison of the plan (a variant with the baseline, an install with the
first, a workload with the one it is compared with). A few looks are planned
(:mod:`walproof.analysis.inference.looks`); at each of them a promise has an interval that holds over all
looks and all comparisons:

- the whole interval beyond the limit: broken;
- the whole interval on the allowed side: it holds;
- the limit within the interval: undecided, and more rounds follow, up to the budget.

Where the changed side failed alone in more rounds than the other did alone, nothing holds: the rounds that
are left are those in which the change happened to work. What they show to be broken stays broken. A start of
slices runs both sides; which of them made it fail is not known, so it counts as a failure of the changed one.

A metric of which trials have 0 has no ratios: a promise about it is undecided, and no round can change that.
Two things are known without one, as long as they stay so. What is 0 in every trial of the new side is above
no limit. And where every trial of one side has 0 and none of the other, the new side being the worse one, the
promise is broken once so many rounds of one sign are no chance (the sign test): a change under which nothing
ends at all is worse than a slow one.

Errors. Broken needs proof that the limit is crossed, and so does holding that it is not: where a ratio lies
exactly at its limit, each of the two is concluded by mistake in at most ``FALSE_RATE / comparisons`` of the
gates. A gate is broken when one promise is, so by Bonferroni's inequality at most ``FALSE_RATE`` of the gates
whose ratios all keep their limits are called broken, however promises depend on each other. A gate holds when
all promises do; that is called so by mistake even less often, as the broken one must be mistaken.

The number of rounds at most follows from the budget and from the length of the first rounds, which tell
nothing of a ratio, so that limits stay what they were planned to be. All here are functions of the plan and
of its trials: a run that is resumed looks at the same rounds and decides the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from walproof.analysis.carry_over import say_lasting, say_left
from walproof.analysis.effect import Effect, effects, install_effects, workload_effects
from walproof.analysis.inference.looks import PlannedLook, looks, planned_looks
from walproof.analysis.inference.two_stage import SeenComparison, width_after
from walproof.analysis.interval import LEVEL, Interval
from walproof.analysis.offered import Unreached, unreached
from walproof.analysis.toggled import by_variant
from walproof.analysis.within import PILOT_STARTS
from walproof.analysis.zeros import Zeros, say_apart, signs_wanted, zeros_of
from walproof.facts import Cell, Design, Gate, Plan, Promise, Trial, TrialState
from walproof.facts.gate import Side
from walproof.sentences import say_count

FALSE_RATE = 0.03
"""Share of gates that keep all limits and may be called broken."""
FIRST_ROUNDS = 4
"""Rounds before the first look, when a server is started for each trial: the spread has to be known."""


class Outcome(Enum):
    """What is known about a promise, or of all together."""

    HOLDS = "holds"
    BROKEN = "broken"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Judged:
    """A promise, judged for one comparison."""

    promise: Promise
    cell: Cell
    baseline: Cell
    outcome: Outcome
    ratio: float | None
    """Ratio at the look that decided, or at the last one; None before, or if no round has both values."""
    interval: Interval | None
    """Interval at that look: it holds over all looks, with all comparisons counted."""
    rounds: int
    """Rounds that have both values at that look."""
    reason: str | None
    """Why it is undecided, how it is decided without a ratio, or what to doubt of it."""
    half_width_then: float | None = None
    """Half-width of the interval at the last planned look, as a share, if the spread stays as seen; None:
    unknown."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a gate's trials say."""

    outcome: Outcome
    judged: tuple[Judged, ...]
    looks: tuple[int, ...]
    """Rounds after which a look was or will be taken; one look is planned before the length of rounds is
    known."""
    done: int
    """The round of the last look; 0 before the first."""
    is_over: bool
    """Whether further rounds can change nothing."""
    false_rate: float = FALSE_RATE


def judge(plan: Plan, trials: Sequence[Trial], *, is_finished: bool) -> Judgement | None:
    """The gate of the plan, by its trials; None for a plan without one.

    ``is_finished``: no round will follow; then rounds after the last planned look are judged, too.
    Raises AnalysisError when a round holds a cell twice.
    """
    gate = plan.gate
    if gate is None:
        return None
    whole = _whole_rounds(plan, trials)
    planned = _planned(plan, trials, whole)
    reached = tuple(number for number in planned if number <= whole)
    if is_finished and whole and whole < planned[-1] and whole not in reached:
        # The budget was over before the next look: what there is, is looked at.
        planned = reached = (*reached, whole)
    state, done, is_over = _all_looks(plan, gate, trials, planned, reached)
    if not reached:
        return Judgement(Outcome.UNDECIDED, tuple(state), planned, 0, is_over=is_finished)
    if is_finished and not is_over and done < planned[-1]:
        # The budget was over at this look: as the last it spends what is left of the error.
        planned = reached
        state, done, _ = _all_looks(plan, gate, trials, planned, reached)
    seen = by_variant(plan, trials)
    state = [_of_slices(plan, _of_failures(judged, seen), trials) for judged in state]
    outcome = _together(state)
    return Judgement(
        outcome=outcome,
        judged=tuple(_with_reason(judged, outcome, seen) for judged in state),
        looks=planned,
        done=done,
        is_over=is_over or is_finished or done == planned[-1],
    )


def _all_looks(
    plan: Plan, gate: Gate, trials: Sequence[Trial], planned: Sequence[int], reached: Sequence[int]
) -> tuple[list[Judged], int, bool]:
    """The looks so far: what they say, the round of the last, and whether further ones can change nothing."""
    state = [_unseen(promise, pair) for promise, pair in _pairs(plan, gate)]
    limits = looks([number / planned[-1] for number in planned], 2 * FALSE_RATE / len(state))
    done = 0
    for number, limit in zip(reached, limits, strict=False):
        ahead = _Ahead(planned[-1] - number, 1 - limits[-1].p)
        state = _looked(plan, gate, trials, number, limit, state, ahead)
        done = number
        undecided = [judged for judged in state if judged.outcome is Outcome.UNDECIDED]
        # Beside one that nothing can decide, another may still be shown to be broken.
        if _together(state) is not Outcome.UNDECIDED or all(_is_hopeless(judged) for judged in undecided):
            return state, done, True
    return state, done, False


@dataclass(frozen=True, slots=True)
class GateRule:
    """Ends a run when its gate is decided, or cannot be."""

    plan: Plan

    def __call__(self, trials: Sequence[Trial]) -> bool:
        """Whether these trials, which make whole rounds, are enough."""
        found = judge(self.plan, trials, is_finished=False)
        return found is not None and found.is_over


def _pairs(plan: Plan, gate: Gate) -> list[tuple[Promise, Effect]]:
    """Every promise with every comparison, before the first trial."""
    return [
        (promise, effect)
        for promise in gate.promises
        for effect in compared_effects(plan, gate, (), promise.metric)
    ]


def compared_effects(
    plan: Plan, gate: Gate, trials: Sequence[Trial], metric: str, level: float = LEVEL
) -> tuple[Effect, ...]:
    """The ratios that the gate is about: of versions of a load, of installs, or of variants.

    Raises AnalysisError when a round holds a cell twice.
    """
    if gate.against is not None:
        return workload_effects(plan, gate.against, trials, metric, level)
    if len(plan.installs) > 1:
        return install_effects(plan, trials, metric, level)
    return effects(plan, trials, metric, level)


def _unseen(promise: Promise, effect: Effect) -> Judged:
    return Judged(promise, effect.cell, effect.baseline, Outcome.UNDECIDED, None, None, 0, "no look yet")


def _whole_rounds(plan: Plan, trials: Sequence[Trial]) -> int:
    """The last round up to which no round lacks a trial."""
    counts: dict[int, int] = {}
    for trial in trials:
        counts[trial.round] = counts.get(trial.round, 0) + 1
    number = 0
    while counts.get(number + 1, 0) >= len(plan.round_cells(number + 1)) > 0:
        number += 1
    return number


def _planned(plan: Plan, trials: Sequence[Trial], whole: int) -> tuple[int, ...]:
    """The rounds after which to look. Before the first look nobody knows how many rounds fit the budget."""
    first = min(plan.rounds, PILOT_STARTS if plan.toggles_all else FIRST_ROUNDS)
    if whole < first:
        return (first,)
    most = plan.rounds
    if plan.budget_s is not None:
        lengths = [
            sum(trial.ended_at - trial.started_at for trial in trials if trial.round == number)
            for number in range(1, first + 1)
        ]
        # A round is begun where one as long as the longest still fits.
        each = max(sum(lengths) / first, 1e-3)
        room = int((plan.budget_s - max(lengths)) / each) + 1
        most = min(plan.rounds, max(first, room))
    return planned_looks(first, most)


@dataclass(frozen=True, slots=True)
class _Ahead:
    """The way from a look to the last planned one."""

    rounds: int
    level: float
    """Level of the intervals there."""

    def half_width(self, effect: Effect) -> float | None:
        """Half-width of the effect's interval there, if the spread stays as seen."""
        if effect.spread is None:
            return None
        if effect.toggled is not None:
            return effect.toggled.half_width_after(effect.toggled.starts + self.rounds, self.level)
        return width_after(SeenComparison(effect.spread, effect.n), effect.n + self.rounds, self.level)


def _looked(
    plan: Plan,
    gate: Gate,
    trials: Sequence[Trial],
    number: int,
    limit: PlannedLook,
    state: Sequence[Judged],
    ahead: _Ahead,
) -> list[Judged]:
    """The state after the look at round ``number``; what an interval decided before stays so."""
    part = [trial for trial in trials if trial.round <= number]
    seen = by_variant(plan, part)
    found: dict[tuple[str, Cell, Cell], Effect] = {}
    for metric in dict.fromkeys(judged.promise.metric for judged in state if not _is_settled(judged)):
        for effect in compared_effects(plan, gate, part, metric, 1 - limit.p):
            found[metric, effect.cell, effect.baseline] = effect
    after = []
    for judged in state:
        if _is_settled(judged):
            after.append(judged)
            continue
        zeros = zeros_of(judged.cell, judged.baseline, seen, judged.promise.metric)
        if zeros is not None:
            after.append(_without_ratio(judged, zeros, signs_wanted(FALSE_RATE / len(state)), ahead))
            continue
        queue = unreached(plan, seen, judged.baseline) if _is_latency(judged.promise.metric) else None
        effect = found[judged.promise.metric, judged.cell, judged.baseline]
        if queue is not None:
            after.append(_of_a_queue(judged, effect, queue))
            continue
        after.append(
            Judged(
                promise=judged.promise,
                cell=judged.cell,
                baseline=judged.baseline,
                outcome=_outcome(judged.promise, effect.interval),
                ratio=effect.ratio,
                interval=effect.interval,
                rounds=effect.n,
                reason=None,
                half_width_then=ahead.half_width(effect),
            )
        )
    return after


def _is_latency(metric: str) -> bool:
    return metric.startswith("latency_ms_")


def _of_a_queue(judged: Judged, effect: Effect, queue: Unreached) -> Judged:
    """Undecided: with more load than a server can do, latencies grow with the window on either side."""
    return replace(
        judged,
        outcome=Outcome.UNDECIDED,
        ratio=effect.ratio,
        interval=effect.interval,
        rounds=effect.n,
        reason=f"{queue.cell.variant} reached {queue.reached_tps:.4g} of the {queue.rate_tps:.6g} "
        "transactions/s that were offered: its latencies are those of a queue; offer less",
        half_width_then=None,
    )


def _is_settled(judged: Judged) -> bool:
    """Whether an interval has decided it. Zeros hold only until a trial has more: no level is theirs."""
    return judged.outcome is not Outcome.UNDECIDED and judged.interval is not None


def _without_ratio(judged: Judged, zeros: Zeros, wanted: int, ahead: _Ahead) -> Judged:
    """Judged by what can be said of zeros. ``wanted``: rounds of one sign that are no chance."""
    is_above = judged.promise.side is Side.ABOVE
    outcome = Outcome.UNDECIDED
    reason: str | None = f"{zeros.zeros} of {zeros.trials} trials have 0 of it: no ratio"
    if zeros.is_apart and zeros.is_cell_zero is not is_above:
        reason = say_apart(judged.promise.side)
        if zeros.rounds >= wanted:
            outcome = Outcome.BROKEN
        elif zeros.rounds + ahead.rounds >= wanted:
            reason = None  # rounds follow, which may decide it
        else:
            reason += f"; {wanted} rounds, which the budget has no room for, would show that it is no chance"
    elif zeros.is_cell_zero and zeros.rounds > 0 and is_above:
        outcome = Outcome.HOLDS
    return replace(
        judged,
        outcome=outcome,
        ratio=None,
        interval=None,
        rounds=zeros.rounds,
        reason=reason,
        half_width_then=None,
    )


def failed_alone(judged: Judged, trials: Sequence[Trial]) -> bool:
    """Whether rounds in which what is judged failed alone outnumber those in which what it is compared with
    did: the rounds that are left are those in which the change happened to work. ``trials``: by variant."""
    own, other = _rounds_alone(judged, trials)
    return own > other


def _rounds_alone(judged: Judged, trials: Sequence[Trial]) -> tuple[int, int]:
    """Rounds in which only what is judged failed, and rounds in which only what it is compared with did.

    A start of slices is one trial of both sides. Nobody knows which of them made it fail, so it is counted
    against what is judged.
    """
    own, other = (
        {
            trial.round: trial.number
            for trial in trials
            if trial.cell == cell and trial.state is TrialState.FAILED
        }
        for cell in (judged.cell, judged.baseline)
    )
    alone = [round_ for round_, number in own.items() if other.get(round_) in (None, number)]
    return len(alone), len(other.keys() - own.keys())


def _of_failures(judged: Judged, trials: Sequence[Trial]) -> Judged:
    """Undecided, where it would hold and its side failed alone more often."""
    if judged.outcome is not Outcome.HOLDS or not failed_alone(judged, trials):
        return judged
    own = [trial for trial in trials if trial.cell == judged.cell]
    failed = [trial for trial in own if trial.state is TrialState.FAILED]
    first = (failed[0].reason or "no reason stored").splitlines()[0]
    alone, _ = _rounds_alone(judged, trials)
    others = [
        trial.number for trial in trials if trial.cell == judged.baseline and trial.state is TrialState.FAILED
    ]
    beside = (
        f"{len(others)} of what it is compared with; it failed alone in {say_count(alone, 'round')}"
        if others
        else "none of what it is compared with"
    )
    reason = f"{len(failed)} of its {len(own)} trials failed, and {beside}: {first}"
    if any(trial.number in others for trial in failed):
        reason = f"{len(failed)} of its {len(own)} starts failed, and a start runs both sides: {first}"
    return replace(judged, outcome=Outcome.UNDECIDED, reason=reason, half_width_then=None)


def _of_slices(plan: Plan, judged: Judged, trials: Sequence[Trial]) -> Judged:
    """Undecided, where the load's transactions are too long for toggled slices: they make a ratio too near 1,
    so that nothing but what lies beyond it is shown. What the variant leaves to its neighbours is said.
    """
    if plan.variant(judged.cell.variant).design is not Design.TOGGLED:
        return judged
    doubtful = Outcome.BROKEN if judged.promise.is_broken_by_no_change else Outcome.HOLDS
    why = say_lasting(plan, trials, judged.cell.install, judged.cell.workload)
    if judged.outcome is doubtful and why is not None:
        return replace(judged, outcome=Outcome.UNDECIDED, reason=why, half_width_then=None)
    if judged.outcome is Outcome.UNDECIDED or judged.reason is not None:
        return judged
    return replace(judged, reason=say_left(plan, trials, judged.cell, judged.promise.metric))


def _is_hopeless(judged: Judged) -> bool:
    """Whether no further round can decide it."""
    return judged.rounds == 0 or (judged.outcome is Outcome.UNDECIDED and judged.reason is not None)


def _outcome(promise: Promise, interval: Interval | None) -> Outcome:
    if interval is None:
        return Outcome.UNDECIDED
    if promise.is_broken_by(interval.low, interval.high):
        return Outcome.BROKEN
    return Outcome.HOLDS if promise.is_kept_by(interval.low, interval.high) else Outcome.UNDECIDED


def _together(state: Sequence[Judged]) -> Outcome:
    outcomes = {judged.outcome for judged in state}
    if Outcome.BROKEN in outcomes:
        return Outcome.BROKEN
    return Outcome.HOLDS if outcomes == {Outcome.HOLDS} else Outcome.UNDECIDED


def _with_reason(judged: Judged, outcome: Outcome, trials: Sequence[Trial]) -> Judged:
    """The promise with the reason why it is undecided."""
    if judged.outcome is not Outcome.UNDECIDED or judged.reason is not None:
        return judged
    if judged.rounds == 0:
        failed = [
            trial.reason
            for trial in trials
            if trial.cell in (judged.cell, judged.baseline) and trial.state is TrialState.FAILED
        ]
        why = f"trials failed: {failed[0]}" if failed else _missing(judged, trials)
        return replace(judged, reason=f"no round has both values; {why}")
    if judged.ratio is None:
        said = say_apart(judged.promise.side)
        return replace(judged, reason=f"{said}; so few rounds do not show that it is no chance")
    if judged.interval is None:
        return replace(judged, reason="one round does not show how much the ratio varies")
    if outcome is Outcome.BROKEN:
        return replace(judged, reason="the run ended because another promise is broken")
    return replace(judged, reason="the limit lies within the interval")


def _missing(judged: Judged, trials: Sequence[Trial]) -> str:
    """Say of which side no trial has the metric."""
    metric = judged.promise.metric
    has = [
        any(metric in trial.metrics for trial in trials if trial.cell == cell)
        for cell in (judged.cell, judged.baseline)
    ]
    if all(has):
        return f"each side has {metric} in other rounds"
    if not any(has):
        return f"no trial has {metric}"
    return f"no trial of what {'it is compared with' if has[0] else 'is judged'} has {metric}"
