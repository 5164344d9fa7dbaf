"""A plan as text, for ``--dry-run``: what would run, how long, and what it needs."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from walproof.facts import Failover, Load, LoadMethod, Plan, Replay, Streaming, Variant, Workload
from walproof.units import format_bytes, format_duration


def plan_text(plan: Plan, command: Sequence[str]) -> str:
    """The resolved plan for people."""
    from walproof.analysis.sweep import FIRST_POINTS, sweeps_of
    from walproof.disk.device import parse_device
    from walproof.lab.preflight import estimate
    from walproof.settings.risk import risk_of
    from walproof.settings.rules import notes

    needs = estimate(plan, Path(plan.folder) / "templates")
    lines = [f"study {plan.study}: {plan.title}", ""]
    lines += ["PostgreSQL"]
    lines += [f"  {one.label}  {one.bindir} ({one.origin})" for one in plan.installs]
    lines += _load_lines(plan)
    if plan.base_settings:
        lines += ["", "settings of every variant", f"  {_settings_text(plan.base_settings)}"]
    lines += ["", f"variants (compared with {plan.baseline})"]
    for variant in plan.variants:
        lines += _variant_lines(variant)
        complete = plan.settings_of(variant)
        lines += [f"      {setting}: {cls.value}: {sentence}" for setting, cls, sentence in risk_of(complete)]
        lines += [f"      note: {note}" for note in notes(complete, plan.installs[0].version_num)]
    if plan.factors:
        lines += ["", f"design: {plan.fraction} factorial of {', '.join(plan.factors)}"]
        lines += [f"  cannot be told apart: {alias}" for alias in plan.aliases]
    lines += ["", f"rounds: {_rounds_text(plan)}; seed {plan.seed}; {len(plan.cells)} trials a round"]
    for sweep in sweeps_of(plan):
        if len(sweep.points) > FIRST_POINTS:
            listed = ", ".join(f"{point.at:,}" for point in sweep.points)
            lines += [f"tried upward until more gains nothing: {sweep.feed}, {listed} {sweep.swept}"]
    lines += [f"probes: {', '.join(plan.probes) or 'none'}"]
    lines += [f"checkpoint before each window: {'yes' if plan.checkpoint_before else 'no'}"]
    if plan.device is not None:
        lines += [f"emulated disk: {plan.device} ({parse_device(plan.device).figures})"]
    if plan.power_cut is not None:
        what = "each trial is one" if plan.power_cut.only else "one follows each window"
        lines += [f"power cuts: {what}; {plan.power_cut.images} images of each are checked"]
    if needs.duration_s is not None and needs.window_s is not None:
        lines += [
            f"length: about {needs.duration_s / 60:.1f} minutes at most"
            + (f" ({needs.window_s / 60:.1f} of them inside windows)" if needs.window_s else "")
            + f", {needs.trials_most} trials"
        ]
    else:
        lines += [f"length: {needs.trials_most} trials at most; it depends on how fast transactions run"]
    lines += [
        f"needs: {format_bytes(needs.disk_bytes)} of disk in {plan.folder}, "
        f"{format_bytes(needs.memory_bytes)} of memory",
        "",
        f"to run it: {shlex.join(command)}",
    ]
    return "\n".join(lines) + "\n"


def _load_lines(plan: Plan) -> list[str]:
    from walproof.report.experiment import driven_by

    match plan.kind:
        case Load() as load:
            source = "generated" if load.file is None else load.file
            lines = ["", "load", f"  {load.rows:,} rows into {load.table}, {source}"]
            return lines + ([f"  which holds {load.filled:,} rows"] if load.filled else [])
        case Failover() as failover:
            length = format_duration(failover.load_s)
            return ["", "load", f"  a ledger in {failover.sessions} sessions for {length}, then a failover"]
        case Replay():
            return ["", "load", f"  {driven_by(plan)}"]
    lines = [f"  driven by pgbench {plan.driver.version}", "", "workloads"]
    return lines + [f"  {_workload_text(plan, workload)}" for workload in plan.workloads]


def _variant_lines(variant: Variant) -> list[str]:
    from walproof.report.experiment import conditions

    lines = [f"  {variant.name}  [{variant.durability.value}]"]
    if variant.settings:
        lines.append(f"      {_settings_text(variant.settings)}")
    if variant.implied:
        lines.append(f"      brings along: {_settings_text(variant.implied)}")
    if found := conditions(variant):
        lines.append(f"      {_settings_text(found)}")
    if variant.waldir is not None:
        lines.append(f"      pg_wal in {variant.waldir}")
    if variant.load != LoadMethod():
        lines.append(f"      {_method_text(variant.load)}")
    if variant.note:
        lines.append(f"      {variant.note}")
    return lines


def _method_text(method: LoadMethod) -> str:
    parts: list[str] = [method.feed]
    if method.batch_rows:
        parts.append(f"{method.batch_rows:,} rows a batch")
    if method.sessions > 1:
        parts.append(f"{method.sessions} sessions")
    if method.rows_most:
        parts.append(f"{method.rows_most:,} rows at most")
    return ", ".join([*parts, *method.steps])


def _workload_text(plan: Plan, workload: Workload) -> str:
    if workload.statements:
        return f"{workload.name}: {len(workload.statements)} statements, each measured apart"
    match plan.kind:
        case Streaming(rows_per_commit=rows, preloaded_rows=preloaded):
            what = f"inserts, {rows} rows a commit into tables that hold {preloaded:,}"
        case _:
            scripts = " + ".join(f"{script.name}@{script.weight}" for script in workload.scripts)
            what = f"{workload.builtin or scripts}, scale {workload.scale}"
    length = (
        f"{format_duration(workload.duration_s)}"
        if workload.duration_s is not None
        else f"{workload.transactions} transactions per client"
    )
    parts = [
        f"{workload.name}: pgbench {what}, {workload.clients} clients",
        f"{workload.threads} threads, {workload.protocol} protocol, {length}",
    ]
    if workload.rate_tps is not None:
        parts.append(f"offered {workload.rate_tps:g} tps")
    if workload.warmup_s:
        parts.append(f"after {format_duration(workload.warmup_s)} of warm-up")
    return ", ".join(parts)


def _rounds_text(plan: Plan) -> str:
    text = f"{plan.rounds}"
    if plan.half_width is not None:
        text = f"until every interval is within +-{plan.half_width:.1%}, {plan.rounds} at most"
    if plan.budget_s is not None:
        text += f", none that would end after {format_duration(plan.budget_s)}"
    return text


def _settings_text(settings: Mapping[str, str]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in settings.items())
