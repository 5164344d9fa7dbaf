"""``walproof run STUDY``: carry out a study, or what is missing of it."""

from __future__ import annotations

from typing import Annotated

import typer

from walproof.cli import options


def run(
    study: Annotated[str, typer.Argument(help="Name of a built-in study, or a TOML file.")],
    quick: Annotated[bool, typer.Option("--quick", help="Fewer rounds and shorter windows.")] = False,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Setting of every variant. May be repeated."),
    ] = None,
    rounds: options.Rounds = None,
    half_width: options.HalfWidth = None,
    budget: options.Budget = None,
    duration: Annotated[
        str | None, typer.Option("--duration", metavar="TIME", help="Length of each window: 10s.")
    ] = None,
    warmup: options.Warmup = None,
    pg: options.Pg = None,
    seed: options.Seed = None,
    probes: Annotated[
        str | None,
        typer.Option("--probes", metavar="NAMES", help="Only these, separated by commas; or none."),
    ] = None,
    device: options.Device = None,
    power_cut: options.PowerCut = None,
    keep_failures: options.KeepFailures = None,
    on: options.On = None,
    waldir: options.WalFolder = None,
    out: options.Out = options.DEFAULT_OUT,
    store: options.StoreUrl = None,
    dry_run: options.DryRun = False,
    json: options.Json = False,
    new: options.New = False,
) -> None:
    """Measure a study's variants in interleaved, randomised rounds; resume it if it was interrupted."""
    from walproof.cli.execution import carry_out
    from walproof.lab.study import Overrides, read_study, resolve

    studyfile, text, scripts = read_study(study)
    # Where every trial is a power cut, the disk is simulated: memory is quicker, and nothing is worn out.
    is_in_memory = studyfile.power_cut is not None and studyfile.power_cut.only
    base: dict[str, str] = {}
    for one in options.parse_sets(set_ or []):
        base.update(one)
    plan = resolve(
        studyfile,
        Overrides(
            quick=quick,
            base=base,
            rounds=rounds,
            half_width=None if half_width is None else options.parse_share(half_width),
            budget_s=options.duration_s(budget),
            duration_s=options.duration_s(duration),
            warmup_s=options.duration_s(warmup),
            pg=tuple(pg or ()),
            seed=seed,
            probes=None if probes is None else _names(probes),
            device=device,
            power_cut_images=power_cut,
            waldir=waldir,
        ),
        folder=options.memory_folder(on) if is_in_memory else options.work_folder(on),
        scripts=scripts,
    )
    command = options.command_line(
        "run",
        study,
        quick=quick,
        set_=set_,
        rounds=rounds,
        half_width=half_width,
        budget=budget,
        duration=duration,
        warmup=warmup,
        pg=pg,
        seed=seed,
        probes=probes,
        device=device,
        power_cut=power_cut,
        keep_failures=keep_failures,
        on=on,
        waldir=waldir,
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
        study_text=text,
        keep_failures=keep_failures,
    )


def _names(text: str) -> tuple[str, ...]:
    return () if text == "none" else tuple(name.strip() for name in text.split(",") if name.strip())
