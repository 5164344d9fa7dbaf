"""``walproof compare``: an ad-hoc study, each ``--set`` a variant against the defaults."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from walproof.cli import options, study_options
from walproof.cli.declaration import (
    Override,
    Repeated,
    WorkloadKey,
    command_line,
    declared,
    overrides,
    workload_table,
)


@dataclass(frozen=True, slots=True)
class CompareOptions:
    """What ``walproof compare`` is given."""

    set_: Annotated[
        list[str],
        typer.Option(
            "--set", metavar="NAME=VALUE[,...]", help="One variant: its settings. Repeat for more variants."
        ),
    ]
    base: Annotated[
        list[str] | None,
        typer.Option("--base", metavar="NAME=VALUE", help="Setting of every variant, defaults included."),
        Override("base", study_options.one_configuration),
    ] = None
    builtin: Annotated[
        str | None,
        typer.Option("--builtin", help="pgbench script: tpcb-like, simple-update, select-only."),
        WorkloadKey("builtin"), Repeated.CHANGED,
    ] = "tpcb-like"  # fmt: skip
    script: Annotated[
        list[str] | None,
        typer.Option("--script", metavar="FILE[@WEIGHT]", help="pgbench script instead. May be repeated."),
    ] = None
    setup: Annotated[
        Path | None,
        typer.Option("--setup", metavar="FILE", help="SQL that makes the script's own tables."),
        WorkloadKey("setup", str),
    ] = None
    scale: Annotated[
        int, typer.Option("--scale", min=1, help="pgbench scale factor."), WorkloadKey("scale")
    ] = 50
    clients: Annotated[
        int, typer.Option("--clients", min=1, help="Client sessions."), WorkloadKey("clients")
    ] = 20
    threads: Annotated[int, typer.Option("--threads", min=1, help="Threads of pgbench.")] = 2
    rate: Annotated[
        float | None,
        typer.Option("--rate", help="Offered load in transactions per second; default: all out."),
        WorkloadKey("rate"),
    ] = None
    protocol: Annotated[
        str,
        typer.Option("--protocol", help="simple, extended or prepared."),
        WorkloadKey("protocol"), Repeated.CHANGED,
    ] = "simple"  # fmt: skip
    duration: Annotated[
        str | None,
        typer.Option("--duration", metavar="TIME", help="Length of each window. Default: 10s."),
        WorkloadKey("duration"),
    ] = None
    transactions: Annotated[
        int | None,
        typer.Option("--transactions", min=1, help="Per client, instead of a duration."),
        WorkloadKey("transactions"),
    ] = None
    warmup: study_options.Warmup = None
    rounds: study_options.Rounds = None
    design: study_options.DesignOption = None
    passes: study_options.Passes = None
    within: study_options.Within = None
    budget: study_options.Budget = None
    pg: study_options.Pg = None
    seed: study_options.Seed = None
    device: study_options.Device = None
    power_cut: study_options.PowerCut = None
    keep_failures: study_options.KeepFailures = None
    on: options.On = None
    out: study_options.Out = options.DEFAULT_OUT
    store: study_options.StoreUrl = None
    dry_run: study_options.DryRun = False
    json: study_options.Json = False
    new: study_options.New = False


@declared
def compare(given: CompareOptions) -> None:
    """Compare settings with the defaults."""
    from walproof.cli.execution import carry_out
    from walproof.lab.study import ad_hoc, resolve
    from walproof.lab.studyfile import ScriptTable

    # What is measured is said in full: a window's length or its transactions, scripts or a built-in one.
    if given.transactions is not None:
        given = replace(given, duration=None)
    elif given.duration is None:
        given = replace(given, duration="10s")
    if given.script:
        given = replace(given, builtin=None)
    workload = {
        "name": f"scale {given.scale}",
        "threads": min(given.threads, given.clients),
        **workload_table(given),
    }
    scripts = [ScriptTable.model_validate(_script(text)) for text in given.script or []]
    study = ad_hoc(options.parse_sets(given.set_), workload, scripts)
    plan = resolve(study, overrides(given), folder=options.work_folder(given.on))
    carry_out(plan, command_line("compare", given), given, keep_failures=given.keep_failures)


def _script(text: str) -> dict[str, str | int]:
    """``FILE[@WEIGHT]``, as pgbench's --file has it."""
    file, at, weight = text.rpartition("@")
    if at and weight.isdigit():
        return {"file": file, "weight": int(weight)}
    return {"file": text}
