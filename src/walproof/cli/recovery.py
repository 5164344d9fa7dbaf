"""``walproof recovery``: calibrate this machine, predict how long a recovery takes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from walproof.cli import options
from walproof.errors import SettingError, StoreError, WalError
from walproof.units import Lsn, format_bytes, format_utc, parse_bytes

if TYPE_CHECKING:
    from walproof.analysis.recovery import Coefficients, Disk
    from walproof.analysis.whatif import Prediction as WhatIfPrediction
    from walproof.facts.calibration import Calibration
    from walproof.wal.recovery import RecoveryAnalysis, RecoveryWork

app = typer.Typer(help="How long a crashed server is away.", no_args_is_help=True, rich_markup_mode=None)
_READ_AHEAD_MOST = 1 << 30
_DEFAULT_BUFFERS = 128 << 20
_QUIET_DIFFERENCE = 0.08
"""Of replays of a phase: beyond it, costs are those of the minutes of the calibration."""

Paths = Annotated[
    list[Path],
    typer.Argument(metavar="PATH...", help="pg_wal or archive folders and segments of one recording."),
]


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
    from walproof.lab.calibration import calibrate as measure
    from walproof.postgres.install import discover, find
    from walproof.postgres.reach import reachable_install
    from walproof.postgres.workspace import Workspace
    from walproof.privilege.user import server_user
    from walproof.probe.environment import this_machine

    install = find(pg) if pg is not None else discover()[0]
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
    sys.stdout.write(_calibration_text(found, coefficients) + f"\nkept in {path}\n")


@app.command("predict")
def predict(
    paths: Paths,
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
    timeline: Annotated[
        int | None, typer.Option("--timeline", "-t", min=1, help="Newest timeline to read.")
    ] = None,
    json: options.Json = False,
    allow_gaps: Annotated[
        bool, typer.Option("--allow-gaps", help="Go on behind missing segments; they are named.")
    ] = False,
) -> None:  # fmt: skip
    """Predict how long crash recovery of recorded WAL takes: redo with a warm and a cold cache, the
    checkpoint at its end, and what most of the time goes into.
    """
    from walproof.analysis import recovery
    from walproof.report.terminal import print_sections
    from walproof.report.wal.recovery import Forecast, recovery_json, recovery_view
    from walproof.wal.recovery import PAGE_BYTES, analyse, find_redo
    from walproof.wal.whatif import identify

    notes: list[str] = []
    buffers = _buffers(shared_buffers, paths, notes)
    before = _crashed_buffers(crashed, paths, buffers)
    last = None if end is None else Lsn.parse(end)
    asked = None if start is None else Lsn.parse(start)
    redo = find_redo(*paths, end=last, timeline=timeline).redo if asked is None else asked
    coefficients, disk = _coefficients(
        calibration, other_machine, identify(*paths, start=redo, timeline=timeline)[0], notes
    )
    disk = recovery.Disk(
        disk.iops if iops is None else iops,
        disk.read_latency_us if read_latency is None else (options.duration_s(read_latency) or 0.0) * 1e6,
        disk.read_ahead_kb if read_ahead is None else _read_ahead_kb(read_ahead),
    )
    marks = [] if distance is None else [Lsn(redo + _positive("--distance", distance))]
    found = analyse(
        *paths, buffers=buffers, start=redo, end=last, timeline=timeline, allow_gaps=allow_gaps,
        concurrency=prefetch, marks=marks, crashed=before, read_ahead_kb=disk.read_ahead_kb,
    )  # fmt: skip
    if distance is not None:
        found = _up_to(found, distance)
        if found.last.done:
            # Pages that were written only behind the crash are not newer than their records.
            found = analyse(
                *paths, buffers=buffers, start=redo, end=found.last.end, timeline=timeline,
                allow_gaps=allow_gaps, concurrency=prefetch, crashed=before,
                read_ahead_kb=disk.read_ahead_kb,
            )  # fmt: skip
    if found.last.done:
        notes.append(
            f"{found.last.done / found.last.references:.0%} of block references are to pages that a server "
            f"with shared_buffers = {format_bytes(before * PAGE_BYTES)} had written before it crashed; "
            "replay passes them over."
        )
    if crash_log is not None:
        coefficients = _from_crash(crash_log, found.last, buffers[0], notes)
    predictions = tuple(recovery.predict(found.last, size, coefficients, disk) for size in buffers)
    if any(recovery.is_limited(one) for one in predictions):
        # A second look at the same WAL, piece by piece.
        way = analyse(
            *paths, buffers=buffers, start=redo, end=found.last.end, timeline=timeline, allow_gaps=allow_gaps,
            concurrency=prefetch, marks=recovery.places(found.last), crashed=before,
            read_ahead_kb=disk.read_ahead_kb,
        ).steps[:-1]  # fmt: skip
        predictions = tuple(recovery.predict(found.last, size, coefficients, disk, way) for size in buffers)
    forecast = Forecast(
        found,
        predictions,
        coefficients,
        disk,
        tuple(notes),
    )
    if json:
        sys.stdout.write(recovery_json(forecast))
        return
    view, console = recovery_view(forecast), options.result_console()
    console.print(view.question, style="bold")
    console.print(view.dateline, style="dim")
    console.print()
    print_sections(view.sections, console)


def recovery_of(
    paths: Sequence[Path],
    full_page_writes: bool,
    shared_buffers: str | None,
    calibration: Path | None,
    notes: list[str],
    *,
    start: Lsn | None,
    end: Lsn | None,
    timeline: int | None,
    allow_gaps: bool,
) -> Callable[[WhatIfPrediction], float]:
    """How long the longest recovery takes of a server with other checkpoint settings, in seconds.

    ``notes`` is told what was assumed. Raises as ``walproof recovery predict``.
    """
    from walproof.analysis.recovery_curve import STARTS, mean_image, recovery_curve
    from walproof.wal.recovery import analyse

    buffers = _buffers(None if shared_buffers is None else [shared_buffers], paths, notes)[0]
    whole = analyse(*paths, buffers=[16], start=start, end=end, timeline=timeline, allow_gaps=allow_gaps)
    coefficients, _ = _coefficients(calibration, False, whole.version, notes)
    image_bytes, compression = mean_image(whole)
    span, size = whole.last.end - whole.start, whole.segment_size
    # At the beginning of a segment there is always a record to find.
    places = {int(whole.start + span * place) // size * size for place in STARTS}
    begins = sorted(Lsn(max(place, whole.start)) for place in places)
    curves = {}
    for images in ("first", "off"):
        analyses = []
        for begin in begins:
            marks = [Lsn(begin + (whole.last.end - begin) * part // 12) for part in range(1, 12)]
            analyses.append(
                analyse(
                    *paths, buffers=[buffers], start=begin, end=end, timeline=timeline, allow_gaps=allow_gaps,
                    marks=marks, images="first" if images == "first" else "off",
                )
            )  # fmt: skip
        curves[images] = recovery_curve(analyses, buffers, coefficients, image_bytes, compression)
    shown = curves["first" if full_page_writes else "off"]
    notes.append(
        f"Recovery times are up to {coefficients.band:.1f} times longer in 1 of 20 cases; they are of a warm "
        "cache. Redo points are simulated; a page's first touch behind one has an image of the mean size. "
        f"Distances beyond {format_bytes(shown.farthest)} are extrapolated."
    )
    return lambda one: curves["first" if one.target.full_page_writes else "off"].seconds(one.distance_most)


def _say(what: str) -> None:
    sys.stderr.write(f"  {what}\n")
    sys.stderr.flush()


def _positive(option: str, text: str) -> int:
    count = parse_bytes(text)
    if count <= 0:
        raise SettingError(
            f"{option} must be more than nothing",
            detail=f'Given: "{text}".',
            hint="Sizes are written like 128MB or 8GB.",
        )
    return count


def _read_ahead_kb(text: str) -> int:
    size = parse_bytes(text)
    if size > _READ_AHEAD_MOST:
        raise SettingError(
            "--read-ahead is out of range",
            detail=f'Given: "{text}". It is 0, for none, to 1GB.',
            hint="/sys/block/DISK/queue/read_ahead_kb has it, in kB.",
        )
    return size >> 10


def _buffers(asked: Sequence[str] | None, paths: Sequence[Path], notes: list[str]) -> list[int]:
    """Sizes in buffers of 8 kB."""
    from walproof.wal.recording import find_recording
    from walproof.wal.recovery import PAGE_BYTES

    if asked:
        return [_positive("--shared-buffers", text) // PAGE_BYTES for text in asked]
    recording = find_recording(paths)
    size = None if recording is None else recording.settings.get("shared_buffers")
    if size is not None:
        notes.append(f"shared_buffers = {size} is the recorded server's.")
        return [parse_bytes(size) // PAGE_BYTES]
    notes.append(
        "shared_buffers is taken to be 128 MB, the default: --shared-buffers says what the server will have."
    )
    return [_DEFAULT_BUFFERS // PAGE_BYTES]


def _crashed_buffers(asked: str | None, paths: Sequence[Path], buffers: Sequence[int]) -> int:
    """As `_buffers`, of the server that crashed."""
    from walproof.wal.recording import find_recording
    from walproof.wal.recovery import PAGE_BYTES

    if asked is not None:
        return _positive("--crashed-shared-buffers", asked) // PAGE_BYTES
    recording = find_recording(paths)
    size = None if recording is None else recording.settings.get("shared_buffers")
    return buffers[0] if size is None else parse_bytes(size) // PAGE_BYTES


def _up_to(found: RecoveryAnalysis, distance: str) -> RecoveryAnalysis:
    """The work up to the mark at that distance. Raises WalError when the recording ends before it."""
    from dataclasses import replace

    if len(found.steps) > 1:
        return replace(found, steps=found.steps[:1], finish_reason=None)
    got = found.last.wal_bytes
    raise WalError(
        f"the recording is shorter than the distance: {format_bytes(parse_bytes(distance))}",
        detail=f"Behind the redo point there are {format_bytes(got)} of WAL.",
        hint=f"--distance={got >> 10}kB can be answered, or record longer.",
    )


def _coefficients(
    path: Path | None, other_machine: bool, version: int, notes: list[str]
) -> tuple[Coefficients, Disk]:
    """Of the file, else of this machine's own calibration, else the shipped ones."""
    from walproof.analysis.recovery import SHIPPED, Disk
    from walproof.analysis.recovery_fit import fit
    from walproof.facts.calibration import find_calibrations, read_calibration

    if path is not None:
        own = read_calibration(path)
        unlike = _differences(own, version)
        if unlike and not other_machine:
            raise StoreError(
                f'"{path}" is the calibration of another machine or server',
                detail="\n".join(unlike),
                hint="--other-machine predicts for that one; walproof recovery calibrate measures this one.",
            )
    else:
        found = find_calibrations()
        match = next((one for _, one in found if not _differences(one, version)), None)
        if match is None:
            notes.append(
                "Costs are the shipped ones, of another machine; walproof recovery calibrate measures these."
            )
            if found:
                unlike = _differences(found[0][1], version)
                notes.append("The newest calibration at hand is not used: " + "; ".join(unlike))
            return SHIPPED, Disk()
        own = match
    machine = own.machine
    notes.append(
        f"Costs were calibrated on {format_utc(own.made_at)}: {machine.cpu}, {machine.cores} cores, "
        f"PostgreSQL {machine.version}."
    )
    return fit(own), Disk(own.read_iops, own.read_latency_us, own.read_ahead_kb)


def _differences(calibration: Calibration, version: int) -> tuple[str, ...]:
    """In what the calibrated machine and server differ from this machine and the recording's server."""
    from walproof.probe.environment import this_machine

    machine = calibration.machine
    here = dict(zip(("cpu", "cores", "page_bytes"), this_machine(), strict=True))
    lines = [
        f"{name}: calibrated {getattr(machine, name)}, here {value}"
        for name, value in here.items()
        if getattr(machine, name) != value
    ]
    if machine.version.split(".")[0] != str(version):
        lines.append(f"version: calibrated {machine.version}, recorded {version}")
    return tuple(lines)


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


def _from_crash(path: Path, work: RecoveryWork, buffers: int, notes: list[str]) -> Coefficients:
    from walproof.analysis.recovery_fit import scale_to_crash
    from walproof.facts.recovery import read_recovery_log

    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise StoreError(f'could not read "{path}": {error.strerror}') from error
    times = read_recovery_log(text)
    if times.redo_start != work.start:
        raise WalError(
            "the log is of another recovery than the WAL",
            detail=f"Its redo starts at {times.redo_start}, that of the WAL at {work.start}.",
            hint=f"--start={times.redo_start} asks for that one, if its WAL is at hand.",
        )
    notes.clear()
    notes.append(f'Costs are the shipped ones, scaled to the recovery in "{path}".')
    return scale_to_crash(work, buffers, times)


def _calibration_text(calibration: Calibration, coefficients: Coefficients) -> str:
    from walproof.analysis.recovery import CHECKPOINT_TERMS, COLD_TERMS, TERMS
    from walproof.analysis.recovery_fit import repeat_difference

    machine = calibration.machine
    lines = [
        f"What does a recovery cost on {machine.cpu}, {machine.cores} cores, PostgreSQL {machine.version}?",
        "",
        f"{'':<82}{'here':>9}{'shipped':>9}",
    ]
    lines += [
        _cost(f"{term.says}, us for each {term.unit}", coefficients.cpu_us[term.name], term.shipped_us)
        for term in TERMS
    ]
    cold = {"requests": "read of pages", "wal": "MB of WAL"}
    lines += [
        _cost(f"CPU of reading from the disk, us for each {cold[name]}", coefficients.cold_us[name], shipped)
        for name, shipped in COLD_TERMS
    ]
    says = {
        "resident": "dirty page",
        "spilled": "dirty page that the kernel got before",
        "runs": "run of these",
        "cold_resident": "dirty page, with a cold cache besides",
        "cold_spilled": "dirty page that the kernel got before, with a cold cache besides",
        "segments": "segment of WAL that is recycled",
    }
    lines += [
        _cost(f"checkpoint, us for each {says[name]}", coefficients.checkpoint_us[name], shipped)
        for name, shipped in CHECKPOINT_TERMS
    ]
    if calibration.read_iops is not None and calibration.read_latency_us is not None:
        lines.append(
            f"\nThe disk: {calibration.read_iops:,.0f} random reads of 8 kB a second, "
            f"{calibration.read_latency_us:.0f} us for one alone, "
            f"up to {calibration.read_ahead_kb:,} kB read ahead by the kernel."
        )
    fresh_us, touch_us = calibration.fresh_touch_us, calibration.touch_us
    memory = f"The first use of 8 kB of memory: {touch_us:.1f} us"
    if fresh_us > 1.5 * touch_us:
        memory += f"; {fresh_us:.1f} us where the host has taken back what was free. Costs are without that"
    lines.append(f"{memory}.")
    if coefficients.phase_error is not None:
        lines.append(f"Median error of the fit on its own phases: {coefficients.phase_error:.0%}.")
    difference = repeat_difference(calibration, coefficients)
    if difference is not None:
        line = f"Replays of a phase differed by {difference:.0%} in the median"
        is_quiet = difference < _QUIET_DIFFERENCE
        advice = "this machine is not quiet. At another hour, calibrate again with --add."
        lines.append(f"{line}." if is_quiet else f"{line}: {advice}")
    return "\n".join(lines) + "\n"


def _cost(what: str, here: float, shipped: float) -> str:
    return f"{what:<82}{here:9.3g}{shipped:9.3g}"
