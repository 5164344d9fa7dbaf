"""Is what was chosen better than the default? The trials that say so are fresh: nothing was chosen by them.

The final step decides; without one the last fresh comparison of the conf with the default does.
"""

from __future__ import annotations

import math

from walproof.analysis.contrast import Contrast
from walproof.analysis.tuning.values import compare, compared_in, limit_values
from walproof.facts.tuning import DEFAULT, Candidate, Purpose, Step, TuningFacts

_CONCLUDING = (Purpose.FINAL, Purpose.LINES, Purpose.CONFIRM)
"""Steps of fresh trials by which a gain over the default is proven, the best first. The race is none of them:
it chose the winner."""


def compared_with_default(facts: TuningFacts, conf: Candidate) -> Step | None:
    """The last step with both the conf and the default in its rounds, one of fresh trials if there is one."""
    for purpose in (*_CONCLUDING, Purpose.SEARCH):
        for step in reversed(facts.steps):
            if step.purpose is purpose and conf != DEFAULT and {conf, DEFAULT} <= set(step.candidates):
                return step
    return None


def against_default(facts: TuningFacts, step: Step) -> dict[Candidate, Contrast]:
    """Each configuration of a step against the default."""
    pairs = [(candidate, DEFAULT) for candidate in step.candidates if candidate != DEFAULT]
    compared = compared_in(facts, step, pairs)
    return dict(zip((candidate for candidate, _ in pairs), compared, strict=True))


def second_against_default(facts: TuningFacts, step: Step, conf: Candidate) -> Contrast | None:
    """The second metric of a configuration of the step against the default's; None where there is none."""
    seconds = limit_values(facts, [step.number])
    return compare(seconds, [(conf, DEFAULT)])[0] if seconds.logs else None


def is_beyond(facts: TuningFacts, second: float | None) -> bool:
    """Whether a measured ratio of the second metric to the default's is beyond its limit."""
    return second is not None and facts.plan.objective.beyond(math.log(second)) > 0


def is_proven(facts: TuningFacts, conf: Candidate) -> bool:
    """Whether fresh trials show that the configuration is better than the default."""
    step = compared_with_default(facts, conf)
    if step is None or step.purpose not in _CONCLUDING:
        return False
    interval = against_default(facts, step)[conf].interval()
    return interval is not None and interval.low > 1


def is_advisable(facts: TuningFacts, conf: Candidate) -> bool:
    """Whether the configuration is proven to be better, and was not seen beyond the second metric's limit.

    Where the default breaks a promise nothing has to be better than it.
    """
    step = compared_with_default(facts, conf)
    if step is None or not (facts.is_default_ruled_out or is_proven(facts, conf)):
        return False
    second = second_against_default(facts, step, conf)
    return not is_beyond(facts, ratio(second))


def choosing_steps(facts: TuningFacts) -> list[int]:
    """Numbers of the steps that choose what is advised: all before the final one."""
    purposes = (Purpose.SCREEN, Purpose.SEARCH, Purpose.CONFIRM, Purpose.LINES)
    return [step.number for step in facts.steps if step.purpose in purposes]


def ratio(found: Contrast | None) -> float | None:
    """The ratio that a contrast has measured."""
    return math.exp(found.mean) if found is not None and found.mean is not None else None
