"""Looking at a server and advising, for the commands that do."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from walproof.errors import ProbeError, SettingError
from walproof.units import Lsn, format_bytes, format_duration

if TYPE_CHECKING:
    from walproof.advise.server.advice import Advice
    from walproof.advise.server.case import ServerCase
    from walproof.facts.server import ServerWindow
    from walproof.observe.server import ServerObserver
    from walproof.report.advice.view import AdviceView
    from walproof.settings.durability import DurabilityClass
    from walproof.wal.progress import Observe
    from walproof.wal.recording import Recording

_LEAST_READ_BYTES = 8192
"""A page of WAL: less may not hold a whole record."""


@dataclass(frozen=True, slots=True)
class AdviceOrder:
    """What advice is asked for: the limits, and the platform to write lines for."""

    recovery_s: float | None = None
    wal_disk_bytes: int | None = None
    may_lose: str = "nothing"
    platform: str | None = None
    """None for the one that is recognised, else ALTER SYSTEM."""
    mute: Sequence[str] = ()
    calibration: Path | None = None
    startup_budget_s: float | None = None

    def check(self) -> None:
        """Raise SettingError for unknown words, and StoreError for a calibration that cannot be read, before
        anything is looked at."""
        from walproof.advise.server.rules import RULES
        from walproof.cli.promises import may_lose
        from walproof.platforms.registry import platform

        if self.platform is not None:
            platform(self.platform)
        may_lose(self.may_lose)
        for name in self.mute:
            if name not in RULES:
                raise SettingError(f'no rule "{name}"', hint=f"Rules: {', '.join(RULES)}.")
        if self.calibration is not None:
            from walproof.facts.calibration import read_calibration

            read_calibration(self.calibration)


def advice_from(
    window: ServerWindow, folder: Path, order: AdviceOrder, observe: Observe | None = None
) -> tuple[Sequence[Advice], AdviceView]:
    """Advice on a server from what was seen of it, with the WAL in the folder if there is any.

    Raises SettingError, WalError, StoreError, AnalysisError.
    """
    from dataclasses import replace

    from walproof.advise.server.rules import advise as ask_rules
    from walproof.cli.promises import may_lose
    from walproof.platforms.inapplicable import inapplicable
    from walproof.platforms.recognised import choose
    from walproof.report.advice.view import advice_view

    chosen = choose(order.platform, {*window.settings, *window.marks})
    case = case_of(
        window,
        folder,
        may_lose(order.may_lose),
        order.recovery_s,
        order.wal_disk_bytes,
        order.calibration,
        order.startup_budget_s,
        observe,
    )
    case = replace(case, is_hosted=chosen.is_hosted)
    advised = ask_rules(case, order.mute, inapplicable(chosen.runs_on))
    return advised.advice, advice_view(advised, chosen.platform, chosen)


@dataclass(frozen=True, slots=True)
class LookOrder:
    """How to look at a server."""

    conninfo: str
    seconds: float
    wal_most: int
    """Most bytes of WAL to record."""
    folder: Path
    """Where the recording goes."""
    streams: bool = True
    """Whether to record WAL at all."""
    max_retained_bytes: int | None = None
    """Most WAL that the server may keep for the recording; None for what a recording has by default."""
    calibration: Path | None = None
    """File of the costs that the advice is made with."""
    standbys: Sequence[str] = ()
    """Connection strings of its standbys that are asked afterwards."""


@dataclass(frozen=True, slots=True)
class Telling:
    """Who is told of a look while it lasts."""

    passed: Callable[[float, int], None]
    """Seconds that have passed, and bytes of WAL so far."""
    say: Callable[[str], None]
    """A sentence for the user: the WAL is not recorded, and why."""
    look: Callable[[], None] = lambda: None
    """Called often; what it raises ends all."""


def look_sentence(passed_s: float, seconds: float, wal_bytes: int) -> str:
    """How far a look is."""
    return (
        f"looked for {format_duration(passed_s)} of {format_duration(seconds)}: "
        f"{format_bytes(wal_bytes)} of WAL"
    )


def observe_server(order: LookOrder, telling: Telling) -> ServerWindow:
    """Look for so long, and record the WAL meanwhile, where that is allowed.

    What could not be used afterwards is refused first: a standby that does not answer or is none, and where
    WAL is streamed a calibration of another machine or version. Raises ProbeError, ConninfoError, StoreError,
    AnalysisError, and DiskError for a folder that cannot be written.
    """
    from walproof.observe.server import ServerObserver

    with ServerObserver(order.conninfo) as observer:
        _check_standbys(observer, order)
        lack = _record(observer, order, telling) if order.streams else _count(observer, order, telling)
        window = observer.window()
    if lack is None:
        return window
    from dataclasses import replace

    return replace(
        window, lacks=(*window.lacks, f"{lack.what}: {lack.reason}"), is_wal_refused=lack.is_refused
    )


def _check_standbys(observer: ServerObserver, order: LookOrder) -> None:
    if order.standbys:
        from walproof.observe.scans import standby_scans

        for conninfo in order.standbys:
            standby_scans(conninfo, observer.system_identifier, observer.database)


def with_standbys(window: ServerWindow, standbys: Sequence[str]) -> ServerWindow:
    """The window with what standbys read of its indexes; one that no longer answers is noted."""
    from dataclasses import replace

    from walproof.observe.scans import standby_scans

    for conninfo in standbys:
        try:
            scans, counted_s = standby_scans(conninfo, window.system_identifier, window.database)
        except ProbeError as error:
            lack = f"a standby's scans of indexes: {_both(error)}"
            window = replace(window, lacks=(*window.lacks, lack))
        else:
            window = window.with_scans(scans, counted_s)
    return window


@dataclass(frozen=True, slots=True)
class _WalLack:
    """Why the WAL was not streamed, or not to the end."""

    reason: str
    is_refused: bool
    """Whether the server refused it, and pg_walinspect did not tell of it instead."""
    what: str = "the WAL"


def _record(observer: ServerObserver, order: LookOrder, telling: Telling) -> _WalLack | None:
    """Record WAL, stripped, while looking. Returns the reason when it is not streamed."""
    from walproof.lab.capture import MAX_RETAINED_BYTES, Beginning, CaptureOrder, capture
    from walproof.lab.receiver import DISK

    received = 0

    def watch(passed_s: float, so_far: int, _free: int) -> None:
        nonlocal received
        received = so_far
        observer.tick()
        telling.passed(passed_s, so_far)

    def is_over() -> bool:
        telling.look()
        return received > order.wal_most

    def begun(_beginning: Beginning) -> None:
        if order.calibration is not None:
            from walproof.cli.costs import find_costs

            find_costs(order.calibration, observer.major)

    retained = MAX_RETAINED_BYTES if order.max_retained_bytes is None else order.max_retained_bytes
    wanted = CaptureOrder(
        order.conninfo, order.seconds, order.folder, max_retained_bytes=retained, is_stripped=True
    )
    try:
        recording = capture(wanted, watch, is_over, begun)
    except ProbeError as error:
        return _told(observer, order, _both(error), telling)
    why = recording.ended_because
    if received > order.wal_most:
        why = f"more than {format_bytes(order.wal_most)} of WAL came, the most that is recorded (--wal-most)"
    elif why == DISK:
        why = "the disk was nearly full"
    elif why in ("time", "interrupted"):
        return None
    cut = f"the look ended early: {why}; rates rest on the shorter time"
    telling.say(cut)
    return _WalLack(cut, is_refused=False, what="the rest of the WAL")


def _told(observer: ServerObserver, order: LookOrder, refused: str, telling: Telling) -> _WalLack:
    """Record what pg_walinspect tells where WAL cannot be streamed; what to say of it."""
    from walproof.cli.told_wal import record_told

    def watch(passed_s: float, so_far: int) -> None:
        telling.look()
        observer.tick()
        telling.passed(passed_s, so_far)

    try:
        told = record_told(order.conninfo, order.seconds, order.folder, order.wal_most, watch)
    except ProbeError as error:
        also = _both(error)
        reason = refused if also == refused else f"{refused}; nor by pg_walinspect: {also}"
        telling.say(f"the WAL is not recorded: {reason}; statistics alone")
        _wait(observer, order, telling)
        return _WalLack(reason, is_refused=True)
    telling.say(f"the WAL is not streamed: {refused}; {told.sentence}")
    return _WalLack(f"{refused}; {told.sentence}", is_refused=False)


def _count(observer: ServerObserver, order: LookOrder, telling: Telling) -> _WalLack:
    """Look at statistics alone, as the server's owner wants it."""
    _wait(observer, order, telling)
    return _WalLack("stream is false in the file of servers", is_refused=False)


def _wait(observer: ServerObserver, order: LookOrder, telling: Telling) -> None:
    began = time.monotonic()

    def is_enough() -> bool:
        telling.look()
        telling.passed(time.monotonic() - began, 0)
        return False

    observer.wait(order.seconds, is_enough)


def _both(error: ProbeError) -> str:
    return error.message if error.detail is None else f"{error.message} ({error.detail})"


def is_folder(word: str) -> bool:
    """Whether a word names a folder; a connection string may be longer than any path."""
    return os.path.isdir(word)  # noqa: PTH112 - Path.is_dir raises OSError for such a one


def recorded_window(folder: Path) -> ServerWindow:
    """What was seen of a server whose recording is in a folder. Raises WalError, StoreError, and
    SettingError if the file cannot be read."""
    from walproof.advise.server.recorded import window_of
    from walproof.facts.codec import from_json
    from walproof.facts.server import SERVER_FILE, ServerWindow
    from walproof.files import reason, regular_text
    from walproof.wal.recording import read_recording

    kept = folder / SERVER_FILE
    if kept.exists():
        try:
            return from_json(ServerWindow, regular_text(kept))
        except (OSError, UnicodeDecodeError) as error:
            raise SettingError(f'could not read "{kept}": {reason(error)}') from error
    return window_of(read_recording(folder))


def keep_window(window: ServerWindow, folder: Path) -> None:
    """Write what was seen beside the recording. Raises StoreError."""
    from walproof.cli.files import write_file
    from walproof.facts.codec import to_json
    from walproof.facts.server import SERVER_FILE

    write_file(folder / SERVER_FILE, to_json(window), "--save")


def case_of(
    window: ServerWindow,
    folder: Path,
    may_lose: DurabilityClass,
    recovery_s: float | None,
    wal_disk_bytes: int | None,
    calibration: Path | None,
    startup_budget_s: float | None = None,
    observe: Observe | None = None,
) -> ServerCase:
    """The window with its WAL read and simulated, where there is any."""
    from dataclasses import replace

    from walproof.advise.server.case import ServerCase
    from walproof.analysis.server_limits import ServerLimits

    limits = ServerLimits(wal_disk_bytes, None, recovery_s)
    unread = ServerCase(window, limits=limits, may_lose=may_lose, startup_budget_s=startup_budget_s)
    if not any(folder.glob("0*")):
        return unread
    from walproof.analysis.whatif import Question, study
    from walproof.wal import stats
    from walproof.wal.recording import find_recording, recorded_versions
    from walproof.wal.whatif import identify, simulate
    from walproof.wal.whatif_target import SETTINGS, methods_of, target_of

    recording = find_recording([folder])
    if recording is None:
        raise SettingError(
            f'folder "{folder}" holds WAL and no recording.json',
            hint='"walproof wal capture" and "walproof advise --save" write one; "walproof wal whatif" '
            "reads any WAL.",
        )
    _check_same(window, recording, folder)
    start = None
    if window.looks and window.looks[0].lsn is not None:
        # The recording begins with a segment, much of which may be older than the first look.
        start = max(Lsn(window.looks[0].lsn), recording.began.lsn)
        if recording.ended.lsn - start < _LEAST_READ_BYTES:
            return unread
    version, segment_size = identify(folder)
    present = {
        name: recording.settings[name]
        for name in SETTINGS
        if name in recording.settings and name != "wal_compression"
    }
    target = target_of(version, segment_size, [present])
    # What hint bits cost is asked only where they are logged: it needs a table of pages of its own.
    is_hinted = "on" in (window.value("data_checksums"), window.value("wal_log_hints"))
    asked = [replace(target, hint_records=False)] if target.hint_records and is_hinted else []
    # The same holds for ordered keys.
    uuids = [index.filenode for index in window.indexes if index.has_uuid and index.filenode]
    if uuids:
        asked.append(replace(target, ordered_keys=True))
    minors, methods = recorded_versions([folder]), methods_of(version)
    question = Question(
        target, True, tuple(asked), recorded=minors, methods=methods, segment_bytes=segment_size
    )
    from walproof.analysis.forecast import forecast_distances, of_minors
    from walproof.cli.costs import find_costs

    costs = of_minors(find_costs(calibration, version), minors)
    times = forecast_distances(
        folder, full_page_writes=target.full_page_writes, start=start, costs=costs, observe=observe
    )
    simulated = simulate(folder, targets=question.targets(), start=start, ordered=uuids, observe=observe)
    found = study(simulated, question, times.longest_s)
    wal = stats(folder, start=start, observe=observe)
    return replace(unread, wal=wal, whatif=found, recovery_band=costs.coefficients.band)


def _check_same(window: ServerWindow, recording: Recording, folder: Path) -> None:
    """Raise SettingError if the WAL in the folder is not that of the server that was looked at."""
    if window.system_identifier not in (None, str(recording.system_identifier)):
        raise SettingError(
            f'folder "{folder}" holds the WAL of one server and statistics of another',
            detail=f"System identifiers: {recording.system_identifier} and {window.system_identifier}.",
            hint="Look again, with --save and a new folder.",
        )
