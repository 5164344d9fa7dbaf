"""``walproof run STUDY``: carry out a study, or what is missing of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from walproof.cli import gate, options, study_options
from walproof.cli.declaration import Override, command_line, declared, overrides
from walproof.errors import StudyError


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What ``walproof run`` is given."""

    study: Annotated[
        str,
        typer.Argument(
            help="Name of a built-in study, or a TOML file.", autocompletion=options.complete_study
        ),
    ]
    quick: Annotated[
        bool, typer.Option("--quick", help="Run fewer rounds and shorter windows."), Override("quick")
    ] = False
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Setting of every variant. May be repeated.",
            autocompletion=options.complete_setting,
        ),
        Override("base", study_options.one_configuration),
    ] = None
    conf: Annotated[
        Path | None,
        typer.Option(
            "--conf", metavar="FILE", help="A postgresql.conf: every variant has its settings, too."
        ),
    ] = None
    rounds: study_options.Rounds = None
    design: study_options.DesignOption = None
    passes: study_options.Passes = None
    settle: study_options.Settle = None
    within: study_options.Within = None
    budget: study_options.Budget = None
    fail_if: gate.FailIf = None
    undecided: gate.UndecidedOption = gate.Undecided.fail
    junit: gate.Junit = None
    summary: gate.Summary = None
    duration: Annotated[
        str | None,
        typer.Option("--duration", metavar="TIME", help="Length of each window: 10s."),
        Override("duration_s", options.duration_s),
    ] = None
    warmup: study_options.Warmup = None
    pg: study_options.Pg = None
    seed: study_options.Seed = None
    probes: Annotated[
        str | None,
        typer.Option("--probes", metavar="NAMES", help="Use only these, separated by commas; or none."),
        Override("probes", study_options.parse_names),
    ] = None
    device: study_options.Device = None
    power_cut: study_options.PowerCut = None
    keep_failures: study_options.KeepFailures = None
    on: options.On = None
    ray: study_options.Ray = None
    hosts: study_options.Hosts = None
    insecure: study_options.Insecure = False
    between: study_options.Between = False
    listen: study_options.Listen = None
    waldir: study_options.WalFolder = None
    out: study_options.Out = options.DEFAULT_OUT
    store: study_options.StoreUrl = None
    dry_run: study_options.DryRun = False
    json: study_options.Json = False
    new: study_options.New = False


@declared
def run(given: RunOptions) -> None:
    """Measure a study's variants in interleaved, random rounds.

    A run that was interrupted is resumed.
    """
    from walproof.cli.execution import carry_out
    from walproof.cli.plan import say_notes, say_unused_duration, say_unused_passes
    from walproof.lab.between import standby_hosts
    from walproof.lab.configurations import read_configurations
    from walproof.lab.kinds.registry import kind_of
    from walproof.lab.study import chosen_installs, read_study, resolve

    gate.check(given)
    study_options.check_hosts(given)
    asked = overrides(given)
    studyfile, text, scripts = read_study(given.study, asked.pg)
    # Where every trial is a power cut, the disk is simulated: memory is quicker, and nothing is worn out.
    in_memory = kind_of(studyfile, asked).works_in_memory
    folder_of = options.memory_folder if in_memory else options.work_folder
    folder = folder_of(given.on, of_hosts=given.ray is not None)
    chosen = chosen_installs(asked.pg or studyfile.pg)
    notes: tuple[str, ...] = ()
    if given.conf is not None:
        own = read_configurations([given.conf], chosen, is_judged=bool(given.fail_if))
        asked, notes = replace(asked, base={**own.base, **asked.base}), own.notes
    plan = resolve(studyfile, asked, folder=folder, scripts=scripts, given=chosen, notes=notes)
    say_notes(plan)
    if given.duration is not None:
        say_unused_duration(plan)
    if given.passes is not None:
        say_unused_passes(plan)
    count = standby_hosts(plan)
    if count and not given.dry_run:
        from walproof.cli.between_run import carry_out_between

        command = command_line("run", given)
        view = carry_out_between(plan, count, command, given, given.on, given.listen, study_text=text)
        gate.conclude(view, given)
        return
    if given.listen is not None and not count:
        raise StudyError("--listen is for studies between hosts", hint="Add --between, or leave it out.")
    if given.ray is not None and not given.dry_run:
        from walproof.cli.host_run import carry_out_over_hosts

        carry_out_over_hosts(plan, command_line("run", given), given, given.on, study_text=text)
        return
    view = carry_out(
        plan, command_line("run", given), given, study_text=text, keep_failures=given.keep_failures
    )
    gate.conclude(view, given)
