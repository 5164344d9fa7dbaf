"""``walproof tune``: find the fastest configuration that keeps the promises, and prove each of its lines."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from walproof.cli import Interrupted, options, study_options
from walproof.cli.declaration import Repeated, command_line, declared
from walproof.cli.status import ExitStatus
from walproof.cli.streams import reader_may_leave

if TYPE_CHECKING:
    from walproof.cli.tuning import Tuning
    from walproof.report.tune.view import TuneView


@dataclass(frozen=True, slots=True)
class TuneOptions:
    """Options of ``walproof tune``."""

    load: Annotated[
        str,
        typer.Option(
            "--load", metavar="FILE", help="The load: a TOML file with one [[workload]], or a built-in study."
        ),
    ]
    may_lose: options.MayLose = "nothing"
    recovery_target: Annotated[
        str | None, typer.Option("--recovery-target", metavar="TIME", help="Longest time away after a crash.")
    ] = None
    wal_disk: Annotated[str | None, typer.Option("--wal-disk", metavar="SIZE", help="Room for pg_wal.")] = (
        None
    )
    memory: Annotated[
        str | None,
        typer.Option(
            "--memory", metavar="SIZE", help="Memory for the server. Default: 3/4 of the machine's."
        ),
    ] = None
    budget: Annotated[
        str | None,
        typer.Option("--budget", metavar="TIME", help="Wall time of the whole tuning. Default: 45min."),
    ] = None
    quick: Annotated[bool, typer.Option("--quick", help="Take 10 minutes: finds only large gains.")] = False
    objective: Annotated[
        str | None,
        typer.Option(
            "--objective", metavar="METRIC",
            help="tps, latency_ms_p99, wal_bytes_per_txn or recovery_s. Default: tps; at an offered rate "
            "latency_ms_p99.",
        ),
    ] = None  # fmt: skip
    no_worse: Annotated[
        str | None,
        typer.Option(
            "--no-worse", metavar="METRIC=RATIO",
            help="Worst ratio of a second metric to the defaults': latency_ms_p99=1.1 is at most 1.1 of it, "
            "tps=0.95 at least 0.95.",
        ),
    ] = None  # fmt: skip
    rate: Annotated[
        float | None,
        typer.Option("--rate", help="Offered load, transactions per second. Default: the load's."),
    ] = None
    only: Annotated[
        str | None,
        typer.Option("--only", metavar="NAMES", help="The only settings that may move, separated by commas."),
    ] = None
    keep: Annotated[
        list[str] | None,
        typer.Option(
            "--keep",
            metavar="NAME=VALUE[,...]",
            help="Settings that every configuration has. May be repeated.",
        ),
    ] = None
    conf: Annotated[
        Path | None,
        typer.Option(
            "--conf", metavar="FILE", help="Your postgresql.conf: tried first, and restored by undo."
        ),
    ] = None
    duration: Annotated[
        str | None,
        typer.Option(
            "--duration",
            metavar="TIME",
            help="Length of each window. Default: the load's, or from the budget.",
        ),
    ] = None
    seed: Annotated[int, typer.Option("--seed", help="Seed of orders, transactions and proposals.")] = 1
    pg: Annotated[
        str | None,
        typer.Option(
            "--pg",
            metavar="DIR|VERSION",
            help="PostgreSQL to run: a folder, 16.4, 16, embedded or embedded-16. Default: the load's, or "
            "one found on this machine.",
        ),
    ] = None
    device: study_options.Device = None
    on: options.On = None
    ray: study_options.Ray = None
    hosts: study_options.Hosts = None
    insecure: study_options.Insecure = False
    calibration: Annotated[
        Path | None,
        typer.Option("--calibration", metavar="FILE", help="Costs of recovery. Default: this machine's."),
    ] = None
    platform: Annotated[
        str, typer.Option(
            "--platform",
            metavar="NAME",
            help=f"Form of the lines: {options.PLATFORM_NAMES}.",
            autocompletion=options.complete_platform,
        ),
        Repeated.NEVER,
    ] = "conf"  # fmt: skip
    export: Annotated[
        Path | None,
        typer.Option("--export", metavar="FILE", help="Also write an Optuna study, for optuna-dashboard."),
        Repeated.NEVER,
    ] = None
    out: study_options.Out = options.DEFAULT_OUT
    store: study_options.StoreUrl = None
    dry_run: study_options.DryRun = False
    json: study_options.Json = False
    new: study_options.New = False


@declared
def tune(given: TuneOptions) -> None:
    """Find the best configuration that keeps your promises.

    Each of its lines is held against your load; lines that are not proven are named first.

    All servers are throw-away ones on this machine, or on each host of --ray. To resume an interrupted
    tuning, give the same command again.
    """
    from walproof.cli.tune_hosts import tuning_hosts
    from walproof.cli.tune_prepare import prepare
    from walproof.platforms.registry import foreign_storage, platform

    platform(given.platform)  # refuses an unknown name before anything is measured
    if given.export is not None:
        _check_export(given.export)
    for sentence in foreign_storage(given.platform):
        sys.stderr.write(f"warning: {sentence}\n")
    with tuning_hosts(given) as hosts:
        tuning = prepare(given, command_line("tune", given), hosts)
        for sentence in _unwritten(tuning, given.platform):
            sys.stderr.write(f"warning: {sentence}\n")
        if given.dry_run:
            from walproof.cli.tune_plan import print_plan

            print_plan(tuning, given)
            tuning.close()
            return
        _carry_out(tuning, given)


def _check_export(path: Path) -> None:
    """Refuse a study that could not be written when the tuning is over, hours later. Raises AnalysisError,
    StoreError."""
    from walproof.analysis.tuning.export import check_place
    from walproof.cli.files import check_file

    check_place(path)
    check_file("--export", path, "study", makes_folder=False)


def _unwritten(tuning: Tuning, name: str) -> Iterator[str]:
    """What is searched and then left out of the lines, since ALTER SYSTEM has set it on the user's server."""
    from walproof.platforms.platform import PlatformTarget
    from walproof.platforms.registry import platform
    from walproof.settings.change import Before, Change

    own = tuning.conf
    if own is None:
        return
    searched = {factor.setting for factor in tuning.space.factors}
    for setting in sorted(own.by_sql & own.moved.keys() & searched):
        value = own.moved[setting]
        before = {setting: Before(value, is_default=False, is_in_auto_conf=True)}
        target = PlatformTarget(tuning.load.install.version_num, before)
        refused = platform(name).refuse(Change(setting, value), target)
        if refused is not None:
            yield f"{setting} is searched, but not in the lines for {name}: {refused.reason}"


def _carry_out(tuning: Tuning, given: TuneOptions) -> None:
    from walproof.advise.tune.conclusion import Conclusion

    try:
        view = present(tuning.carry_out(given.platform), given)
    except Interrupted as signalled:
        said = "the same command without --new" if given.new else "the same command"
        signalled.kept = f"what was measured is stored, and {said} goes on with the tuning"
        raise
    finally:
        tuning.close()
    if view.answer.conclusion is Conclusion.NONE_KEEPS or view.unfit:
        raise typer.Exit(ExitStatus.CHECK_FAILED)


def present(tuning: Tuning, given: TuneOptions) -> TuneView:
    """Print the answer on stdout, and write the report and the conf into the tuning's folder."""
    from walproof.cli.files import write_file
    from walproof.report.tune.json import to_json
    from walproof.report.tune.page import to_html
    from walproof.report.tune.terminal import print_tuning

    view = tuning.view(given.platform)
    folder = tuning.conductor.file.folder
    page = folder / "report.html"
    write_file(page, to_html(view))
    write_file(folder / "tuning-answer.json", to_json(view))
    if view.pasted.lines is not None:
        write_file(folder / "walproof.conf", view.conf_text)
    with reader_may_leave():
        if given.json:
            sys.stdout.write(to_json(view))
        else:
            print_tuning(view, options.result_console())
    sys.stderr.write(f"report: {page}\n")
    if given.export is not None:
        from walproof.analysis.tuning.export import export_study
        from walproof.facts.place import sqlite_url

        count = export_study(view.facts, given.export, view.asked.name)
        shown = shlex.quote(str(sqlite_url(given.export)))
        sys.stderr.write(f"{count} trials written: optuna-dashboard {shown}\n")
    return view
