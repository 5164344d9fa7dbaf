"""``walproof wal whatif``: what the recorded load would have written with other settings."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from walproof.cli import options
from walproof.errors import SettingError
from walproof.units import Lsn, parse_bytes

if TYPE_CHECKING:
    from walproof.wal.whatif import Target

SETTINGS = (
    "max_wal_size", "checkpoint_timeout", "checkpoint_completion_target", "min_wal_size", "full_page_writes",
    "wal_compression",
)  # fmt: skip

Paths = Annotated[
    list[Path],
    typer.Argument(metavar="PATH...", help="pg_wal or archive folders and segments of one recording."),
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="NAME=VALUE,...",
        help="Settings to predict: max_wal_size=4GB,wal_compression=lz4. May be repeated.",
    ),
]  # fmt: skip
Present = Annotated[
    str | None,
    typer.Option(
        "--present", metavar="NAME=VALUE,...",
        help="The recorded server's own settings, which are marked and kept where nothing else is asked. "
        "Known of what wal capture recorded.",
    ),
]  # fmt: skip


def whatif(
    paths: Paths,
    set_: Set = None,
    present: Present = None,
    wal_disk: Annotated[
        str | None, typer.Option("--wal-disk", metavar="SIZE", help="Room for pg_wal: which settings fit?")
    ] = None,
    wal_per_hour: Annotated[
        str | None, typer.Option("--wal-per-hour", metavar="SIZE", help="WAL an hour at most.")
    ] = None,
    recovery_target: Annotated[
        str | None,
        typer.Option(
            "--recovery-target", metavar="TIME", help="Longest crash recovery: which settings keep it short?"
        ),
    ] = None,
    shared_buffers: Annotated[
        str | None,
        typer.Option("--shared-buffers", metavar="SIZE", help="For --recovery-target; default as recovered."),
    ] = None,
    calibration: Annotated[
        Path | None,
        typer.Option("--calibration", metavar="FILE", help="For --recovery-target; default this machine's."),
    ] = None,
    start: Annotated[str | None, typer.Option("--start", "-s", metavar="LSN", help="First record.")] = None,
    end: Annotated[str | None, typer.Option("--end", "-e", metavar="LSN", help="End of the last.")] = None,
    timeline: Annotated[
        int | None, typer.Option("--timeline", "-t", min=1, help="Newest timeline to read.")
    ] = None,
    json: options.Json = False,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write a page with pictures as well.")
    ] = None,
    allow_gaps: Annotated[
        bool, typer.Option("--allow-gaps", help="Go on behind missing segments; they are named.")
    ] = False,
) -> None:
    """Predict WAL, images, checkpoints and recovery distance for other max_wal_size, checkpoint_timeout,
    wal_compression and full_page_writes, from recorded WAL alone.

    Exit status 1 when no setting keeps within --wal-disk, --wal-per-hour and --recovery-target.
    """
    from walproof.analysis.whatif import Limits, Question, study
    from walproof.report.terminal import print_sections
    from walproof.report.wal.page import to_html
    from walproof.report.wal.whatif import Asked, whatif_view
    from walproof.report.wal.whatif_json import whatif_json
    from walproof.wal.whatif import identify, simulate

    target_s = options.duration_s(recovery_target)
    limits = Limits(_size("--wal-disk", wal_disk), _size("--wal-per-hour", wal_per_hour), target_s)
    recorded = _recorded_settings(paths)
    presents = [recorded or {}, *options.parse_sets([present] if present is not None else [])]
    sets = options.parse_sets(set_ or [])
    first = None if start is None else Lsn.parse(start)
    last = None if end is None else Lsn.parse(end)
    version, segment_size = identify(*paths, start=first, timeline=timeline)
    own = target_of(version, segment_size, presents)
    asked = tuple(target_of(version, segment_size, [*presents, one]) for one in sets)
    question = Question(own, bool(recorded) or present is not None, asked)
    notes: list[str] = []
    recovery_s = None
    if target_s is not None:
        from walproof.cli.recovery import recovery_of

        recovery_s = recovery_of(
            paths, own.full_page_writes, shared_buffers, calibration, notes,
            start=first, end=last, timeline=timeline, allow_gaps=allow_gaps,
        )  # fmt: skip
    found = study(
        simulate(
            *paths, targets=question.targets(), start=first, end=last, timeline=timeline,
            allow_gaps=allow_gaps,
        ),
        question,
        recovery_s,
    )  # fmt: skip
    answer = None
    if limits != Limits():
        answer = Asked(limits, found.answer(limits), tuple(notes))
    view = whatif_view(found, answer)
    if html is not None:
        from walproof.cli.execution import write_file

        write_file(html, to_html(view, "whatif"))
    if json:
        sys.stdout.write(whatif_json(found, answer))
    else:
        console = options.result_console()
        console.print(view.question, style="bold")
        console.print(view.dateline, style="dim")
        console.print()
        print_sections(view.sections, console)
        if html is not None:
            console.print(str(html))
    if answer is not None and not answer.answer.is_within:
        raise typer.Exit(1)


def _recorded_settings(paths: Sequence[Path]) -> dict[str, str] | None:
    """The server's settings, of a folder that ``walproof wal capture`` wrote; None where there is none."""
    from walproof.wal.recording import RECORDING_FILE, read_recording

    for path in paths:
        if (path / RECORDING_FILE).is_file():
            settings = read_recording(path).settings
            # Images are compressed as they were, whatever the setting says.
            names = [name for name in SETTINGS if name in settings and name != "wal_compression"]
            return {name: settings[name] for name in names}
    return None


def target_of(version: int, segment_size: int, sets: Sequence[Mapping[str, str]]) -> Target:
    """The server of that version with these settings, later ones first. Raises SettingError."""
    from walproof.settings.catalogue import Catalogue
    from walproof.settings.value import parse
    from walproof.wal.whatif import Target, default_completion_target

    catalogue = Catalogue.for_version(version * 10000)
    target = Target(
        checkpoint_completion_target=default_completion_target(version),
        min_wal_size_mb=5 * (segment_size >> 20),
    )
    for settings in sets:
        values = {}
        for name, text in settings.items():
            setting = catalogue.get(name)
            if setting.name not in SETTINGS:
                raise SettingError(
                    f'what-if says nothing of "{setting.name}"', hint=f"It knows {', '.join(SETTINGS)}."
                )
            catalogue.check(setting.name, text)
            values[setting.name] = parse(setting, text)
        target = _with(target, values, segment_size)
    return target


def _with(target: Target, values: Mapping[str, bool | float | str], segment_size: int) -> Target:
    from dataclasses import replace

    changes: dict[str, object] = {}
    for name, value in values.items():
        match name:
            case "max_wal_size" | "min_wal_size":
                least = 2 * (segment_size >> 20)
                if int(value) < least:
                    # As the server says at its start (src/backend/access/transam/xlog.c, ReadControlFile).
                    raise SettingError(
                        f'"{name}" must be at least twice "wal_segment_size"',
                        detail=f"Segments of {segment_size >> 20} MB, {value} MB given.",
                    )
                changes[f"{name}_mb"] = int(value)
            case "checkpoint_timeout":
                changes["checkpoint_timeout_s"] = int(value)
            case "checkpoint_completion_target":
                changes[name] = float(value)
            case "full_page_writes":
                changes[name] = bool(value)
            case _:
                # A boolean before 15.
                changes[name] = ("pglz" if value else "off") if isinstance(value, bool) else value
    return replace(target, **changes)  # type: ignore[arg-type]


def _size(option: str, text: str | None) -> int | None:
    if text is None:
        return None
    count = parse_bytes(text)
    if count <= 0:
        raise SettingError(f"{option} must be more than nothing", detail=f'Given: "{text}".')
    return count
