"""``walproof recovery``: calibrate this machine, predict how long a recovery takes."""

from __future__ import annotations

import itertools
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from walproof.cli import options
from walproof.cli.predicting import RecoveryOrder, predict_recovery, redo_point
from walproof.cli.recovery_progress import progress
from walproof.cli.server_user import say_server_user
from walproof.errors import StoreError
from walproof.units import format_duration

if TYPE_CHECKING:
    from walproof.analysis.recovery_costs import Coefficients
    from walproof.facts.calibration import Calibration

app = typer.Typer(help="How long a crashed server is away.", no_args_is_help=True, rich_markup_mode=None)


app.command("progress")(progress)


@app.callback()
def _group() -> None:
    """How long a crashed server is away."""


@app.command("calibrate")
def calibrate(
    pg: Annotated[
        str | None, typer.Option("--pg", metavar="DIR|VERSION", help="PostgreSQL that would recover.")
    ] = None,
    on: options.On = None,
    to: Annotated[
        Path | None,
        typer.Option("--to", metavar="FILE", help="File to keep it in. Default: the data folder."),
    ] = None,
    add: Annotated[
        bool,
        typer.Option("--add", help="Add to the calibrations in the file: several even out a busy machine."),
    ] = False,
    json: options.Json = False,
) -> None:
    """Measure what each part of a recovery costs on this machine.

    In about 2 minutes without other work, on a throw-away cluster in --on (a folder on the server's own kind
    of disk), with up to 5 GB there.
    """
    from walproof.cli.files import check_file
    from walproof.facts.calibration import calibration_path, read_calibration
    from walproof.lab.recovery.calibration import calibrate as measure
    from walproof.lab.recovery.calibration import steps
    from walproof.postgres.install import find
    from walproof.postgres.reach import reachable_install
    from walproof.postgres.workspace import Workspace
    from walproof.privilege.user import server_user
    from walproof.probe.environment import this_machine
    from walproof.report.wal.calibration import calibration_text

    install = find(pg)
    say_server_user()
    user = server_user()
    reachable = reachable_install(install, user)
    cpu, cores, _ = this_machine()
    path = to if to is not None else calibration_path(cpu, cores, install.version)
    check_file("--to", path, "calibration")
    # Read before anything is measured: what is damaged, or of another version, is told at once.
    earlier = read_calibration(path) if add and path.exists() else None
    sys.stderr.write(
        f"calibrating recovery of PostgreSQL {install.label}: about 2 minutes without other work "
        "on the machine, several times that beside it\n"
    )
    numbers, begun = itertools.count(1), time.monotonic()

    def say_step(what: str) -> None:
        after = f", after {format_duration(s)}" if (s := round(time.monotonic() - begun)) else ""
        _say(f"{next(numbers)} of {steps()}{after}: {what}")

    with Workspace(options.work_folder(on), user) as workspace:
        found = measure(reachable, workspace, say_step)
    if earlier is not None:
        found = _added(earlier, found, path)
    coefficients = _keep(path, found)
    if json:
        sys.stdout.write(path.read_text(encoding="utf-8"))
        return
    sys.stdout.write(calibration_text(found, coefficients) + f"\nkept in {path}\n")


@app.command("predict")
@options.with_places
def predict(
    paths: options.OneRecording,
    shared_buffers: Annotated[
        list[str] | None,
        typer.Option(
            "--shared-buffers", metavar="SIZE", help="shared_buffers of the server that recovers. May be "
                "repeated. Default: the recorded server's, else 128MB.",
        ),
    ] = None,
    crashed: Annotated[
        str | None,
        typer.Option(
            "--crashed-shared-buffers", metavar="SIZE", help="shared_buffers of the server that crashes: "
                "they decide what it has written by then. Default: the recorded server's, else the first of "
                "--shared-buffers.",
        ),
    ] = None,
    distance: Annotated[
        str | None,
        typer.Option("--distance", metavar="SIZE", help="Distance from the redo point to the crash."),
    ] = None,
    iops: Annotated[
        float | None, typer.Option("--iops", min=1, help="Random reads a second that the disk can do.")
    ] = None,
    read_latency: Annotated[
        str | None, typer.Option("--read-latency", metavar="TIME", help="Latency of one random read: 0.2ms.")
    ] = None,
    read_ahead: Annotated[
        str | None,
        typer.Option("--read-ahead", metavar="SIZE", help="Most that the kernel reads at once. Default: the "
            "calibration's, else 128kB.",),
    ] = None,
    calibration: Annotated[
        Path | None, typer.Option("--calibration", metavar="FILE", help="File of a calibration.")
    ] = None,
    other_machine: Annotated[
        bool, typer.Option("--other-machine", help="Predict for the machine of --calibration, not this one.")
    ] = False,
    crash_log: Annotated[
        Path | None,
        typer.Option(
            "--crash-log", metavar="FILE", help="Server log of a recovery whose WAL is at hand, to learn "
                "from.",
        ),
    ] = None,
    prefetch: Annotated[
        int | None,
        typer.Option("--maintenance-io-concurrency", min=0, max=1000, help="Of the server that recovers."),
    ] = None,
    start: Annotated[
        str | None, typer.Option("--start", "-s", metavar="LSN", help="Location to take as the redo point.")
    ] = None,
    end: Annotated[str | None, typer.Option("--end", "-e", metavar="LSN", help="Where the crash is.")] = None,
    until: Annotated[
        str | None,
        typer.Option(
            "--until", metavar="TIME", help="When the crash is, in place of --end: 14:30, 2026-11-22 14:30, "
                "26h (ago).",
        ),
    ] = None,
    timeline: options.Timeline = None,
    json: options.Json = False,
    allow_gaps: options.AllowGaps = False,
) -> None:  # fmt: skip
    """Predict how long crash recovery of recorded WAL takes. Redo with a warm and a cold cache, the
    checkpoint at its end, and what most of the time goes into."""
    from walproof.cli.costs import read_ahead_of, read_crash
    from walproof.cli.passes import PassProgress
    from walproof.cli.span import ask_span
    from walproof.cli.wal_names import warn

    asked = ask_span(start, end, None, until)
    latency_s = options.duration_s(read_latency)
    order = RecoveryOrder(
        buffers=[options.buffers("--shared-buffers", text) for text in shared_buffers or []],
        crashed=None if crashed is None else options.buffers("--crashed-shared-buffers", crashed),
        distance=None if distance is None else options.positive_bytes("--distance", distance),
        iops=iops,
        read_latency_us=None if latency_s is None else latency_s * 1e6,
        read_ahead_kb=None if read_ahead is None else read_ahead_of(read_ahead),
        calibration=calibration,
        other_machine=other_machine,
        crash=None if crash_log is None else read_crash(crash_log),
        concurrency=prefetch,
        start=asked.start,
        timeline=timeline,
        allow_gaps=allow_gaps,
    )
    with PassProgress("reading WAL") as progress:
        _, last = asked.find(paths, timeline, warn, progress.observe)
        order = replace(order, end=last)
        redo = redo_point(paths, order, progress.observe)
    with PassProgress("simulating") as progress:
        found = predict_recovery(paths, order, redo, progress.observe)
    if json:
        from walproof.report.wal.recovery_json import recovery_json

        sys.stdout.write(recovery_json(found))
        return
    from walproof.report.terminal import print_page
    from walproof.report.wal.recovery_forecast import recovery_view

    view, console = recovery_view(found), options.result_console()
    print_page(view.question, view.dateline, view.sections, console)


def _say(what: str) -> None:
    sys.stderr.write(f"  {what}\n")
    sys.stderr.flush()


def _added(earlier: Calibration, found: Calibration, path: Path) -> Calibration:
    """Both calibrations together. Raises StoreError, which says where the new one is kept instead."""
    from walproof.facts.calibration import pooled, write_calibration

    try:
        return pooled([earlier, found])
    except StoreError as error:
        beside = path.with_name(f"{path.stem}-alone.json")
        write_calibration(beside, found)
        raise StoreError(
            error.message, detail=error.detail, hint=f'The new measurement is kept in "{beside}".'
        ) from error


def _keep(path: Path, found: Calibration) -> Coefficients:
    """Write a calibration and return its costs. One that they cannot be told from replaces none. Raises
    AnalysisError, StoreError."""
    from walproof.analysis.recovery_fit import fit
    from walproof.facts.calibration import write_calibration

    coefficients = fit(found)
    write_calibration(path, found)
    return coefficients
