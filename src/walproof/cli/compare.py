"""``walproof compare``: an ad-hoc study, each ``--set`` a variant against the defaults."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from walproof.cli import options


def compare(
    set_: Annotated[
        list[str],
        typer.Option(
            "--set", metavar="NAME=VALUE[,...]", help="One variant: its settings. Repeat for more variants."
        ),
    ],
    base: Annotated[
        list[str] | None,
        typer.Option("--base", metavar="NAME=VALUE", help="Setting of every variant, defaults included."),
    ] = None,
    builtin: Annotated[
        str, typer.Option("--builtin", help="pgbench script: tpcb-like, simple-update, select-only.")
    ] = "tpcb-like",
    script: Annotated[
        list[str] | None,
        typer.Option("--script", metavar="FILE[@WEIGHT]", help="pgbench script instead. May be repeated."),
    ] = None,
    setup: Annotated[
        Path | None, typer.Option("--setup", metavar="FILE", help="SQL that makes the script's own tables.")
    ] = None,
    scale: Annotated[int, typer.Option("--scale", min=1, help="pgbench scale factor.")] = 50,
    clients: Annotated[int, typer.Option("--clients", min=1, help="Client sessions.")] = 20,
    threads: Annotated[int, typer.Option("--threads", min=1, help="Threads of pgbench.")] = 2,
    rate: Annotated[
        float | None,
        typer.Option("--rate", help="Offered load in transactions per second; default: all out."),
    ] = None,
    protocol: Annotated[str, typer.Option("--protocol", help="simple, extended or prepared.")] = "simple",
    duration: Annotated[
        str | None, typer.Option("--duration", metavar="TIME", help="Length of each window. Default: 10s.")
    ] = None,
    transactions: Annotated[
        int | None, typer.Option("--transactions", min=1, help="Per client, instead of a duration.")
    ] = None,
    warmup: options.Warmup = None,
    rounds: options.Rounds = None,
    half_width: options.HalfWidth = None,
    budget: options.Budget = None,
    pg: options.Pg = None,
    seed: options.Seed = None,
    device: options.Device = None,
    power_cut: options.PowerCut = None,
    keep_failures: options.KeepFailures = None,
    on: options.On = None,
    out: options.Out = options.DEFAULT_OUT,
    store: options.StoreUrl = None,
    dry_run: options.DryRun = False,
    json: options.Json = False,
    new: options.New = False,
) -> None:
    """Compare settings with the defaults."""
    from walproof.cli.execution import carry_out
    from walproof.lab.study import Overrides, ad_hoc, resolve
    from walproof.lab.studyfile import ScriptTable

    if duration is None and transactions is None:
        duration = "10s"
    workload: dict[str, object] = {
        "name": f"scale {scale}",
        "scale": scale,
        "clients": clients,
        "threads": min(threads, clients),
        "protocol": protocol,
    }
    for key, value in (
        ("builtin", None if script else builtin),
        ("rate", rate),
        ("setup", None if setup is None else str(setup)),
        ("duration", duration if transactions is None else None),
        ("transactions", transactions),
        ("warmup", warmup),
    ):
        if value is not None:
            workload[key] = value
    scripts = [ScriptTable.model_validate(_script(one)) for one in script or []]
    study = ad_hoc(options.parse_sets(set_), workload, scripts)
    plan = resolve(
        study,
        Overrides(
            base={k: v for one in options.parse_sets(base or []) for k, v in one.items()},
            rounds=rounds,
            half_width=None if half_width is None else options.parse_share(half_width),
            budget_s=options.duration_s(budget),
            pg=tuple(pg or ()),
            seed=seed,
            device=device,
            power_cut_images=power_cut,
        ),
        folder=options.work_folder(on),
    )
    command = options.command_line(
        "compare",
        set_=set_,
        base=base,
        script=script,
        builtin=None if script or builtin == "tpcb-like" else builtin,
        setup=setup,
        scale=scale,
        clients=clients,
        threads=threads,
        rate=rate,
        protocol=None if protocol == "simple" else protocol,
        duration=duration if transactions is None else None,
        transactions=transactions,
        warmup=warmup,
        rounds=rounds,
        half_width=half_width,
        budget=budget,
        pg=pg,
        seed=seed,
        device=device,
        power_cut=power_cut,
        keep_failures=keep_failures,
        on=on,
        out=out,
    )
    carry_out(
        plan,
        command,
        out=out,
        store_url=store,
        dry_run=dry_run,
        json=json,
        fresh=new,
        keep_failures=keep_failures,
    )


def _script(text: str) -> dict[str, str | int]:
    """``FILE[@WEIGHT]``, as pgbench's --file has it."""
    file, at, weight = text.rpartition("@")
    if at and weight.isdigit():
        return {"file": file, "weight": int(weight)}
    return {"file": text}
