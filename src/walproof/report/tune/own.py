"""What is said of the user's own configuration, and whether there is a reason to take its lines out."""

from __future__ import annotations

from walproof.advise.tune.answer import TuneAnswer
from walproof.advise.tune.conclusion import Conclusion
from walproof.analysis.interval import Interval
from walproof.analysis.tuning.blocks import Blocks
from walproof.analysis.tuning.race import second_limit
from walproof.analysis.tuning.space import Space
from walproof.analysis.tuning.values import objective_values
from walproof.facts.tuning import DEFAULT, TuningFacts
from walproof.report.tune.names import gained


def own_sentence(facts: TuningFacts, answer: TuneAnswer) -> str | None:
    """What is advised, or the defaults where these are best, beside the user's own configuration."""
    outcome, own = answer.outcome, facts.plan.own
    if own is None or answer.own_broken:
        return None
    if answer.conf == own:
        return "It is your own configuration."
    stays = "" if is_own_judged(facts, answer) else " Your own lines stay."
    if outcome.to_own is not None:
        compared = gained(outcome.to_own, outcome.to_own_interval, outcome.rounds)
        what = "The defaults compared" if answer.conf == DEFAULT else "Compared"
        return f"{what} with your own configuration: {compared}.{stays}"
    tried = Space(facts.plan).candidate(own.conf)
    if answer.conf == DEFAULT and any(tried in step.candidates for step in facts.steps):
        if _is_beyond(facts):
            return "Your own configuration was tried, and did not keep the limit of --no-worse."
        if stays:
            return f"Your own configuration was tried: these trials cannot tell what it gives.{stays}"
        return "Your own configuration was tried, and gives no more than the defaults."
    return None


def is_own_judged(facts: TuningFacts, answer: TuneAnswer) -> bool:
    """Whether there is a reason to take lines of the user's out: another configuration is advised, or the
    defaults are best and theirs breaks a promise or the limit of --no-worse, or is shown to give no more than
    the margin.

    That a few trials did not show a gain is none.
    """
    if answer.conclusion is not Conclusion.DEFAULTS or answer.own_broken or _is_beyond(facts):
        return True
    interval = own_interval(facts, answer)
    return interval is not None and interval.high < 1 + facts.plan.margin


def own_interval(facts: TuningFacts, answer: TuneAnswer) -> Interval | None:
    """Interval of the user's own configuration's ratio to the defaults, where these are best; None without
    one, or where they were not compared."""
    if answer.outcome.to_own_interval is not None:
        return answer.outcome.to_own_interval.inverse()
    own = facts.plan.own
    if own is None:
        return None
    found = Blocks(objective_values(facts)).estimate(Space(facts.plan).candidate(own.conf), DEFAULT)
    return None if found is None else found.interval()


def is_own_better(facts: TuningFacts, answer: TuneAnswer) -> bool:
    """Whether the user's own configuration keeps the promises and is better than what is advised, by more
    than the margin."""
    to_own, own = answer.outcome.to_own_interval, facts.plan.own
    if answer.conclusion is not Conclusion.ADVISED or answer.own_broken or to_own is None or own is None:
        return False
    return to_own.high < 1 - facts.plan.margin and not _is_beyond(facts)


def _is_beyond(facts: TuningFacts) -> bool:
    """Whether the user's own configuration was measured beyond the limit of --no-worse."""
    own = facts.plan.own
    beyond = None if own is None else second_limit(facts)(Space(facts.plan).candidate(own.conf))
    return beyond is not None and beyond > 0
