"""A response table: what each configuration of a small grid really does, and trials drawn from it.

A table that was measured (``measure.py``) has each point's values of several trials; what a replay draws is
the point's geometric mean times the deviation of a trial, resampled from all trials of all points, and times
the deviation of a round, which all trials of a round share. ``walproof.facts.tuning`` has the words.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np

from walproof.facts.tuning import (
    DEFAULT,
    Candidate,
    CandidatePrediction,
    Factor,
    Judge,
    Limit,
    RuledOut,
    Scale,
    Search,
    Step,
    TrialAnswer,
    TuningFacts,
    TuningPlan,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Table:
    """The truth of a replay."""

    factors: tuple[Factor, ...]
    truth: Mapping[Candidate, float]
    """The objective of each candidate of the grid, larger is better."""
    ruled_out: frozenset[Candidate]
    """Those that break a limit."""
    noise: NDArray[np.float64]
    """Deviations of a trial as logarithms, of mean 0, to draw from."""
    round_noise: NDArray[np.float64] = field(default_factory=lambda: np.zeros(1))
    """Deviations that the trials of a round share."""
    trial_s: float = 20.0

    @property
    def best(self) -> float:
        """The best point of the grid under the limits."""
        return max(value for candidate, value in self.truth.items() if candidate not in self.ruled_out)

    def is_good(self, candidate: Candidate, within: float = 0.03) -> bool:
        """Whether a candidate keeps the limits, and the best is at most that share better."""
        return candidate not in self.ruled_out and self.best / self.truth[candidate] - 1 <= within

    def good_points(self, within: float) -> int:
        """How many points are so near the best."""
        return sum(self.is_good(candidate, within) for candidate in self.truth)

    def judge(self, candidate: Candidate) -> tuple[CandidatePrediction, tuple[RuledOut, ...]]:
        """Judge as the tool does: predictions, and the limits that are broken."""
        broken = (RuledOut(Limit.WAL_DISK, "more", "less"),) if candidate in self.ruled_out else ()
        return CandidatePrediction(None, None, None), broken

    def trial(self, candidate: Candidate, step: Step, number: int) -> float:
        """The value of one trial; the same question has the same answer."""
        lines = sum(map(ord, repr(candidate.settings)))
        of_trial = np.random.default_rng([step.seed, number, lines])
        shared = np.random.default_rng([step.seed, number])
        deviation = float(of_trial.choice(self.noise)) + float(shared.choice(self.round_noise))
        return self.truth[candidate] * math.exp(deviation)

    def carry_out(self, facts: TuningFacts, step: Step) -> TuningFacts:
        """The facts after a step whose trials were drawn from the table."""
        measured = tuple(
            TrialAnswer(
                step.number,
                number,
                candidate,
                self.trial(candidate, step, number),
                seconds=self.trial_s,
                device=device,
            )
            for number in range(1, step.rounds + 1)
            for candidate in step.candidates
            for device in (None, *step.devices)
        )
        return replace(
            facts,
            steps=(*facts.steps, step),
            measured=(*facts.measured, *measured),
            spent_s=facts.spent_s + self.trial_s * len(measured),
            trial_s=self.trial_s,
        )


def tuned(table: Table, plan: TuningPlan, search: Search, steps_most: int = 200) -> Iterator[TuningFacts]:
    """The facts after each step, until the search is over."""
    facts = TuningFacts(plan, trial_s=table.trial_s)
    for _ in range(steps_most):
        step = search.ask(facts)
        if step is None:
            return
        facts = table.carry_out(facts, step)
        yield facts
    raise RuntimeError(f"a search that does not end: {steps_most} steps")


def load(path: Path) -> Table:
    """A measured table: JSON Lines of ``measure.py``, a head and a line a trial.

    Values of a point are those of its rounds; a round's level is taken from each, as all trials of a round
    share it, and goes into ``round_noise``.
    """
    head, *rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]
    factors = tuple(
        Factor(
            factor["setting"],
            tuple(factor["choices"]),
            Scale(factor["scale"]) if factor["scale"] else None,
            factor["default"],
            "fresh",
            tuple((need[0], need[1]) for need in factor.get("needs", ())),
        )
        for factor in head["factors"]
    )
    logs: dict[Candidate, dict[int, float]] = {}
    seconds, broken = [], set()
    for row in rows:
        candidate = Candidate.of(row["settings"])
        if row.get("broken"):
            broken.add(candidate)
        if row["value"]:
            log = math.log(row["value"]) * (1 if head["larger_is_better"] else -1)
            logs.setdefault(candidate, {})[row["round"]] = log
            seconds.append(row["seconds"])
    return table_of(factors, logs, frozenset(broken), fmean(seconds))


def table_of(
    factors: Sequence[Factor],
    logs: Mapping[Candidate, Mapping[int, float]],
    broken: frozenset[Candidate],
    trial_s: float,
) -> Table:
    """From each point's log value in each round: round + point + rest, least squares of a complete table."""
    rounds = sorted({number for by_round in logs.values() for number in by_round})
    points = {candidate: fmean(by_round.values()) for candidate, by_round in logs.items()}
    levels = {
        number: fmean(
            by_round[number] - points[candidate] for candidate, by_round in logs.items() if number in by_round
        )
        for number in rounds
    }
    rest = [
        log - points[candidate] - levels[number]
        for candidate, by_round in logs.items()
        for number, log in by_round.items()
    ]
    # A point's mean and a round's level took degrees of freedom with them.
    degrees = max(1, len(rest) - len(points) - len(rounds) + 1)
    scale = math.sqrt(len(rest) / degrees)
    shared = np.array(list(levels.values()))
    return Table(
        tuple(factors),
        {candidate: math.exp(log) for candidate, log in points.items()},
        broken,
        np.array(rest) * scale,
        shared - shared.mean(),
        trial_s,
    )


__all__ = ["DEFAULT", "Judge", "Table", "load", "table_of", "tuned"]
