"""``--within 3%``: which cells still need rounds, when to stop, and what to expect meanwhile.

Two stages for each effect (:mod:`walproof.analysis.inference.two_stage`): its first PILOT_ROUNDS rounds fix
how many it gets; after those, where its interval is not narrow enough, the number is extended once, and that
is all. Cells whose effects have their rounds are left out of later rounds, so time goes where intervals are
widest; what the others are compared with is in each. Functions of the plan and its trials alone: a resumed
run goes on as it began.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

from walproof.analysis.effect import Conclusion, Effect, effects, install_effects
from walproof.analysis.inference.two_stage import SeenComparison, rounds_within, width_after
from walproof.analysis.rounds import positive_metric
from walproof.analysis.sweep import ClimbSweeps, sweeps_of
from walproof.analysis.toggled import by_variant
from walproof.facts import Cell, Design, Plan, Trial
from walproof.facts.run import next_round_s

PILOT_ROUNDS = 3
PILOT_STARTS = 2


def pilot_rounds(plan: Plan) -> int:
    """Rounds after which it is known how many a wanted width takes; starts where all variants are toggled."""
    return min(PILOT_STARTS if plan.toggles_all else PILOT_ROUNDS, plan.rounds)


@dataclass(frozen=True)
class Within:
    """The rule of a plan whose ratios are to be known within +- ``half_width``."""

    plan: Plan
    half_width: float
    """Half-width as a share of the ratio (0.03 is 3 %)."""
    metric: str

    def __call__(self, trials: Sequence[Trial]) -> bool:
        """Whether these trials, which make whole rounds, are enough."""
        if not trials or max(trial.round for trial in trials) < pilot_rounds(self.plan):
            return False
        return not self.due(trials) and not ClimbSweeps(self.plan).is_climbing(trials)

    def due(self, trials: Sequence[Trial]) -> Collection[Cell]:
        """Cells that need more rounds, with the cells that they are compared with."""
        due: set[Cell] = set()
        seen = by_variant(self.plan, trials)
        for effect, total in self.rounds(trials):
            if _begun(seen, effect.cell) < total:
                due |= {effect.cell, effect.baseline}
        return due

    def rounds(self, trials: Sequence[Trial]) -> list[tuple[Effect, int]]:
        """For each tried effect, how many rounds of its cell are planned by now."""
        seen = by_variant(self.plan, trials)
        family = _family(self.plan, seen, self.metric)
        tried = {trial.cell for trial in seen}  # a sweep leaves the rest out
        return [(effect, self._planned(seen, effect)) for effect in family if effect.cell in tried]

    def _planned(self, trials: Sequence[Trial], effect: Effect) -> int:
        begun = sorted({trial.round for trial in trials if trial.cell == effect.cell})
        # A start has many groups of passes: the second shows whether it contradicts the first.
        pilot = PILOT_STARTS if effect.design is Design.TOGGLED else PILOT_ROUNDS
        if len(begun) < pilot:
            return pilot
        first = self._needed(trials, effect, begun[pilot - 1], pilot)
        if len(begun) < first:
            return first
        return self._needed(trials, effect, begun[first - 1], first)

    def _needed(self, trials: Sequence[Trial], effect: Effect, until: int, begun: int) -> int:
        """Rounds in all, by what was known after round ``until``; never fewer than were ``begun``."""
        then = next(candidate for candidate in self._until(trials, until) if _is_same(candidate, effect))
        if then.spread is None:
            # A variant whose server never starts does not hold the run up; after a start it gets another try.
            return begun + (then.n == 1)
        if then.toggled is not None:
            # None: groups that do not vary at all need no more.
            return begun + (then.toggled.starts_for(self.half_width) or 0)
        return begun - then.n + rounds_within(SeenComparison(then.spread, then.n), self.half_width)

    def _until(self, trials: Sequence[Trial], number: int) -> Sequence[Effect]:
        # The same rounds are asked about by every effect, and again after every later round.
        part = [trial for trial in trials if trial.round <= number]
        key = tuple((trial.round, trial.cell, positive_metric(trial, self.metric)) for trial in part)
        if key not in self._known:
            self._known[key] = _family(self.plan, part, self.metric)
        return self._known[key]

    @cached_property
    def _known(self) -> dict[tuple[tuple[int, Cell, float | None], ...], Sequence[Effect]]:
        return {}


@dataclass(frozen=True, slots=True)
class DueCells:
    """The cells of a round: those of the plan's sweeps, and the others that are not yet known."""

    plan: Plan
    within: Within | None

    def __call__(self, round_number: int, before: Sequence[Trial]) -> Collection[Cell]:
        """As :class:`walproof.analysis.sweep.ClimbSweeps`."""
        cells = ClimbSweeps(self.plan)(round_number, before)
        if self.within is None or not PILOT_ROUNDS < round_number <= self.plan.rounds:
            return cells
        # Points of a sweep are judged against each other, from rounds that have both.
        points = {point.cell for sweep in sweeps_of(self.plan) for point in sweep.points}
        needed = {*self.within.due(before), *points}
        return [cell for cell in cells if cell in needed or (points and cell.variant == self.plan.baseline)]


@dataclass(frozen=True, slots=True)
class Outlook:
    """What is known after some rounds, and what to expect from the next ones."""

    widest: Effect
    rounds_more: int
    """Rounds that will be run, as far as is known now: limited by the wanted width, the most rounds and the
    budget."""
    seconds_more: float
    wanted_more: int | None
    """Rounds that the wanted width takes, whether there is time or not; None without a wanted width."""
    half_width_then: float
    """Half-width of the widest interval after the rounds that will be run, if spreads stay as seen."""
    widest_then: Effect


def outlook(plan: Plan, trials: Sequence[Trial], metric: str) -> Outlook | None:
    """The outlook after whole rounds; None before the pilot is over, and where no effect has an interval."""
    done = max((trial.round for trial in trials), default=0)
    known = [effect for effect in _family(plan, trials, metric) if effect.half_width is not None]
    if done < pilot_rounds(plan) or not known:
        return None
    more, seconds = rounds_left(plan, trials)
    wanted: int | None = None
    if plan.half_width is not None:
        lacking: dict[Cell, int] = {}
        seen = by_variant(plan, trials)
        for effect, total in Within(plan, plan.half_width, metric).rounds(trials):
            # A cell may be compared twice: with the baseline and with another install.
            rounds = max(lacking.get(effect.cell, 0), total - _begun(seen, effect.cell))
            lacking |= {effect.cell: rounds, effect.baseline: max(lacking.get(effect.baseline, 0), rounds)}
        wanted = max(lacking.values(), default=0)
        more = min(more, wanted)
        seconds = _seconds(plan, trials, lacking, more)
    then = [(_width_then(effect, more), effect) for effect in known]
    width, widest_then = max(then, key=lambda pair: pair[0])
    return Outlook(
        widest=max(known, key=lambda effect: effect.half_width or 0.0),
        rounds_more=more,
        seconds_more=seconds,
        wanted_more=wanted,
        half_width_then=width,
        widest_then=widest_then,
    )


def rounds_left(plan: Plan, trials: Sequence[Trial]) -> tuple[int, float]:
    """How many rounds of the plan follow these whole ones within the budget, and their seconds at most."""
    each = next_round_s(trials)
    more = max(0, plan.rounds - max((trial.round for trial in trials), default=0))
    if plan.budget_s is not None and each > 0:
        spent = sum(trial.ended_at - trial.started_at for trial in trials)
        more = min(more, max(0, int((plan.budget_s - spent) / each)))
    return more, more * each


def _seconds(plan: Plan, trials: Sequence[Trial], lacking: dict[Cell, int], most: int) -> float:
    """Seconds of the rounds that each cell lacks, and of the baseline beside the points of a sweep."""
    total, has_points = 0.0, bool(sweeps_of(plan))
    for cell in {trial.cell for trial in trials}:
        of_cell = [trial.ended_at - trial.started_at for trial in trials if trial.cell == cell]
        rounds = most if has_points and cell.variant == plan.baseline else lacking.get(cell, 0)
        total += min(most, rounds) * sum(of_cell) / len(of_cell)
    return total


def _width_then(effect: Effect, more: int) -> float:
    assert effect.spread is not None
    assert effect.half_width is not None
    if effect.toggled is not None:
        width = effect.toggled.half_width_after(effect.toggled.starts + more)
        return effect.half_width if width is None else width
    return width_after(SeenComparison(effect.spread, effect.n), effect.n + more)


def _begun(trials: Sequence[Trial], cell: Cell) -> int:
    return len({trial.round for trial in trials if trial.cell == cell})


def _is_same(effect: Effect, other: Effect) -> bool:
    return (effect.cell, effect.baseline) == (other.cell, other.baseline)


def _family(plan: Plan, trials: Sequence[Trial], metric: str) -> Sequence[Effect]:
    """What is to be known; a variant that is the baseline under another name takes no time for that."""
    family = (*effects(plan, trials, metric), *install_effects(plan, trials, metric))
    return [effect for effect in family if effect.conclusion is not Conclusion.SAME]
