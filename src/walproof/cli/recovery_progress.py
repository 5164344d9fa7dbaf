"""``walproof recovery progress``: how far is the recovery that is under way, and when is the server back?"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from walproof.cli import options
from walproof.cli.status import ExitStatus
from walproof.cli.streams import reader_may_leave
from walproof.errors import ClusterError, SettingError, WalError
from walproof.units import Lsn

if TYPE_CHECKING:
    from walproof.analysis.forecast import Costs
    from walproof.analysis.recovery_progress import RecoveryCourse, RecoveryProgress
    from walproof.analysis.recovery_sync import SyncCourse
    from walproof.facts.recovering import RecoveryPhase, RecoverySight
    from walproof.probe.recovering import RecoveringServer
    from walproof.wal.progress import Observe

_LOOK_S = 0.2
"""Between two looks: the begin of a segment is known to this."""
_PLACES_MOST = 500
"""Places of the WAL at which redo is predicted."""
_SEGMENT = re.compile("[0-9A-F]{24}")
_LABEL_START = re.compile(r"^START WAL LOCATION: ([0-9A-F]+/[0-9A-F]+)", re.MULTILINE)
_LABEL_TIMELINE = re.compile(r"^START TIMELINE: (\d+)", re.MULTILINE)


def progress(
    data: Annotated[Path, typer.Argument(metavar="DATA", help="Data directory of the server that recovers.")],
    shared_buffers: Annotated[
        str | None,
        typer.Option("--shared-buffers", metavar="SIZE", help="Of that server. Default: from its files and "
            "its command line, else 128MB."),
    ] = None,
    calibration: Annotated[
        Path | None, typer.Option("--calibration", metavar="FILE", help="File of a calibration.")
    ] = None,
    every: Annotated[
        str, typer.Option("--every", metavar="TIME", help="Time between two lines.")
    ] = "2s",
    once: Annotated[bool, typer.Option("--once", help="Print one line, after --every, and end.")] = False,
    check: Annotated[
        bool,
        typer.Option("--check", help="For probes: read no WAL; exit with 1 if nothing advanced in --every."),
    ] = False,
    json: options.Json = False,
) -> None:  # fmt: skip
    """Say how far a recovery is and when the server is back. Of a server that was started and recovers now,
    on this machine: its processes and its WAL are looked at, nothing is changed."""
    from walproof.analysis.recovery_progress import recovery_progress
    from walproof.probe.recovering import RecoveringServer

    every_s = options.duration_s(every) or 0.0
    if every_s < _LOOK_S:
        raise SettingError("--every is too short", detail=f'Given: "{every}". Least: {_LOOK_S:g}s.')
    server = RecoveringServer(data)
    sights = [server.look()]
    course = syncing = target = None
    if not check and not _is_over(sights[-1]):
        configured, is_read = _configured(server, shared_buffers)
        if not sights[-1].phase.is_up:
            _require_titles(configured)
        if is_read and (data / "recovery.signal").exists():
            target = _target(configured)
        syncing = _syncing(server, sights[-1], configured, calibration)
        course = _course(server, sights, configured, calibration)
    with _printer(target, is_json=json) as show:
        while True:
            is_known = check and sights[-1].phase.is_up
            _look_for(server, sights, 0.0 if is_known else every_s)
            found = recovery_progress(course, sights, syncing, _segment_size(data))
            with reader_may_leave() if check else nullcontext():
                show(found, course)
            if check and not sights[-1].phase.is_up and found.stalled_s >= every_s - _LOOK_S:
                raise typer.Exit(ExitStatus.CHECK_FAILED)
            if once or check or _is_over(sights[-1]):
                return


@contextmanager
def _printer(
    target: str | None, *, is_json: bool
) -> Iterator[Callable[[RecoveryProgress, RecoveryCourse | None], None]]:
    """Print a line for each look; on a terminal the last one of each phase stays."""
    from walproof.report.wal.recovery_progress import progress_json, progress_line

    def tell(found: RecoveryProgress, course: RecoveryCourse | None) -> None:
        if is_json:
            line = progress_json(found, course, time.time(), target)
        else:
            line = progress_line(found, course, target)
        sys.stdout.write(line + "\n")
        sys.stdout.flush()

    if is_json or not sys.stdout.isatty():
        yield tell
        return
    from rich.live import Live
    from rich.text import Text

    shown: list[RecoveryPhase] = []
    with Live(console=options.result_console(), auto_refresh=False) as live:

        def rewrite(found: RecoveryProgress, course: RecoveryCourse | None) -> None:
            line = Text(progress_line(found, course, target))
            if shown and shown[-1] is not found.phase:
                live.console.print(live.renderable)
            shown.append(found.phase)
            live.update(line, refresh=True)

        yield rewrite


def _target(configured: Mapping[str, str]) -> str:
    """``recovery_target_time = '2026-11-28 05:12'``; empty for the end of the archive."""
    from walproof.report.plaintext import one_line

    given = [
        f"{name} = '{one_line(configured[name])}'"
        for name in ("recovery_target", "recovery_target_lsn", "recovery_target_name", "recovery_target_time",
                     "recovery_target_xid")
        if configured.get(name)
    ]  # fmt: skip
    return ", ".join(given)


def _segment_size(data: Path) -> int | None:
    """Bytes of a segment, by a file of pg_wal; None while there is none."""
    with suppress(OSError):
        for file in (data / "pg_wal").iterdir():
            if _SEGMENT.fullmatch(file.name):
                return file.stat().st_size or None
    return None


def _look_for(server: RecoveringServer, sights: list[RecoverySight], seconds: float) -> None:
    """Look again and again for that time, until nothing is waited for."""
    until_s = time.monotonic() + seconds
    while not _is_over(sights[-1]) and (left_s := until_s - time.monotonic()) > 0:
        time.sleep(min(_LOOK_S, left_s))
        sights.append(server.look())


def _is_over(sight: RecoverySight) -> bool:
    return sight.phase.is_last


def _syncing(
    server: RecoveringServer, sight: RecoverySight, configured: Mapping[str, str], calibration: Path | None
) -> SyncCourse | None:
    """What is predicted of the sync before redo; None if it is over, or may not be looked at."""
    from walproof.analysis.recovery_sync import sync_course
    from walproof.cli.costs import find_costs
    from walproof.facts.recovering import RecoveryPhase
    from walproof.observe.data_files import dirty_bytes
    from walproof.probe.syncing import walk_synced

    if sight.phase is not RecoveryPhase.BEFORE_REDO:
        return None
    try:
        walk = walk_synced(server.data, time.time() - (sight.running_s or 0.0))
        version = int((server.data / "PG_VERSION").read_text(encoding="ascii"))
    except (ClusterError, OSError, ValueError) as error:
        _note(f"how long the sync takes is not known: {error}")
        return None
    method = _sync_method(version, configured)
    return sync_course(walk, method, find_costs(calibration, version).sync, dirty_bytes())


def _course(
    server: RecoveringServer,
    sights: list[RecoverySight],
    configured: Mapping[str, str],
    calibration: Path | None,
) -> RecoveryCourse | None:
    """What is predicted of the recovery; None, with a word about it, where its end is not known."""
    for name in ("standby.signal", "recovery.signal"):
        if (server.data / name).exists():
            _note(f"{name} is there: WAL comes from elsewhere, so how much is left is not known here.")
            return None
    try:
        redo, timeline = _redo(server.data)
        return _predicted(server, redo, timeline, configured, calibration, sights)
    except (WalError, ClusterError) as error:
        _note(f"how much is left is not known: {error.message}. {error.detail or ''}".rstrip())
        return None


def _predicted(
    server: RecoveringServer,
    redo: Lsn,
    timeline: int,
    configured: Mapping[str, str],
    calibration: Path | None,
    sights: list[RecoverySight],
) -> RecoveryCourse:
    """Simulate the recovery, and look at the real one meanwhile."""
    from threading import Event, Thread

    from walproof.cli.costs import find_costs
    from walproof.cli.passes import PassProgress
    from walproof.wal.whatif import identify

    wal = server.data / "pg_wal"
    version, _ = identify(wal, start=redo, timeline=timeline)
    buffers = _buffers(version, configured)
    costs = find_costs(calibration, version)
    for note in costs.notes:
        _note(note)
    is_read = Event()

    def look() -> None:
        # That the server has ended is said by the next look of the command itself.
        with suppress(ClusterError):
            while not is_read.wait(_LOOK_S) and not _is_over(sights[-1]):
                sights.append(server.look())

    looking = Thread(target=look, daemon=True)
    looking.start()
    try:
        with PassProgress("reading WAL") as shown:
            return predicted_course(wal, redo, timeline, buffers, costs, shown.observe)
    finally:
        is_read.set()
        looking.join()


def predicted_course(
    wal: Path, redo: Lsn, timeline: int, buffers: int, costs: Costs, observe: Observe | None = None
) -> RecoveryCourse:
    """What is predicted of a recovery from ``redo`` to the end of the WAL. Raises WalError."""
    from walproof.analysis.recovery_progress import recovery_course
    from walproof.wal.recovery import analyse
    from walproof.wal.whatif import identify

    _, size = identify(wal, start=redo, timeline=timeline)
    last = max(file.name for file in wal.iterdir() if _SEGMENT.fullmatch(file.name))
    found = analyse(
        wal, buffers=[buffers], start=redo, timeline=timeline, marks=_marks(redo, last, size),
        crashed=buffers, read_ahead_kb=costs.disk.read_ahead_kb, observe=observe,
    )  # fmt: skip
    return recovery_course(found, buffers, costs.coefficients, costs.disk)


def _marks(redo: Lsn, last: str, size: int) -> list[Lsn]:
    """Begins of segments after the redo point, some of them where they are many."""
    from walproof.wal.segment import segment_holding, segment_start

    begins = range(segment_holding(redo, size) + size, segment_start(last, size) + size, size)
    return [Lsn(begin) for begin in begins[:: max(1, -(-len(begins) // _PLACES_MOST))]]


def _redo(data: Path) -> tuple[Lsn, int]:
    """Where this recovery begins, and the timeline that it goes to: by the label of a backup, else
    the control file."""
    from walproof.postgres.control_file import read_redo, target_timeline

    label = data / "backup_label"
    if label.is_file():
        text = label.read_text(encoding="utf-8", errors="replace")
        start, timeline = _LABEL_START.search(text), _LABEL_TIMELINE.search(text)
        if start is not None and timeline is not None:
            return Lsn.parse(start[1]), int(timeline[1])
    return read_redo(data)[0], target_timeline(data)


def _buffers(version: int, configured: Mapping[str, str]) -> int:
    """shared_buffers of the server, in buffers of 8 kB."""
    from walproof.lab.sizes import shared_buffers

    # A value that the server would refuse counts as none.
    with suppress(SettingError):
        return shared_buffers(version * 10000, configured)
    return shared_buffers(version * 10000, {})


def _sync_method(version: int, configured: Mapping[str, str]) -> str:
    """``fsync``, ``syncfs``, or ``off``."""
    if _is_off("fsync", version, configured):
        return "off"
    # 13 has no such setting.
    return configured.get("recovery_init_sync_method", "fsync").lower()


def _require_titles(configured: Mapping[str, str]) -> None:
    """Raise SettingError where the server's processes do not say what they do: all of redo would pass for the
    sync before it."""
    if _is_off("update_process_title", 18, configured):  # every version has it
        raise SettingError(
            "the recovery cannot be followed: update_process_title is off",
            detail="Which segment redo reads is only said by the title of the startup process.",
            hint="--check says whether the recovery works; it needs no titles.",
        )


def _is_off(name: str, version: int, configured: Mapping[str, str]) -> bool:
    """Whether a setting that is on by default is off. A value that the server would refuse counts as none."""
    from walproof.settings.catalogue import Catalogue
    from walproof.settings.value import parse

    with suppress(SettingError):
        setting = Catalogue.for_version(version * 10000).get(name)
        return parse(setting, configured.get(name, "on")) is False
    return False


def _configured(server: RecoveringServer, given_buffers: str | None) -> tuple[dict[str, str], bool]:
    """Settings that the server was started with, and ``--shared-buffers``; whether its files could be
    read."""
    from walproof.settings.server_conf import server_conf

    given = {}
    if given_buffers is not None:
        given["shared_buffers"] = f"{options.buffers('--shared-buffers', given_buffers) * 8}kB"
    try:
        return server_conf(server.data, server.command()) | given, True
    except SettingError as error:
        _note(f"the server's settings are not known, its defaults count: {error.message}")
        if not given:
            _note("--shared-buffers says what the server has; the default is 128 MB.")
        return given, False


def _note(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
