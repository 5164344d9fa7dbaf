"""Which steps a load of this table should have: all except those that were measured to gain nothing. The
baseline is a load with every step that the table allows; each step is measured by leaving it out. What takes
the place of a step (sessions, wal_level=minimal, UNLOGGED) is measured as a variant of its own. A step whose
interval is too wide to tell stays only if all steps together clearly beat a load without any, since that
whole was measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from walproof.advise.wording import is_vague
from walproof.analysis.cells import absolute
from walproof.analysis.effect import Conclusion, Effect
from walproof.analysis.interval import Interval
from walproof.analysis.summary import Analysis
from walproof.analysis.whatif_answer import COMPLETION_TARGET, enough_mb
from walproof.facts import Load, Plan, Trial, Variant
from walproof.settings.durability import DurabilityClass
from walproof.settings.rules import DEFAULT_WAL_SEGMENT_BYTES
from walproof.units import parse_bytes

WITHOUT = "without "
"""The name of a variant that leaves out one step begins like this; the step's name follows."""
PLAIN = "plain "
"""The name of a variant without any step begins like this; its feed follows."""


PLAIN_COPY = "plain COPY"
"""The load without any step with which the whole is compared."""
_NOTHING = 1.1
"""A step whose interval allows no larger gain than this gains nothing."""
_DEFAULT_MAX_WAL_SIZE_MB = 1024


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
    rows: int = 0
    """Rows of the measured load."""
    wal_bytes_per_row: float | None = None
    """WAL of a row until the load is complete, in bytes: of the recipe's load or of one without a step that
    it leaves out, the largest of the medians. None where it was not measured."""

    @property
    def settings(self) -> dict[str, str]:
        """Settings of the recipe. max_wal_size is what this load needs for its WAL to request no checkpoint:
        1 GB at least (the server's default), and at most what was measured. Where the WAL is not known it is
        left out."""
        found = {
            name: value
            for name, value in {**self.variant.settings, **self.variant.implied}.items()
            if f"{name}={value}" not in self.left_out
        }
        measured = found.pop("max_wal_size", None)
        if measured is None or self.wal_bytes_per_row is None:
            return found
        needed_mb = enough_mb(
            self.rows * self.wal_bytes_per_row, COMPLETION_TARGET, DEFAULT_WAL_SEGMENT_BYTES
        )
        size_mb = min(max(_DEFAULT_MAX_WAL_SIZE_MB, needed_mb), parse_bytes(measured) >> 20)
        return {"max_wal_size": f"{size_mb // 1024}GB", **found}

    @property
    def left_out(self) -> tuple[str, ...]:
        """Names of the steps that the recipe does not have."""
        gone = self.dropped if self.keeps_undecided else (*self.dropped, *self.undecided)
        return tuple(step.step for step in gone)


def advise_load(
    plan: Plan, analysis: Analysis, trials: Sequence[Trial], may_lose: DurabilityClass
) -> tuple[LoadAdvice, ...]:
    """The advice for each install."""
    found = []
    for install in plan.installs:
        effects = {e.variant: e for e in analysis.effects if e.install == install.label}
        steps = [_gain(e) for name, e in effects.items() if name.startswith(WITHOUT)]
        plain = [e for name, e in effects.items() if name.startswith(PLAIN)]
        instead = [e for name, e in effects.items() if not name.startswith((WITHOUT, PLAIN))]
        best = _best(plan, instead, may_lose)
        advice = LoadAdvice(
            install.label,
            best,
            kept=tuple(step for step in steps if step.conclusion is Conclusion.HIGHER),
            undecided=tuple(step for step in steps if step.is_undecided),
            keeps_undecided=any(e.variant == PLAIN_COPY and e.conclusion is Conclusion.LOWER for e in plain),
            dropped=tuple(
                step for step in steps if step.conclusion is not Conclusion.HIGHER and not step.is_undecided
            ),
            instead=tuple(instead),
            plain=tuple(plain),
            rows=plan.kind_as(Load).rows,
        )
        wal = {
            of_cell.variant: of_cell.median
            for of_cell in absolute(plan, trials, "complete_wal_bytes_per_row")
            if of_cell.install == install.label
        }
        # A step that is left out may have saved WAL.
        like = (best.name, *(WITHOUT + step for step in advice.left_out))
        known = [median for name in like if (median := wal.get(name)) is not None]
        found.append(replace(advice, wal_bytes_per_row=max(known, default=None)))
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
