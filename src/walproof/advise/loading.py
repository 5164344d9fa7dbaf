"""Which steps a load of this table should have: all except those that were measured to gain nothing. The
baseline is a load with every step that the table allows; each step is measured by leaving it out. What takes
the place of a step (sessions, wal_level=minimal, UNLOGGED) is measured as a variant of its own. A step whose
interval is too wide to tell stays only if all steps together clearly beat a load without any, since that
whole was measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from walproof.advise.wording import is_vague
from walproof.analysis.effect import Conclusion, Effect
from walproof.analysis.interval import Interval
from walproof.analysis.summary import Analysis
from walproof.facts import Plan, Variant
from walproof.settings.durability import DurabilityClass

WITHOUT = "without "
"""The name of a variant that leaves out one step begins like this; the step's name follows."""
PLAIN = "plain "
"""The name of a variant without any step begins like this; its feed follows."""


PLAIN_COPY = "plain COPY"
"""The load without any step with which the whole is compared."""
_NOTHING = 1.1
"""A step whose interval allows no larger gain than this gains nothing."""


@dataclass(frozen=True, slots=True)
class StepGain:
    """What a step gains together with all others."""

    step: str
    ratio: float | None
    """Complete rows/s with it, relative to those without it."""
    interval: Interval | None
    conclusion: Conclusion

    @property
    def is_undecided(self) -> bool:
        """Whether it is unknown if it gains: its interval holds 1 and reaches far above it, or there is none,
        or it looks like a gain but is in doubt."""
        if self.conclusion is Conclusion.TOO_FEW:
            return True
        if self.conclusion is Conclusion.IN_DOUBT:
            return self.interval is not None and self.interval.low > 1
        wide = self.interval is not None and self.interval.high > _NOTHING
        return self.conclusion is Conclusion.NO_DIFFERENCE and wide


def is_too_wide(found: StepGain | Effect) -> bool:
    """Whether its interval holds 1 but is too wide to be told as "no measurable difference"."""
    if found.conclusion is not Conclusion.NO_DIFFERENCE or found.interval is None:
        return False
    return is_vague(found.interval)


@dataclass(frozen=True, slots=True)
class LoadAdvice:
    """What to do on one install."""

    install: str
    variant: Variant
    """The best that was measured within what may be lost: its sessions and settings are the recipe's."""
    kept: tuple[StepGain, ...]
    """Steps that were measured to gain."""
    undecided: tuple[StepGain, ...]
    keeps_undecided: bool
    """Whether all steps together clearly beat a load without any."""
    dropped: tuple[StepGain, ...]
    """Steps that gained nothing, or cost."""
    instead: tuple[Effect, ...]
    """What was tried in addition to steps or in their place, against all steps."""
    plain: tuple[Effect, ...]
    """Loads without any step, against all steps."""

    @property
    def left_out(self) -> tuple[str, ...]:
        """Names of the steps that the recipe does not have."""
        gone = self.dropped if self.keeps_undecided else (*self.dropped, *self.undecided)
        return tuple(step.step for step in gone)


def advise_load(plan: Plan, analysis: Analysis, may_lose: DurabilityClass) -> tuple[LoadAdvice, ...]:
    """The advice for each install."""
    found = []
    for install in plan.installs:
        effects = {e.variant: e for e in analysis.effects if e.install == install.label}
        steps = [_gain(e) for name, e in effects.items() if name.startswith(WITHOUT)]
        plain = [e for name, e in effects.items() if name.startswith(PLAIN)]
        instead = [e for name, e in effects.items() if not name.startswith((WITHOUT, PLAIN))]
        best = _best(plan, instead, may_lose)
        found.append(
            LoadAdvice(
                install.label,
                best,
                kept=tuple(step for step in steps if step.conclusion is Conclusion.HIGHER),
                undecided=tuple(step for step in steps if step.is_undecided),
                keeps_undecided=any(
                    e.variant == PLAIN_COPY and e.conclusion is Conclusion.LOWER for e in plain
                ),
                dropped=tuple(
                    step
                    for step in steps
                    if step.conclusion is not Conclusion.HIGHER and not step.is_undecided
                ),
                instead=tuple(instead),
                plain=tuple(plain),
            )
        )
    return tuple(found)


def _best(plan: Plan, instead: Sequence[Effect], may_lose: DurabilityClass) -> Variant:
    """The baseline, unless an allowed addition measurably beats it."""
    better = [
        effect
        for effect in instead
        if effect.conclusion is Conclusion.HIGHER
        and plan.variant(effect.variant).durability.rank <= may_lose.rank
    ]
    if not better:
        return plan.variant(plan.baseline)
    return plan.variant(max(better, key=lambda effect: effect.ratio or 0.0).variant)


def _gain(without: Effect) -> StepGain:
    """The step's gain, from what leaving it out does."""
    interval = without.interval
    turned = {Conclusion.HIGHER: Conclusion.LOWER, Conclusion.LOWER: Conclusion.HIGHER}
    return StepGain(
        without.variant.removeprefix(WITHOUT),
        None if not without.ratio else 1 / without.ratio,
        None if interval is None else interval.inverse(),
        turned.get(without.conclusion, without.conclusion),
    )
