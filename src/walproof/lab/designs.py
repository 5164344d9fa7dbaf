"""Chooses the design by which each variant of a plan is measured: toggled, sliced, or with servers of its
own. This depends on how a variant differs from the baseline: the table ``settings/designs.csv`` says which
settings a reload changes at once and without leaving anything behind, and which act only under load. Every
other variant has servers of its own."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, get_args

from walproof.errors import StudyError
from walproof.facts import Design, Install, Kind, Toggling, Variant, Workload
from walproof.facts.gate import OF_SLICED, OF_SLICES
from walproof.lab.asked import Asked
from walproof.lab.differing import differing, typed_otherwise
from walproof.lab.kind import LabKind
from walproof.lab.sizes import SCALE_BYTES, beyond_memory, server_bytes
from walproof.lab.studyfile import DesignChoice
from walproof.sentences import say_list
from walproof.settings.catalogue import as_shown
from walproof.settings.designs import acts_at_checkpoints, designs, unsliced, untoggled

GUARD_S = 0.1
"""The guard time, before each slice. Sessions take new settings when their next statement begins, and what a
predecessor's commits left is flushed meanwhile. And a client and its session that have waited may begin on
one processor, where they are faster than later, when the kernel has put them on two
(bench/sure/slice_profile.py)."""
DEFAULT_STARTS = 2
DEFAULT_SLICED_STARTS = 8
_PASSES = {Design.TOGGLED: 25, Design.SLICED: 8}
_QUICK_PASSES = {Design.TOGGLED: 15, Design.SLICED: 4}
SLICE_S = {Design.TOGGLED: 0.6, Design.SLICED: 0.3}
_SLEEPS = re.compile(r"^\s*\\sleep\b", re.MULTILINE)
_ORDER = (Design.FRESH, Design.TOGGLED, Design.SLICED)
_TOGGLES_SOME = "toggles those that can be, and gives the others servers of their own."
_SHARED = {
    Design.TOGGLED: "all others are toggled",
    Design.SLICED: "all others are sliced",
}

Reasons = Mapping[str, str | None]
"""Variant -> what keeps it from a design; None if nothing does."""


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
    """The variants with their designs, and one more for each further design that needs the baseline.

    Raises StudyError when ``toggled`` or ``sliced`` is asked for and something does not allow it.
    """
    # What the quick form prefers gives way where something does not allow it; what is typed is refused then.
    preferred = asked.study.quick.design if asked.quick and asked.overrides.design is None else None
    choice = asked.overrides.design or preferred or asked.study.design.design
    if choice not in get_args(DesignChoice):
        raise StudyError(
            f'design "{choice}" does not exist', detail=f"Designs: {', '.join(get_args(DesignChoice))}."
        )
    if choice == "fresh":
        return tuple(variants)
    is_gate = bool(asked.overrides.fail_if)
    versions = is_gate and asked.study.against is not None
    if len(variants) == 1 and (versions or (len(installs) > 1 and (is_gate or choice == "sliced"))):
        # What takes turns are not variants.
        whole = _whole_study(asked, kind, half, installs[:1], workloads, OF_SLICED) or _unslept(workloads)
        servers = len(workloads) if versions else len(installs)
        noun = "versions of the load" if versions else "installs"
        whole = whole or _beyond_memory(base, [variants[0]] * servers, installs, workloads)
        return (_taking_turns(variants[0], choice, noun, whole, gives_way=preferred is not None),)
    reference = next(variant for variant in variants if variant.name == baseline)
    others = [variant for variant in variants if variant.name != baseline]
    differ = {
        compared.name: differing(base, compared, reference, installs[0], asked.study.initdb)
        for compared in others
    }
    whole = _whole_study(asked, kind, half, installs, workloads, OF_SLICES)
    untoggled = whole or (None if asked.overrides.design == "toggled" else _owed(workloads))
    toggled = {
        compared.name: untoggled or _untoggled(base, compared, reference, installs) for compared in others
    }
    if choice == "toggled":
        gives_way = preferred is not None and any(toggled.values())
        if not gives_way:
            _refuse(choice, whole, toggled, _TOGGLES_SOME)
        return _alike(variants, reference, Design.FRESH if gives_way else Design.TOGGLED, toggled, differ)
    is_asked = choice == "sliced"
    whole = _whole_study(asked, kind, half, installs, workloads, OF_SLICED) or _unslept(workloads)
    sliced = {
        compared.name: whole or _unsliced(base, compared, reference, installs, is_asked=is_asked)
        for compared in others
    }
    if is_asked:
        if preferred is not None and not any(sliced.values()):
            # What is typed is refused before the run if memory is short; this gives way.
            sliced = dict.fromkeys(sliced, _beyond_memory(base, variants, installs, workloads))
        gives_way = preferred is not None and any(sliced.values())
        if not gives_way:
            _refuse(choice, whole, sliced, "measures each variant by the design that its settings allow.")
        return _alike(variants, reference, Design.FRESH if gives_way else Design.SLICED, sliced, differ)
    chosen = {name: _chosen(toggled[name], sliced[name]) for name in toggled}
    waiting = [compared for compared in others if chosen[compared.name] is Design.SLICED]
    if waiting and (reason := _beyond_memory(base, [reference, *waiting], installs, workloads)) is not None:
        sliced |= {compared.name: reason for compared in waiting}
        chosen |= {compared.name: Design.FRESH for compared in waiting}
    return _designed(variants, reference, chosen, sliced, differ)


def gave_way(asked: Asked, variants: Sequence[Variant]) -> tuple[str, ...]:
    """A sentence where the quick form has windows in place of slices, which it prefers, with the reasons."""
    preferred = asked.study.quick.design if asked.quick and asked.overrides.design is None else None
    if preferred not in ("toggled", "sliced") or any(v.design is not Design.FRESH for v in variants):
        return ()
    reasons = dict.fromkeys(v.design_reason for v in variants if v.design_reason is not None)
    return (f"This quick form has windows and no slices, so intervals are wider: {'; '.join(reasons)}.",)


def cuts_of(
    asked: Asked, variants: Sequence[Variant], baseline: str, rounds: int, *, is_typed: bool
) -> tuple[Toggling | None, Toggling | None]:
    """How the slices of toggled and of sliced variants are cut; None if there are no such variants.
    ``rounds`` are the plan's; ``is_typed``: they, or what ends them, were typed."""
    found: list[Toggling | None] = []
    for design, starts in ((Design.TOGGLED, DEFAULT_STARTS), (Design.SLICED, DEFAULT_SLICED_STARTS)):
        names = [variant.name for variant in variants if variant.design is design]
        if not names:
            found.append(None)
            continue
        table, overrides = asked.study.design, asked.overrides
        passes, slice_s = table.passes or _PASSES[design], table.slice or SLICE_S[design]
        if overrides.quick:
            passes = asked.study.quick.passes or min(passes, _QUICK_PASSES[design])
            slice_s = asked.study.quick.slice or slice_s
        # If all others have another design, only the starts say how many rounds there are.
        is_alone = all(variant.design is not Design.FRESH for variant in variants) and not overrides.quick
        most = rounds if is_typed else starts if is_alone else min(rounds, starts)
        reference = baseline if baseline in names else _second_name(baseline, design)
        found.append(Toggling(reference, most, overrides.passes or passes, slice_s, GUARD_S))
    toggling, slicing = found
    return toggling, slicing


def _refuse(choice: str, whole: str | None, reasons: Reasons, auto: str) -> None:
    refused = [f"{name}: {reason}" for name, reason in reasons.items() if reason is not None]
    if whole is None and not refused and reasons:
        return
    what = "toggled on one server" if choice == "toggled" else "measured in slices of servers that take turns"
    raise StudyError(
        f"the study's settings cannot be {what}",
        detail=whole or "\n".join(refused) or "There is nothing to compare the baseline with.",
        hint=f"--design auto {auto}",
    )


def _taking_turns(
    variant: Variant, choice: str, noun: str, against_sliced: str | None, *, gives_way: bool
) -> Variant:
    """The only variant, where builds or versions of a load are compared: their servers take turns if they
    can. Raises StudyError."""
    reason = f"several {noun} are several servers" if choice == "toggled" else against_sliced
    if reason is not None and choice != "auto" and not gives_way:
        _refuse(choice, reason, {}, f"lets the servers of the {noun} take turns where that can be.")
    if reason is not None:
        return replace(variant, design_reason=reason)
    why = f"the {noun} have a server each, and the loads take turns"
    return replace(variant, design=Design.SLICED, design_reason=why)


def _chosen(against_toggled: str | None, against_sliced: str | None) -> Design:
    """The reason for servers of its own, from what keeps a variant from either design."""
    if against_toggled is None:
        return Design.TOGGLED
    return Design.SLICED if against_sliced is None else Design.FRESH


def _alike(
    variants: Sequence[Variant],
    reference: Variant,
    design: Design,
    reasons: Reasons,
    differ: Mapping[str, Sequence[str]],
) -> tuple[Variant, ...]:
    """All variants by one design; ``reasons`` say what keeps them from another, ``differ`` in which settings
    each differs from the reference."""
    return _designed(variants, reference, dict.fromkeys(reasons, design), reasons, differ)


def _designed(
    variants: Sequence[Variant],
    reference: Variant,
    chosen: Mapping[str, Design],
    reasons: Reasons,
    differ: Mapping[str, Sequence[str]],
) -> tuple[Variant, ...]:
    used = [design for design in _ORDER if design in chosen.values()]
    found = []
    for variant in variants:
        design = chosen.get(variant.name)
        if design is not None:
            is_moved = variant.waldir != reference.waldir
            why = _why(differ[variant.name], design, is_moved=is_moved)
            reason = reasons.get(variant.name) if design is Design.FRESH else why
            found.append(replace(variant, design=design, design_reason=reason))
            continue
        first, *further = used or [Design.FRESH]
        reason = _SHARED.get(first) if not further else None
        found.append(replace(variant, design=first, design_reason=reason))
        for other in further:
            name = _second_name(variant.name, other)
            reason = f"{variant.name}, for the variants that are {other.value}"
            found.append(replace(variant, name=name, design=other, design_reason=reason))
    return tuple(found)


def _second_name(baseline: str, design: Design) -> str:
    return f"{baseline}, {design.value}"


def _why(names: Sequence[str], design: Design, *, is_moved: bool) -> str:
    """``names``: settings in which it differs; ``is_moved``: its WAL is in another folder."""
    if not names:
        return "asked for" if is_moved else "it does not differ from the baseline"
    if design is Design.TOGGLED:
        why = f"a reload changes {say_list(names)}, and nothing is left behind"
        is_shown = all((known := designs().get(name.lower())) is not None and known.shown for name in names)
        return why if is_shown else f"{why}; not yet shown to agree with servers of its own"
    unseen = [name for name in names if acts_at_checkpoints(name)]
    if unseen:
        return f"asked for; {_acting(unseen)} at checkpoints, and no slice shows anything of that"
    if any(name.lower() not in designs() for name in names):
        return "asked for"
    return f"{_acting(names)} under load alone, on servers that take turns"


def _acting(names: Sequence[str]) -> str:
    return f"{say_list(names)} {'acts' if len(names) == 1 else 'act'}"


def _whole_study(
    asked: Asked,
    kind: Kind,
    half: LabKind[Any],
    installs: Sequence[Install],
    workloads: Sequence[Workload],
    measured: Sequence[str],
) -> str | None:
    """What in the study as a whole needs a server for each trial; None if nothing does."""
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
        reason = "a number of transactions sets the length of each variant's load"
        metrics = dict.fromkeys(promise.metric for promise in asked.overrides.fail_if)
        others = [name for name in metrics if not name.startswith("wal_")]
        if len(others) < len(metrics):
            reason += ", and WAL bytes of equally many transactions vary least"
            if others:
                verb = "is" if len(others) == 1 else "are"
                reason += f"; {say_list(others)} {verb} judged by the same trials"
        return reason
    if probes:
        return f"probe {probes[0]} needs a window of its own"
    for promise in asked.overrides.fail_if:
        if promise.metric not in measured:
            return f"{promise.metric}, which the gate is about, is not measured in slices"
    return None


def _owed(workloads: Sequence[Workload]) -> str | None:
    """Why a load with an offered rate is not toggled unless somebody asks for it; None without a rate."""
    if all(workload.rate_tps is None for workload in workloads):
        return None
    return "what a variant does not reach of an offered rate is owed in the next slice, which is another's"


def _unslept(workloads: Sequence[Workload]) -> str | None:
    """What in a load goes on by the clock while the load is stopped; None if nothing does."""
    for workload in workloads:
        if workload.rate_tps is not None:
            return "an offered rate goes on while a load is stopped, so that transactions would be owed"
        if any(_SLEEPS.search(script.text) for script in workload.scripts):
            return "\\sleep goes on while a load is stopped"
    return None


def _untoggled(
    base: dict[str, str], variant: Variant, reference: Variant, installs: Sequence[Install]
) -> str | None:
    """What keeps the variant from being toggled; None if nothing does."""
    if variant.waldir != reference.waldir:
        return "its WAL is in another folder"
    for name in typed_otherwise(base, variant, reference, installs[0]):
        if (reason := untoggled(name, installs[0].version_num)) is not None:
            return reason
    return None


def _unsliced(
    base: dict[str, str],
    variant: Variant,
    reference: Variant,
    installs: Sequence[Install],
    *,
    is_asked: bool,
) -> str | None:
    """What keeps the variant from being measured on servers that take turns; None if nothing does."""
    if variant.waldir != reference.waldir and not is_asked:
        return "its WAL is in another folder"
    names = typed_otherwise(base, variant, reference, installs[0])
    if is_asked and (rest := [name for name in names if not acts_at_checkpoints(name)]):
        names = rest  # slices show what the others do, and nothing of these
    for name in names:
        if (reason := unsliced(name, is_asked=is_asked)) is not None:
            return reason
    return None


def _beyond_memory(
    base: dict[str, str],
    variants: Sequence[Variant],
    installs: Sequence[Install],
    workloads: Sequence[Workload],
) -> str | None:
    """Why the servers cannot be up at once; None if they can. Of loads with tables of their own nobody knows
    yet how large these are; a start warns if they are too large."""
    clients = max(workload.clients for workload in workloads)
    needed = sum(
        server_bytes(
            installs[0].version_num, as_shown({**base, **variant.settings, **variant.implied}), clients
        )
        for variant in variants
    )
    tables = len(variants) * max(workload.scale for workload in workloads) * SCALE_BYTES
    return beyond_memory(len(variants), needed, tables)
