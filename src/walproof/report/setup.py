"""What was run, on what, and how to run it again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from walproof.facts import Plan, Run, Toggling, Variant, Workload
from walproof.facts.codec import to_data
from walproof.report.answer import repeat_command
from walproof.report.blocks import Block, Column, Listing, Paragraph, Table, TableCell, class_cell, text_cells
from walproof.report.numbers import percent
from walproof.report.words import KindWords
from walproof.sentences import say_count
from walproof.units import format_bytes, format_duration, format_utc


def plan_tables(run: Run, words: KindWords[Any]) -> list[Block]:
    """Variants with their settings, workloads, design."""
    plan = run.plan
    says_designs = any(v.design_reason is not None for v in plan.variants)
    variants = tuple(
        (
            TableCell(v.name + (" (baseline)" if v.name == plan.baseline else "")),
            class_cell(v.durability),
            TableCell(_settings({**v.settings, **words.conditions(v)}) or "nothing"),
            TableCell(_settings(v.implied) or "-"),
            TableCell(v.note or "-"),
            *([TableCell(design_text(v))] if says_designs else []),
        )
        for v in plan.variants
    )
    columns = ["variant", "durability class", "sets", "which brings along", "note"]
    columns += ["design"] if says_designs else []
    workloads = tuple(
        text_cells(
            (
                w.name,
                words.script(plan, w),
                str(w.scale),
                f"{w.clients} / {w.threads}",
                "slices" if plan.slices_all else _window(w),
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
            words.driven_by(plan),
            terminal=False,
        ),
        _pairs("Design and run", _design(run)),
    ]


def design_text(variant: Variant) -> str:
    """The variant's design, and the reason for it."""
    reason = "" if variant.design_reason is None else f": {variant.design_reason}"
    return f"{variant.design.value}{reason}"


def toggling_text(toggling: Toggling, variants: int) -> str:
    """The parts of a start, in one line."""
    return (
        f"{say_count(toggling.starts, 'start')} of {toggling.passes} passes of "
        f"{say_count(variants, 'slice')} of {format_duration(toggling.slice_s)}, "
        f"about {format_duration(toggling.start_s(variants))} a start"
    )


def _left_out(plan: Plan) -> list[Block]:
    if not plan.left_out:
        return []
    rows = tuple(text_cells((variant.variant, variant.reason)) for variant in plan.left_out)
    return [Table("Variants that were left out", (Column("variant"), Column("reason")), rows)]


def _base_note(plan: Plan) -> str | None:
    return f"All variants have: {_settings(plan.base_settings)}." if plan.base_settings else None


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
        "started": format_utc(run.created_at),
        "finished": format_utc(run.finished_at) if run.finished_at is not None else "not finished",
        "rounds planned": str(plan.rounds),
        "order": f"each round in its own random order, seed {plan.seed}",
        "checkpoint before each window": "yes" if plan.checkpoint_before else "no",
        "windows and slices lie": plan.place.value,
        "probes": ", ".join(plan.probes) or "none",
        "data directories under": plan.folder,
        "walproof": run.walproof_version,
    }
    if plan.toggling is not None:
        facts["toggled on one server"] = toggling_text(plan.toggling, len(plan.toggled))
    if plan.slicing is not None:
        facts["sliced, on servers that take turns"] = toggling_text(plan.slicing, len(plan.turns))
    if plan.half_width is not None:
        facts["rounds for every ratio within"] = f"± {percent(plan.half_width)}"
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


def between_versions(run: Run) -> list[Block]:
    """What differs between the installs before a variant sets anything."""
    plan = run.plan
    if len(plan.installs) < 2:
        return []
    from walproof.settings.minors import compared_minors
    from walproof.settings.versions import changed_defaults, meaning_of_on

    versions = [install.version for install in plan.installs]
    settings = [plan.settings_of(variant) for variant in plan.variants]
    given = set.intersection(*(set(setting) for setting in settings)) if settings else set()
    given |= {"data_checksums"} if any("checksums" in option for option in plan.initdb_options) else set()
    sentences = [compared_minors(versions), changed_defaults(versions, given)]
    if any(setting.get("wal_compression") == "on" for setting in settings):
        builds = {
            install.version: run.environment.installs.get(install.label, {}).get("wal_compression", "")
            for install in plan.installs
        }
        sentences.append(meaning_of_on({version: text.split(", ") for version, text in builds.items()}))
    return [Paragraph(sentence, terminal=True) for sentence in sentences if sentence is not None]


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
