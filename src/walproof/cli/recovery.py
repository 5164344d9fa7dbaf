"""``walproof recovery``: calibrate this machine, predict how long a recovery takes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from walproof.cli import options
from walproof.cli.server_user import say_server_user
from walproof.errors import SettingError, StoreError
from walproof.units import Lsn, parse_bytes

if TYPE_CHECKING:
    from walproof.facts.calibration import Calibration

app = typer.Typer(help="How long a crashed server is away.", no_args_is_help=True, rich_markup_mode=None)
_READ_AHEAD_MOST = 1 << 30


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
        typer.Option("--add", help="Add to what the file has: several calibrations even out a busy machine."),
    ] = False,
    json: options.Json = False,
) -> None:
    """Measure what each part of a recovery costs on this machine, in about 2 minutes.

    Runs a throw-away cluster in --on (a folder on the server's own kind of disk), which takes up to 5 GB
    there.
    """
    from walproof.analysis.recovery_fit import fit
    from walproof.facts.calibration import calibration_path, read_calibration, write_calibration
    from walproof.lab.recovery.calibration import calibrate as measure
    from walproof.postgres.install import discover, find
    from walproof.postgres.reach import reachable_install
    from walproof.postgres.workspace import Workspace
    from walproof.privilege.user import server_user
    from walproof.probe.environment import this_machine
    from walproof.report.wal.calibration import calibration_text

    install = find(pg) if pg is not None else discover()[0]
    say_server_user()
    user = server_user()
    reachable = reachable_install(install, user)
    cpu, cores, _ = this_machine()
    path = to if to is not None else calibration_path(cpu, cores, install.version)
    # Read before anything is measured: what is damaged, or of another version, is told at once.
    earlier = read_calibration(path) if add and path.exists() else None
    sys.stderr.write(f"calibrating recovery of PostgreSQL {install.label}, about 2 minutes\n")
    with Workspace(options.work_folder(on), user) as workspace:
        found = measure(reachable, workspace, lambda what: _say(what))
    if earlier is not None:
        found = _added(earlier, found, path)
    write_calibration(path, found)
    coefficients = fit(found)
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
            "--shared-buffers", metavar="SIZE", help="Of the server that recovers. May be repeated. "
            "Default: the recorded server's, else 128MB.",
        ),
    ] = None,
    crashed: Annotated[
        str | None,
        typer.Option(
            "--crashed-shared-buffers", metavar="SIZE", help="Of the server that crashes, which decide what "
            "it has written by then. Default: the recorded server's, else the first of --shared-buffers.",
        ),
    ] = None,
    distance: Annotated[
        str | None,
        typer.Option("--distance", metavar="SIZE", help="Crash so far behind the redo point."),
    ] = None,
    iops: Annotated[
        float | None, typer.Option("--iops", min=1, help="Random reads a second that the disk can do.")
    ] = None,
    read_latency: Annotated[
        str | None, typer.Option("--read-latency", metavar="TIME", help="Of one random read: 0.2ms.")
    ] = None,
    read_ahead: Annotated[
        str | None,
        typer.Option("--read-ahead", metavar="SIZE", help="What the kernel reads at once, at most. Default: "
            "the calibration's, else 128kB.",),
    ] = None,
    calibration: Annotated[
        Path | None, typer.Option("--calibration", metavar="FILE", help="A calibration that was kept.")
    ] = None,
    other_machine: Annotated[
        bool, typer.Option("--other-machine", help="Predict for the machine of --calibration, not this one.")
    ] = False,
    crash_log: Annotated[
        Path | None,
        typer.Option(
            "--crash-log", metavar="FILE", help="Server log of a recovery of just this WAL, to learn from.",
        ),
    ] = None,
    prefetch: Annotated[
        int | None,
        typer.Option("--maintenance-io-concurrency", min=0, max=1000, help="Of the server that recovers."),
    ] = None,
    start: Annotated[
        str | None, typer.Option("--start", "-s", metavar="LSN", help="Taken for the redo point.")
    ] = None,
    end: Annotated[str | None, typer.Option("--end", "-e", metavar="LSN", help="Where the crash is.")] = None,
    timeline: options.Timeline = None,
    json: options.Json = False,
    allow_gaps: options.AllowGaps = False,
) -> None:  # fmt: skip
    """Predict how long crash recovery of recorded WAL takes: redo with a warm and a cold cache, the
    checkpoint at its end, and what most of the time goes into.
    """
    from dataclasses import replace

    from walproof.analysis.forecast import forecast, of_minors
    from walproof.cli.costs import find_costs, read_crash
    from walproof.cli.passes import PassProgress
    from walproof.wal.recording import recorded_versions
    from walproof.wal.recovery import find_redo
    from walproof.wal.whatif import identify

    sizes = [options.buffers("--shared-buffers", text) for text in shared_buffers or []]
    before = None if crashed is None else options.buffers("--crashed-shared-buffers", crashed)
    last = None if end is None else Lsn.parse(end)
    asked = None if start is None else Lsn.parse(start)
    with PassProgress("reading WAL") as progress:
        redo = (
            find_redo(*paths, end=last, timeline=timeline, observe=progress.observe).redo
            if asked is None
            else asked
        )
    version, _ = identify(*paths, start=redo, timeline=timeline)
    costs = find_costs(calibration, version, other_machine=other_machine)
    costs = of_minors(costs, recorded_versions(paths))
    latency_s = options.duration_s(read_latency)
    disk = replace(
        costs.disk,
        iops=costs.disk.iops if iops is None else iops,
        read_latency_us=costs.disk.read_latency_us if latency_s is None else latency_s * 1e6,
        read_ahead_kb=costs.disk.read_ahead_kb if read_ahead is None else _read_ahead_kb(read_ahead),
    )
    with PassProgress("simulating") as progress:
        found = forecast(
            *paths,
            buffers=sizes,
            crashed=before,
            start=redo,
            end=last,
            timeline=timeline,
            distance=None if distance is None else options.positive_bytes("--distance", distance),
            concurrency=prefetch,
            allow_gaps=allow_gaps,
            costs=replace(costs, disk=disk),
            crash=None if crash_log is None else read_crash(crash_log),
            observe=progress.observe,
        )
    if json:
        from walproof.report.wal.recovery_json import recovery_json

        sys.stdout.write(recovery_json(found))
        return
    from walproof.report.terminal import print_sections
    from walproof.report.wal.recovery import recovery_view

    view, console = recovery_view(found), options.result_console()
    console.print(view.question, style="bold")
    console.print(view.dateline, style="dim")
    console.print()
    print_sections(view.sections, console)


def _say(what: str) -> None:
    sys.stderr.write(f"  {what}\n")
    sys.stderr.flush()


def _read_ahead_kb(text: str) -> int:
    size = parse_bytes(text)
    if size > _READ_AHEAD_MOST:
        raise SettingError(
            "--read-ahead is out of range",
            detail=f'Given: "{text}". It is 0, for none, to 1GB.',
            hint="/sys/block/DISK/queue/read_ahead_kb has it, in kB.",
        )
    return size >> 10


def _added(earlier: Calibration, found: Calibration, path: Path) -> Calibration:
    """Both together; where they cannot be, what was measured is kept beside and StoreError says where."""
    from walproof.facts.calibration import pooled, write_calibration

    try:
        return pooled([earlier, found])
    except StoreError as error:
        beside = path.with_name(f"{path.stem}-alone.json")
        write_calibration(beside, found)
        raise StoreError(
            error.message, detail=error.detail, hint=f'What was measured now is kept in "{beside}".'
        ) from error
