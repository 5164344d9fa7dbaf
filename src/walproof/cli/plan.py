"""A plan as text, for ``--dry-run``: what would run, how long, and what it needs."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from walproof.facts import Design, Plan, Variant
from walproof.sentences import say_list
from walproof.units import format_bytes, format_duration

if TYPE_CHECKING:
    from walproof.lab.kind import Length
    from walproof.report.words import KindWords

_CHECKPOINT_TIMEOUT = "5min"


def plan_text(plan: Plan, command: Sequence[str]) -> str:
    """The resolved plan for people."""
    from walproof.advise.gate import say_most
    from walproof.analysis.sweep import FIRST_POINTS, sweeps_of
    from walproof.disk.device import parse_device
    from walproof.lab.kinds.registry import lab_kind
    from walproof.lab.preflight import estimate
    from walproof.privilege.user import explained, server_user
    from walproof.report.kinds.registry import report_kind
    from walproof.report.setup import toggling_text
    from walproof.sentences import say_count
    from walproof.settings.risk import risk_of
    from walproof.settings.rules import notes

    words, lab = report_kind(plan.kind), lab_kind(plan.kind)
    needs = estimate(plan, Path(plan.folder) / "templates")
    lines = [f"study {plan.study}: {plan.title}", ""]
    lines += ["PostgreSQL"]
    lines += [f"  {install.label}  {install.bindir} ({install.origin})" for install in plan.installs]
    lines += words.load_lines(plan)
    if plan.base_settings:
        lines += ["", "settings of every variant", f"  {_settings_text(plan.base_settings)}"]
    lines += ["", f"variants (compared with {plan.baseline})"]
    for variant in plan.variants:
        lines += _variant_lines(variant, words)
        complete = plan.settings_of(variant)
        for _, durability, sentence in risk_of(complete):
            # The variant's line has its class, the worst: only another one is said again.
            other = "" if durability is variant.durability else f"  [{durability.value}]"
            lines.append(f"      {sentence}{other}")
        found = notes(
            complete, plan.installs[0].version_num, has_synchronous_standby=lab.has_synchronous_standby
        )
        lines += [f"      note: {note}" for note in found]
    if plan.left_out:
        lines += ["", "left out", *(f"  {left.variant}: {left.reason}" for left in plan.left_out)]
    said = [*plan.notes, *without_cycles(plan)]
    lines += ["", *said] if said else []
    if plan.factors:
        lines += ["", f"design: {plan.fraction} factorial of {', '.join(plan.factors)}"]
        lines += [f"  cannot be told apart: {alias}" for alias in plan.aliases]
    in_round = say_count(len(plan.round_cells(1)), "trial")
    lines += ["", f"rounds: {_rounds_text(plan)}; seed {plan.seed}; {in_round} a round"]
    if plan.gate is not None:
        lines += [f"gate: fails if {' or '.join(promise.text for promise in plan.gate.promises)}"]
    if plan.toggling is not None:
        lines.append(f"toggled on one server: {toggling_text(plan.toggling, len(plan.toggled))}")
    if plan.slicing is not None:
        text = toggling_text(plan.slicing, len(plan.turns))
        lines.append(f"sliced, on {len(plan.turns)} servers that take turns: {text}")
    for sweep in sweeps_of(plan):
        if len(sweep.points) > FIRST_POINTS:
            listed = ", ".join(f"{point.at:,}" for point in sweep.points)
            lines += [f"raised until more gains nothing: {sweep.feed}, {listed} {sweep.swept}"]
    latency = "" if plan.toggling is None else "latency, "
    of_slices = f" (slices have throughput, {latency}WAL bytes and CPU)" if plan.has_slices else ""
    lines += [f"probes: {', '.join(plan.probes) or 'none'}{of_slices}"]
    lines += [f"checkpoint before each window: {'yes' if plan.checkpoint_before else 'no'}"]
    if plan.device is not None:
        lines += [f"emulated disk: {plan.device} ({parse_device(plan.device).figures})"]
    lines += words.added_lines(plan)
    if plan.gate is not None and plan.budget_s is not None:
        lines += [f"length: until the gate is decided, {say_most(plan, _round_s(plan.rounds, needs.length))}"]
    elif plan.budget_s is not None and (needs.length is None or needs.length.duration_s > plan.budget_s):
        lines.append(_length_by_budget(plan.budget_s, plan.rounds, needs.length))
    elif needs.length is not None:
        window_s = needs.length.window_s
        lines += [
            f"length: about {needs.length.duration_s / 60:.1f} minutes at most"
            + (f" ({window_s / 60:.1f} of them inside windows)" if window_s else "")
            + f", {needs.trials_most} trials"
        ]
    else:
        lines += [f"length: {needs.trials_most} trials at most; how long they take depends on the machine"]
    lines += [
        f"needs: {format_bytes(needs.disk_bytes)} of disk in {plan.folder}, "
        f"{format_bytes(needs.memory_bytes)} of memory",
        f"servers run as: {explained(server_user())}",
        "",
        f"to run it: {shlex.join(command)}",
    ]
    return "\n".join(lines) + "\n"


def say_notes(plan: Plan) -> None:
    """Say on stderr what was asked and is not measured, or shows nothing."""
    for note in (*plan.notes, *without_cycles(plan)):
        sys.stderr.write(f"{note}\n")


def without_cycles(plan: Plan) -> list[str]:
    """A sentence for each variant with windows whose settings act at checkpoints alone, where no checkpoint
    that comes by time falls into a window."""
    from walproof.lab.differing import differing
    from walproof.lab.kinds.registry import lab_kind
    from walproof.settings.designs import acts_at_checkpoints

    lengths = [workload.duration_s for workload in plan.workloads if workload.duration_s is not None]
    if not lab_kind(plan.kind).toggles or not lengths:
        return []
    reference, found = plan.variant(plan.baseline), []
    for variant in plan.variants:
        names = differing(plan.base_settings, variant, reference, plan.installs[0], plan.initdb_options)
        cycle_s = min(_cycle_s(plan, variant), _cycle_s(plan, reference))
        is_seen = max(lengths) >= cycle_s or not all(acts_at_checkpoints(name) for name in names)
        if variant.design is Design.FRESH and names and not is_seen:
            verb = "acts" if len(names) == 1 else "act"
            found.append(
                f"{variant.name}: {say_list(names)} {verb} at checkpoints, and a window of "
                f'{format_duration(max(lengths))} need not hold one: "walproof wal whatif" predicts from '
                f"recorded WAL, --duration {cycle_s + 60}s has longer windows."
            )
    return found


def _cycle_s(plan: Plan, variant: Variant) -> int:
    """checkpoint_timeout of a variant."""
    from walproof.settings.catalogue import Catalogue
    from walproof.settings.value import parse

    setting = Catalogue.for_version(plan.installs[0].version_num).get("checkpoint_timeout")
    return int(parse(setting, plan.settings_of(variant).get("checkpoint_timeout", _CHECKPOINT_TIMEOUT)))


def say_unused_duration(plan: Plan) -> None:
    """Say on stderr which variants the length of windows, which was typed, does nothing for."""
    cut = plan.toggling or plan.slicing
    if cut is None:
        return
    design = "toggled" if plan.toggling is not None else "sliced"
    some = "" if plan.slices_all else ", but on variants with servers of their own"
    sys.stderr.write(
        f"--duration has no effect in a {design} design (slices of {format_duration(cut.slice_s)}){some}: "
        "--passes has more slices, --design fresh has windows\n"
    )


def say_unused_passes(plan: Plan) -> None:
    """Say on stderr that the number of passes, which was typed, does nothing."""
    if not plan.has_slices:
        sys.stderr.write("--passes has no effect: no variant is measured in slices; --rounds repeats more\n")


def _variant_lines(variant: Variant, words: KindWords[Any]) -> list[str]:
    from walproof.report.setup import design_text

    lines = [f"  {variant.name}  [{variant.durability.value}]"]
    if variant.settings:
        lines.append(f"      {_settings_text(variant.settings)}")
    if variant.implied:
        lines.append(f"      brings along: {_settings_text(variant.implied)}")
    if found := words.conditions(variant):
        lines.append(f"      {_settings_text(found)}")
    if variant.waldir is not None:
        lines.append(f"      pg_wal in {variant.waldir}")
    if (method := words.method(variant)) is not None:
        lines.append(f"      {method}")
    if variant.design is Design.TOGGLED or variant.design_reason is not None:
        lines.append(f"      design {design_text(variant)}")
    if variant.note:
        lines.append(f"      {variant.note}")
    return lines


def _rounds_text(plan: Plan) -> str:
    from walproof.analysis.within import pilot_rounds

    text = f"{plan.rounds}" + " at most" * (plan.budget_s is not None)
    if plan.half_width is not None:
        text = (
            f"a pilot of {pilot_rounds(plan)} says how many take every ratio within "
            f"+-{100 * plan.half_width:.3g} %; {plan.rounds} at most"
        )
    if plan.budget_s is not None:
        text += f", none that would end after {format_duration(plan.budget_s)}"
    return text


def _length_by_budget(budget_s: float, rounds: int, length: Length | None) -> str:
    """Of a plan that is longer than its budget, or whose length nobody knows."""
    text = f"length: at most {format_duration(budget_s)} (budget), after what is prepared"
    round_s = _round_s(rounds, length)
    if round_s is None:
        return text
    fit = int(budget_s / round_s)
    if fit == 0:
        return f"length: one round, about {format_duration(round_s)}: longer than the budget"
    return f"{text}: about {fit} {'round' if fit == 1 else 'rounds'} of {format_duration(round_s)}"


def _round_s(rounds: int, length: Length | None) -> float | None:
    """About how many seconds a round takes; None where nobody knows."""
    return None if length is None else length.duration_s / rounds


def expected_round_s(plan: Plan) -> float | None:
    """The same of a plan."""
    from walproof.lab.preflight import estimate

    return _round_s(plan.rounds, estimate(plan, Path(plan.folder) / "templates").length)


def _settings_text(settings: Mapping[str, str]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in settings.items())
