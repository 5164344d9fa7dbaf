"""``walproof wal whatif``: what the recorded load would have written with other settings."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from walproof.cli import options
from walproof.cli.span import Since, Until, ask_span
from walproof.cli.status import ExitStatus
from walproof.cli.streams import reader_may_leave
from walproof.cli.wal_names import warn
from walproof.errors import SettingError, WalError
from walproof.units import Lsn

if TYPE_CHECKING:
    from walproof.analysis.whatif import Study
    from walproof.report.wal.whatif import AnsweredLimits
    from walproof.wal.places.opened import Path as WalPath
    from walproof.wal.places.place import Place
    from walproof.wal.progress import Observe
    from walproof.wal.whatif import Simulator

Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="NAME=VALUE,...",
        help="Settings to predict: max_wal_size=4GB,wal_compression=lz4. May be repeated.",
        autocompletion=options.complete_setting,
    ),
]  # fmt: skip
Present = Annotated[
    str | None,
    typer.Option(
        "--present", metavar="NAME=VALUE,...",
        help="The recorded server's settings: they are marked, and apply where nothing else is asked for. A "
        "recording made by wal capture knows them.",
    ),
]  # fmt: skip


@options.with_places
def whatif(
    paths: options.OneRecording,
    set_: Set = None,
    present: Present = None,
    wal_disk: Annotated[
        str | None,
        typer.Option("--wal-disk", metavar="SIZE", help="Room for pg_wal: find settings that fit."),
    ] = None,
    wal_per_hour: Annotated[
        str | None, typer.Option("--wal-per-hour", metavar="SIZE", help="Most WAL per hour.")
    ] = None,
    recovery_target: Annotated[
        str | None,
        typer.Option(
            "--recovery-target", metavar="TIME", help="Longest crash recovery: find settings that keep it."
        ),
    ] = None,
    shared_buffers: Annotated[
        str | None,
        typer.Option("--shared-buffers", metavar="SIZE", help="For --recovery-target. Default: as recorded."),
    ] = None,
    calibration: Annotated[
        Path | None,
        typer.Option("--calibration", metavar="FILE", help="For --recovery-target. Default: this machine's."),
    ] = None,
    other_machine: Annotated[
        bool, typer.Option("--other-machine", help="Predict for the machine of --calibration, not this one.")
    ] = False,
    since: Since = None,
    until: Until = None,
    start: Annotated[str | None, typer.Option("--start", "-s", metavar="LSN", help="First record.")] = None,
    end: Annotated[
        str | None, typer.Option("--end", "-e", metavar="LSN", help="End of the last record.")
    ] = None,
    timeline: options.Timeline = None,
    json: options.Json = False,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Also write a page with pictures.")
    ] = None,
    pages: Annotated[
        int | None,
        typer.Option(
            "--pages",
            metavar="N",
            help="Follow at most N pages: a sample by relation, with its error. Default: all pages.",
        ),
    ] = None,
    allow_gaps: options.AllowGaps = False,
    ray: options.Ray = None,
    insecure: options.Insecure = False,
) -> None:
    """Predict WAL and checkpoints for other settings.

    From recorded WAL alone: WAL, images, checkpoints and recovery distance for other values of
    max_wal_size, checkpoint_timeout, wal_compression and full_page_writes.

    Exit status 1 if no settings keep within --wal-disk, --wal-per-hour and --recovery-target.
    """
    from walproof.cli.files import check_file, write_file
    from walproof.cli.passes import PassProgress
    from walproof.report.terminal import print_page
    from walproof.report.wal.page import to_html
    from walproof.report.wal.whatif import whatif_view
    from walproof.report.wal.whatif_json import whatif_json
    from walproof.wal.whatif import simulate_here

    if html is not None:
        check_file("--html", html)
    asked = ask_span(start, end, since, until)
    order = WhatifOrder(
        sets=options.parse_sets(set_ or []),
        present=options.parse_sets([present] if present is not None else []),
        wal_disk_bytes=None if wal_disk is None else options.positive_bytes("--wal-disk", wal_disk),
        wal_bytes_per_hour=(
            None if wal_per_hour is None else options.positive_bytes("--wal-per-hour", wal_per_hour)
        ),
        recovery_s=options.duration_s(recovery_target),
        buffers=None if shared_buffers is None else options.buffers("--shared-buffers", shared_buffers),
        calibration=calibration,
        other_machine=other_machine,
        timeline=timeline,
        pages=pages,
        allow_gaps=allow_gaps,
    )
    of_recovery = {
        "--shared-buffers": shared_buffers is not None, "--calibration": calibration is not None,
        "--other-machine": other_machine,
    }  # fmt: skip
    if order.recovery_s is None and (typed := [name for name, given in of_recovery.items() if given]):
        raise SettingError(
            f"{typed[0]} is for --recovery-target, and there is none",
            hint=f"Add --recovery-target 60s, or leave out {typed[0]}.",
        )
    if ray is not None and (order.allow_gaps or order.recovery_s is not None):
        raise WalError(
            "--allow-gaps and --recovery-target are for one machine",
            hint="Leave out --ray: a cluster reads an archive without gaps and simulates no recovery.",
        )
    with ExitStack() as stack:
        simulator: Callable[[Sequence[Place]], Simulator] = simulate_here
        if ray is not None:
            from walproof.cli.many import simulator as on_cluster

            simulator = stack.enter_context(on_cluster(ray, insecure=insecure))
        progress = stack.enter_context(PassProgress("simulating"))
        first, last = asked.find(paths, timeline, warn, progress.observe)
        order = replace(order, start=first, end=last)
        found, answer = predict_whatif(paths, order, progress.observe, simulator)
    view = whatif_view(found, answer)
    if html is not None:
        write_file(html, to_html(view, "whatif"), "--html")
    with reader_may_leave():
        if json:
            sys.stdout.write(whatif_json(found, answer))
        else:
            console = options.result_console()
            print_page(view.question, view.dateline, view.sections, console)
            if html is not None:
                console.print(str(html))
    if answer is not None and not answer.answer.is_within:
        raise typer.Exit(ExitStatus.CHECK_FAILED)


@dataclass(frozen=True, slots=True)
class WhatifOrder:
    """What is asked of recorded WAL: the parsed options."""

    sets: Sequence[Mapping[str, str]] = ()
    present: Sequence[Mapping[str, str]] = ()
    wal_disk_bytes: int | None = None
    wal_bytes_per_hour: int | None = None
    recovery_s: float | None = None
    buffers: int | None = None
    calibration: Path | None = None
    start: Lsn | None = None
    end: Lsn | None = None
    timeline: int | None = None
    pages: int | None = None
    allow_gaps: bool = False
    other_machine: bool | None = None
    """Whether ``calibration`` is meant to be that of another machine; None where nobody can say so."""


def predict_whatif(
    paths: Sequence[WalPath],
    order: WhatifOrder,
    observe: Observe | None,
    simulator: Callable[[Sequence[Place]], Simulator] | None = None,
) -> tuple[Study, AnsweredLimits | None]:
    """What other settings would write, and the answer to the limits, if there are any.

    ``simulator``: reads the WAL and simulates; by default on this machine.
    Raises WalError, SettingError, StoreError, AnalysisError.
    """
    from walproof.analysis.server_limits import ServerLimits
    from walproof.analysis.whatif import Question, study
    from walproof.analysis.whatif_answer import answer
    from walproof.report.wal.whatif import AnsweredLimits
    from walproof.wal.recording import recorded_versions
    from walproof.wal.whatif import identify, simulate, simulate_here
    from walproof.wal.whatif_target import asks_for_hint_records, methods_of, target_of

    limits = ServerLimits(order.wal_disk_bytes, order.wal_bytes_per_hour, order.recovery_s)
    recorded = _recorded_settings(paths)
    presents = [recorded or {}, *order.present]
    version, segment_size = identify(*paths, start=order.start, timeline=order.timeline)
    target = target_of(version, segment_size, presents)
    asked = tuple(target_of(version, segment_size, presents, changes) for changes in order.sets)
    minors = recorded_versions(paths)
    is_known = bool(recorded) or bool(order.present)
    question = Question(
        target, is_known, asked, recorded=minors, methods=methods_of(version), segment_bytes=segment_size
    )
    times = None
    if order.recovery_s is not None:
        from walproof.analysis.forecast import forecast_distances, of_minors
        from walproof.cli.costs import find_costs

        costs = find_costs(order.calibration, version, other_machine=order.other_machine)
        times = forecast_distances(
            *paths,
            buffers=order.buffers,
            full_page_writes=target.full_page_writes,
            start=order.start,
            end=order.end,
            timeline=order.timeline,
            allow_gaps=order.allow_gaps,
            costs=of_minors(costs, minors),
            observe=observe,
        )
    simulated = simulate(
        *paths, targets=question.targets(), start=order.start, end=order.end, timeline=order.timeline,
        allow_gaps=order.allow_gaps, most_pages=order.pages, simulator=simulator or simulate_here,
        observe=observe,
    )  # fmt: skip
    if not simulated.recorded.has_hint_records and any(
        asks_for_hint_records(version, changes) for changes in order.sets
    ):
        raise SettingError(
            "the recording cannot tell what hint bits would write",
            detail="Without data_checksums and wal_log_hints, setting a hint bit leaves no trace in the WAL.",
            hint="Record with wal_log_hints = on; what it costs can be asked of such a recording.",
        )
    if not simulated.tells_compression and any(target.wal_compression != "as recorded" for target in asked):
        raise SettingError(
            "the recording cannot tell what wal_compression would save",
            detail="It was stripped of contents, and no images.json says how well its images compressed.",
            hint='"walproof wal strip" writes that file beside the segments: keep them together.',
        )
    found = study(simulated, question, None if times is None else times.longest_s)
    if limits == ServerLimits():
        return found, None
    return found, AnsweredLimits(limits, answer(found, limits), () if times is None else times.notes)


def _recorded_settings(paths: Sequence[WalPath]) -> dict[str, str] | None:
    """The server's settings, from a folder that ``walproof wal capture`` wrote; None without one."""
    from walproof.wal.recording import find_recording
    from walproof.wal.whatif_target import SETTINGS

    recording = find_recording(paths)
    if recording is None:
        return None
    # Images are compressed as they were, whatever the setting says.
    names = [name for name in SETTINGS if name in recording.settings and name != "wal_compression"]
    return {name: recording.settings[name] for name in names}
