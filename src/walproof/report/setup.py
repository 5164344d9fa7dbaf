"""What was run, on what, and how to run it again."""

from __future__ import annotations

import json
from collections.abc import Mapping

from walproof.facts import Plan, Run, Variant, Workload
from walproof.facts.codec import to_data
from walproof.report.answer import repeat_command
from walproof.report.blocks import Block, Cell, Column, Listing, Table, class_cell, text_cells
from walproof.report.numbers import percent, utc
from walproof.units import format_bytes, format_duration


def plan_tables(run: Run) -> list[Block]:
    """Variants with their settings, workloads, design."""
    plan = run.plan
    variants = tuple(
        (
            Cell(v.name + (" (baseline)" if v.name == plan.baseline else "")),
            class_cell(v.durability),
            Cell(_settings({**v.settings, **_conditions(v)}) or "nothing"),
            Cell(_settings(v.implied) or "-"),
            Cell(v.note or "-"),
        )
        for v in plan.variants
    )
    columns = ("variant", "durability class", "sets", "which brings along", "note")
    workloads = tuple(
        text_cells(
            (
                w.name,
                w.builtin or " + ".join(script.name for script in w.scripts) or "prepared INSERTs",
                str(w.scale),
                f"{w.clients} / {w.threads}",
                _window(w),
                w.protocol,
                format_duration(w.warmup_s) if w.warmup_s else "none",
            )
        )
        for w in plan.workloads
    )
    return [
        Table("Variants", tuple(map(Column, columns)), variants, _base_note(plan), terminal=False),
        *_left_out(plan),
        Table(
            "Workloads",
            tuple(
                map(
                    Column,
                    ("workload", "script", "scale", "clients / threads", "window", "protocol", "warm-up"),
                )
            ),
            workloads,
            _driven_by(plan),
            terminal=False,
        ),
        _pairs("Design and run", _design(run)),
    ]


def _driven_by(plan: Plan) -> str:
    if plan.load is not None:
        source = "generated from the seed" if plan.load.file is None else f"from {plan.load.file}"
        return (
            f"{plan.load.rows:,} rows into {plan.load.table}, {source}; clients are walproof's own processes."
        )
    if plan.failover is not None:
        return f"A ledger in {plan.failover.sessions} sessions, by walproof itself."
    if plan.streaming is not None:
        return (
            f"Each transaction inserts {plan.streaming.rows_per_commit} rows into five partitioned tables "
            f"that hold {plan.streaming.preloaded_rows:,}. Driven by pgbench {plan.driver.version}."
        )
    if plan.replay is not None:
        return (
            f"{plan.replay.rows:,} rows into five partitioned tables that hold "
            f"{plan.replay.preloaded_rows:,}, {plan.replay.rows_per_commit} a commit, by walproof itself."
        )
    return f"Driven by pgbench {plan.driver.version}."


def _left_out(plan: Plan) -> list[Block]:
    if not plan.left_out:
        return []
    rows = tuple(text_cells((one.variant, one.reason)) for one in plan.left_out)
    return [Table("Variants that were left out", (Column("variant"), Column("reason")), rows)]


def _base_note(plan: Plan) -> str | None:
    return f"All variants have: {_settings(plan.base_settings)}." if plan.base_settings else None


def _conditions(variant: Variant) -> dict[str, str]:
    """What it has beside settings that is not as in every variant, in the words of a study file."""
    found = {}
    if variant.replay.checksums:
        found["data_checksums"] = "on"
    if variant.replay.is_cold:
        found["cache"] = "cold"
    if variant.replay.kernel_audit != "off":
        found["kernel_audit"] = variant.replay.kernel_audit
    if variant.distance_s:
        found["distance"] = format_duration(variant.distance_s)
    if variant.bandwidth_bytes_per_s is not None:
        found["bandwidth"] = f"{format_bytes(variant.bandwidth_bytes_per_s)}/s"
    if variant.standby_device is not None:
        found["standby_device"] = variant.standby_device
    if variant.replay_cpu_share < 1:
        found["replay_cpu"] = f"{variant.replay_cpu_share * 100:g}%"
    return found


def _settings(settings: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in settings.items())


def _window(workload: Workload) -> str:
    if workload.duration_s is not None:
        text = format_duration(workload.duration_s)
    else:
        text = f"{workload.transactions} transactions per client"
    return text if workload.rate_tps is None else f"{text} at {workload.rate_tps:g} transactions/s"


def _design(run: Run) -> dict[str, str]:
    plan = run.plan
    facts = {
        "run": run.id,
        "study": plan.study + (" (quick form)" if plan.quick else ""),
        "started": utc(run.created_at),
        "finished": utc(run.finished_at) if run.finished_at is not None else "not finished",
        "rounds planned": str(plan.rounds),
        "order": f"each round in its own random order, seed {plan.seed}",
        "checkpoint before each window": "yes" if plan.checkpoint_before else "no",
        "probes": ", ".join(plan.probes) or "none",
        "data directories under": plan.folder,
        "walproof": run.walproof_version,
    }
    if plan.half_width is not None:
        facts["stops once every ratio is within"] = f"± {percent(plan.half_width)}"
    if plan.budget_s is not None:
        facts["time budget"] = format_duration(plan.budget_s)
    if plan.initdb_options:
        facts["initdb options"] = " ".join(plan.initdb_options)
    if plan.factors:
        facts["factors"] = "; ".join(f"{name}: {', '.join(levels)}" for name, levels in plan.factors.items())
        facts["fraction"] = plan.fraction
    if plan.aliases:
        facts["cannot be told apart"] = "; ".join(plan.aliases)
    return facts


def environment_tables(run: Run) -> list[Block]:
    """Machine, disk and PostgreSQL builds."""
    machine = {_title(name): _readable(name, value) for name, value in run.environment.facts.items()}
    blocks: list[Block] = [_pairs("Machine", machine)] if machine else []
    for install in run.plan.installs:
        facts = {
            "version": install.version,
            "binaries": f"{install.bindir} ({install.origin})",
            **{
                _title(k): v
                for k, v in run.environment.installs.get(install.label, {}).items()
                if k != "version"
            },
        }
        blocks.append(_pairs(f"PostgreSQL {install.label}", facts))
    return blocks


def _title(name: str) -> str:
    return name.removesuffix("_bytes").replace("_", " ")


def _readable(name: str, value: str) -> str:
    if name.endswith("_bytes") and not name.startswith("vm_") and value.isdigit():
        return format_bytes(int(value))
    return value


def _pairs(title: str, facts: Mapping[str, str]) -> Table:
    columns = (Column("fact"), Column("value"))
    return Table(title, columns, tuple(text_cells(pair) for pair in facts.items()), terminal=False)


def repeat_blocks(run: Run) -> list[Block]:
    """The command, and the study that it runs."""
    blocks: list[Block] = [Listing("Command", repeat_command(run))]
    if run.study_text is not None:
        blocks.append(Listing("Study file", run.study_text, folded=True))
    resolved = json.dumps(to_data(run.plan), indent=2, ensure_ascii=False)
    blocks.append(Listing("Plan, with every default resolved (JSON)", resolved, folded=True))
    return blocks
