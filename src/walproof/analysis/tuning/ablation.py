"""Which lines of the winner earn their place?

The first lines step removes each line from the winner and gives each line alone to the default, all in the
same rounds. Lines whose gain is not proven there are then dropped one at a time, weakest first: a second
step, with a new seed, measures the winner and every shorter conf of that chain in the same rounds. Lines are
dropped as long as the shorter conf has neither measured worse than the margin nor is guessed to be worse. The
final step removes each line from the short conf that is left: there a line may give more or less than within
the winner.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from walproof.analysis.contrast import Contrast
from walproof.analysis.inference.family import Compared, family_p_values
from walproof.analysis.inference.spread import Pooling
from walproof.analysis.tuning.space import Space
from walproof.analysis.tuning.values import compare, compared_in, objective_values
from walproof.facts.tuning import DEFAULT, Candidate, Purpose, Step, TuningFacts

PROVEN_P = 0.05
"""Highest p value, adjusted for all lines together (max-|t|), at which a line's gain is proven."""


@dataclass(frozen=True, slots=True)
class LineTest:
    """What one line of a conf was seen to do."""

    setting: str
    value: str
    left_out: Contrast | None
    """The conf without the line, against the conf; None if not measured."""
    added: Contrast | None
    """The default with the line, against the default; None if not measured."""
    p: float | None
    """p value of ``left_out``, adjusted for all lines."""
    is_needed: bool
    """Whether a promise is broken without the line."""

    def is_proven(self, tests: int = 1) -> bool:
        """Whether the conf is slower without it; ``tests``: how many such tests the claim may rest on."""
        mean = self.left_out.mean if self.left_out else None
        return mean is not None and mean < 0 and self.p is not None and self.p * tests <= PROVEN_P

    @property
    def loss(self) -> float:
        """Log ratio that is lost without the line; infinite if not known."""
        mean = self.left_out.mean if self.left_out else None
        return -mean if mean is not None else math.inf


def first_candidates(
    space: Space, winner: Candidate, admits: Callable[[Candidate], bool], both: bool = True
) -> tuple[Candidate, ...]:
    """The winner, the default, the winner without each line, the default with each line."""
    fewer = [space.without(winner, name) for name, _ in winner.settings]
    alone = [space.candidate({name: value}) for name, value in winner.settings] if both else []
    return tuple(
        dict.fromkeys([winner, DEFAULT, *(candidate for candidate in [*fewer, *alone] if admits(candidate))])
    )


def final_candidates(
    space: Space,
    winner: Candidate,
    short: Candidate,
    own: Candidate | None,
    admits: Callable[[Candidate], bool],
) -> tuple[tuple[Candidate, ...], ...]:
    """What the final step may measure, the most first: with less time, without the winner, without lines,
    without both, and without the user's configuration, ``own``."""
    fewer = [space.without(short, name) for name, _ in short.settings]
    allowed = [candidate for candidate in fewer if admits(candidate)]
    least = least_candidates(short, own)
    first = least[0]
    plans = ((*first, winner, *allowed), (*first, *allowed), (*first, winner), *least)
    return tuple(dict.fromkeys(tuple(dict.fromkeys(plan)) for plan in plans))


def least_candidates(short: Candidate, own: Candidate | None) -> tuple[tuple[Candidate, ...], ...]:
    """What is compared at least: with the default, and while there is time with the user's configuration."""
    alone = (DEFAULT, short)
    return (alone,) if own is None or own in alone else ((*alone, own), alone)


def line_tests(
    facts: TuningFacts, space: Space, step: Step, conf: Candidate, admits: Callable[[Candidate], bool]
) -> tuple[LineTest, ...]:
    """What a step showed of each line of a conf, in its order: the first lines step, or the final one."""
    fewer = {name: space.without(conf, name) for name, _ in conf.settings}
    alone = {name: space.candidate({name: value}) for name, value in conf.settings}
    measured = set(step.candidates)
    left = [name for name in fewer if fewer[name] in measured]
    compared = compared_in(facts, step, [(fewer[name], conf) for name in left])
    found = dict(zip(left, compared, strict=True))
    p_values = family(list(found.values()))
    given = [name for name in alone if alone[name] in measured and alone[name] != DEFAULT]
    compared = compared_in(facts, step, [(alone[name], DEFAULT) for name in given])
    added = dict(zip(given, compared, strict=True))
    return tuple(
        LineTest(
            name,
            value,
            found.get(name),
            added.get(name),
            p_values[left.index(name)] if name in found else None,
            admits(conf) and not admits(fewer[name]),
        )
        for name, value in conf.settings
    )


def family(found: list[Contrast]) -> list[float | None]:
    """p value of each comparison with one baseline, adjusted for all of them."""
    present = [
        Compared(
            comparison.p,
            comparison.spread.degrees,
            comparison.baseline,
            comparison.spread.shared,
            comparison.spread.pooling is not Pooling.OWN,
        )
        for comparison in found
        if comparison.p is not None and comparison.spread is not None
    ]
    adjusted = iter(family_p_values(present))
    return [
        next(adjusted) if comparison.p is not None and comparison.spread is not None else None
        for comparison in found
    ]


def chain(
    space: Space, winner: Candidate, tests: tuple[LineTest, ...], admits: Callable[[Candidate], bool]
) -> tuple[Candidate, ...]:
    """The winner, then ever shorter confs: each drops one more line, the weakest that is not proven.

    A line without which a promise or the second metric's limit is broken stays, whatever its gain.
    """
    confs = [winner]
    for test in sorted(tests, key=lambda line_test: (line_test.loss, line_test.setting)):
        fewer = space.without(confs[-1], test.setting)
        if not test.is_proven() and not test.is_needed and fewer != confs[-1] and admits(fewer):
            confs.append(fewer)
    return tuple(confs)


def spaced(confs: tuple[Candidate, ...], most: int) -> tuple[Candidate, ...]:
    """At most ``most`` confs of a chain: its ends, and others evenly spaced between them."""
    if len(confs) <= most:
        return confs
    return tuple(confs[round(at * (len(confs) - 1) / (most - 1))] for at in range(most))


def shortest(
    facts: TuningFacts,
    step: Step,
    guessed: Mapping[Candidate, float],
    keeps: Callable[[Candidate], bool] = lambda candidate: True,
) -> Candidate:
    """The last conf of a measured chain before the first that is worse than the margin allows.

    ``guessed`` has each shorter conf's log ratio to the winner as everything measured lets it guess. Where
    noise is large the few rounds of the chain would give back lines that all other trials speak for.
    ``keeps``: whether a conf's second metric is within its limit; others are passed over.
    """
    winner, *shorter = step.candidates
    found = compare(objective_values(facts, [step.number]), [(conf, winner) for conf in shorter])
    short = winner
    for conf, contrast in zip(shorter, found, strict=True):
        if not is_close(contrast, facts.plan.margin) or guessed[conf] <= math.log1p(-facts.plan.margin):
            break
        if keeps(conf):
            short = conf
    return short


def is_close(found: Contrast, margin: float) -> bool:
    """Whether a conf measured within the margin and is not proven to be worse at all."""
    interval = found.interval()
    if found.mean is None or (interval is not None and interval.high < 1):
        return False
    return found.mean > math.log1p(-margin)


def chain_step(facts: TuningFacts) -> Step | None:
    """The step that measures the chain: the second lines step; None before there is one."""
    steps = [step for step in facts.steps if step.purpose is Purpose.LINES]
    return steps[1] if len(steps) > 1 else None
