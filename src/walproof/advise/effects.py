"""Rules about what a variant gains or loses, what it risks for that, and which trials failed."""

from __future__ import annotations

from walproof.advise.case import Case, pair_numbers
from walproof.advise.finding import Finding, FindingKind
from walproof.advise.wording import (
    NOT_KNOWN,
    is_unknown,
    is_vague,
    say_ratio,
    say_ratio_in_brackets,
)
from walproof.analysis.effect import Conclusion, Effect
from walproof.analysis.precision import rounds_for
from walproof.facts import Design
from walproof.facts.metrics import metric
from walproof.sentences import say_percent
from walproof.settings.durability import DurabilityClass

_UNITS = {Design.FRESH: "rounds", Design.TOGGLED: "starts of the server", Design.SLICED: "starts"}
_BLIND = 0.50
"""From this half-width on a number says nothing: 100 % and more cannot be lost."""
COARSE = 0.10
"""From this half-width on, "no measurable difference" has to say how wide its interval is."""


def throughput(case: Case) -> Finding | None:
    """The variant's ratio to the baseline, its risk first."""
    effect = case.effect
    if effect is None or effect.ratio is None:
        return None
    noun = metric(effect.metric).heading
    ratio = say_ratio(effect.ratio, effect.interval)
    if effect.conclusion is Conclusion.SAME:
        sentence = f"nothing that acts differs from {case.plan.baseline}: {ratio} of its {noun} is chance"
    elif effect.conclusion is Conclusion.TOO_FEW:
        sentence = f"{ratio} the {noun} of {case.plan.baseline} in the only round, so without an interval"
    elif effect.conclusion is Conclusion.NO_DIFFERENCE and effect.interval:
        inside = say_ratio_in_brackets(effect.ratio, effect.interval)
        answer = NOT_KNOWN if is_vague(effect.interval) else "no measurable difference"
        figures = "" if is_unknown(effect.interval) else f" ({inside})"
        sentence = f"{answer}{figures}{_blind_spot(effect)}"
    elif effect.conclusion is Conclusion.IN_DOUBT:
        sentence = (
            f"{ratio} the {noun} of {case.plan.baseline}, but of {effect.comparisons} comparisons "
            "one looks so by chance"
        )
    else:
        sentence = f"{ratio} the {noun} of {case.plan.baseline}"
    durability = case.variant.durability
    if durability is not DurabilityClass.NONE:
        sentence = f"{durability.value}; {sentence}"
    if effect.left_out:
        sentence += f"; {effect.left_out} of {effect.n + effect.left_out} rounds left out"
    metrics = {"ratio": effect.ratio, "rounds": float(effect.n)}
    if effect.interval:
        metrics |= {"ratio_low": effect.interval.low, "ratio_high": effect.interval.high}
    return case.find(FindingKind.EFFECT, sentence, metrics, pair_numbers(effect))


def _blind_spot(effect: Effect) -> str:
    """How wide the interval is. A difference as large as its half-width is seen in every second run only."""
    if effect.half_width is None or effect.half_width <= COARSE:
        return ""
    more = rounds_for(effect, 0.05)
    noun = _UNITS[effect.design]
    said = f"; with {effect.n} {noun} " + (
        "hardly any difference could have been seen"
        if effect.half_width > _BLIND
        else f"the ratio is known within ± {say_percent(effect.half_width)} only"
    )
    if more is None:
        return f"{said}, since they contradict each other"
    return f"{said}; {more} more would make the interval ± 5 %"


def failed_trials(case: Case) -> Finding | None:
    """How many of the cell's trials failed, and the most frequent reason."""
    failures = [f for f in case.analysis.failures if (f.install, f.workload, f.variant) == case.cell]
    if not failures:
        return None
    worst = max(failures, key=lambda failure: len(failure.trials))
    count = sum(len(failure.trials) for failure in failures)
    trials = tuple(sorted(number for failure in failures for number in failure.trials))
    return Finding(
        kind=FindingKind.FAILURE,
        install=case.cell[0],
        workload=case.cell[1],
        variant=case.cell[2],
        durability=case.variant.durability,
        sentence=f"{count} of {count + len(case.finished)} trials failed: {worst.reason}",
        trials=trials,
        metrics={"failed_trials": float(count)},
    )
