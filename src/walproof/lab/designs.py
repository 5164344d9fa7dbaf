"""Which variants of a plan are toggled on one running server, and which have servers of their own.

Decided by what a variant differs in from the baseline: the table ``settings/designs.csv`` says which settings
a reload changes at once and without leaving anything behind. Every other variant is measured as ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, get_args

from walproof.errors import StudyError
from walproof.facts import Design, Install, Kind, Toggling, Variant, Workload
from walproof.facts.gate import OF_SLICES
from walproof.lab.asked import Asked
from walproof.lab.kind import LabKind
from walproof.lab.studyfile import DesignChoice
from walproof.settings.catalogue import Catalogue
from walproof.settings.designs import untoggled

_GUARD_S = 0.03
"""Sessions take new settings when their next statement begins, and what a predecessor's commits left is
flushed meanwhile."""
DEFAULT_STARTS = 2
QUICK_PASSES = 20


def with_designs(
    asked: Asked,
    kind: Kind,
    half: LabKind[Any],
    base: dict[str, str],
    variants: Sequence[Variant],
    baseline: str,
    installs: Sequence[Install],
    workloads: Sequence[Workload],
) -> tuple[Variant, ...]:
    """The variants with their designs, and one more where the baseline is needed in both.

    Raises StudyError when ``toggled`` is asked for and something does not allow it.
    """
    choice = asked.overrides.design or asked.study.design.design
    if choice not in get_args(DesignChoice):
        raise StudyError(
            f'design "{choice}" does not exist', detail=f"Designs: {', '.join(get_args(DesignChoice))}."
        )
    if choice == "fresh":
        return tuple(variants)
    whole = _whole_study(asked, kind, half, installs, workloads)
    reference = next(variant for variant in variants if variant.name == baseline)
    reasons = {
        variant.name: whole or _variant(base, variant, reference, installs)
        for variant in variants
        if variant.name != baseline
    }
    if choice == "toggled":
        refused = [f"{name}: {reason}" for name, reason in reasons.items() if reason is not None]
        if whole is not None or refused or not reasons:
            raise StudyError(
                "the study's settings cannot be toggled on one server",
                detail=whole or "\n".join(refused) or "There is nothing to compare the baseline with.",
                hint="--design auto toggles those that can be, and gives the others servers of their own.",
            )
    return _designed(variants, reference, reasons)


def toggling_of(asked: Asked, variants: Sequence[Variant], baseline: str, rounds: int) -> Toggling | None:
    """How the variants that are toggled are toggled; None where none is."""
    toggled = [variant for variant in variants if variant.design is Design.TOGGLED]
    if not toggled:
        return None
    own = baseline if baseline in [one.name for one in toggled] else _second_name(baseline)
    design, overrides = asked.study.design, asked.overrides
    passes = overrides.passes or (min(QUICK_PASSES, design.passes) if overrides.quick else design.passes)
    return Toggling(own, rounds, passes, design.slice, _GUARD_S)


def _designed(
    variants: Sequence[Variant], reference: Variant, reasons: dict[str, str | None]
) -> tuple[Variant, ...]:
    toggled = [name for name, reason in reasons.items() if reason is None]
    fresh = [name for name, reason in reasons.items() if reason is not None]
    found = []
    for variant in variants:
        if variant.name in toggled:
            reason = _why(reference, variant)
            found.append(replace(variant, design=Design.TOGGLED, design_reason=reason))
        elif variant.name in fresh:
            found.append(replace(variant, design_reason=reasons[variant.name]))
        elif toggled and not fresh:
            found.append(replace(variant, design=Design.TOGGLED, design_reason="all others are toggled"))
        else:
            found.append(variant)
            if toggled:
                second = _second_name(variant.name)
                why = f"{variant.name}, for the variants that are toggled"
                found.append(replace(variant, name=second, design=Design.TOGGLED, design_reason=why))
    return tuple(found)


def _second_name(baseline: str) -> str:
    return f"{baseline}, toggled"


def _why(reference: Variant, variant: Variant) -> str:
    names = sorted({*variant.settings, *variant.implied} | {*reference.settings, *reference.implied})
    if not names:
        return "it differs in nothing from the baseline"
    return f"a reload changes {' and '.join(names)}, and nothing is left behind"


def _whole_study(
    asked: Asked,
    kind: Kind,
    half: LabKind[Any],
    installs: Sequence[Install],
    workloads: Sequence[Workload],
) -> str | None:
    """What in the study as a whole needs a server for each trial; None where nothing does."""
    probes = asked.overrides.probes if asked.overrides.probes is not None else asked.study.design.probes
    if not half.toggles:
        return f"a study of {kind.noun} has no load to cut into slices"
    if kind.added_crash is not None or kind.cut_images:
        return "a crash or a power cut after each trial needs a server for each"
    if asked.study.factors:
        return "a factorial design is of trials with servers of their own"
    if len(installs) > 1:
        return "several installs are several servers"
    if any(workload.transactions is not None for workload in workloads):
        return "a number of transactions sets the length of each variant's load"
    if probes:
        return f"probe {probes[0]} needs a window of its own"
    for promise in asked.overrides.fail_if:
        if promise.metric not in OF_SLICES:
            return f"{promise.metric}, which the gate is about, is not measured in slices"
    return None


def _variant(
    base: dict[str, str], variant: Variant, reference: Variant, installs: Sequence[Install]
) -> str | None:
    """What keeps the variant from being toggled; None where nothing does."""
    if variant.waldir != reference.waldir:
        return "its WAL is in another folder"
    (install,) = installs
    catalogue = Catalogue.for_version(install.version_num)
    ours = {**base, **variant.settings, **variant.implied}
    theirs = {**base, **reference.settings, **reference.implied}
    for name in sorted({*ours, *theirs}):
        known = {
            catalogue.normalise(name, values[name]) if name in values else None for values in (ours, theirs)
        }
        if len(known) > 1 and (reason := untoggled(name, install.version_num)) is not None:
            return reason
    return None
