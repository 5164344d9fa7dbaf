"""``walproof advise``: what a running server, or one that was recorded, should set, and why."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from walproof.cli import options
from walproof.errors import ProbeError, SettingError
from walproof.units import Lsn, format_bytes, format_duration, parse_bytes, parse_duration_s

if TYPE_CHECKING:
    from walproof.advise.server.advice import Advice
    from walproof.advise.server.case import ServerCase
    from walproof.facts.server import ServerWindow
    from walproof.observe.server import ServerObserver
    from walproof.report.advice.view import AdviceView
    from walproof.settings.durability import DurabilityClass
    from walproof.wal.progress import Observe

SERVER_FILE = "server.json"
"""Beside the segments of a recording that ``--save`` keeps: what was seen of the server."""
PLATFORM_NAMES = (
    "conf, alter-system, patroni, cnpg, zalando, crunchy, rds, rds-terraform, aurora, azure, cloudsql"
)
_SHORTEST_S = 1.0
_LOOK_S = 600.0
_DEMO_S = 60.0
"""Two checkpoints of the demo by time, and many by size."""
_WAL_MOST = "4GB"
_LEAST_READ_BYTES = 8192
"""A page of WAL: less may hold no whole record."""


def advise(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="DSN|FOLDER", help='A server ("service=shop", "host=db1 user=me"), or a recording of one.'
        ),
    ] = None,
    demo: Annotated[
        bool,
        typer.Option("--demo", help="Look at a throw-away server, badly configured and under load."),
    ] = False,
    pg: options.OnePg = None,
    for_: Annotated[
        str | None, typer.Option("--for", metavar="TIME", help="How long to look. Default: 10min.")
    ] = None,
    recovery_target: Annotated[
        str | None, typer.Option("--recovery-target", metavar="TIME", help="Longest crash recovery.")
    ] = None,
    startup_budget: Annotated[
        str | None,
        typer.Option(
            "--startup-budget", metavar="TIME", help="After which an orchestrator ends a server that starts."
        ),
    ] = None,
    wal_disk: Annotated[
        str | None, typer.Option("--wal-disk", metavar="SIZE", help="Room for pg_wal.")
    ] = None,
    may_lose: Annotated[
        str,
        typer.Option(
            "--may-lose", metavar="WHAT", help="What a crash may cost: nothing, commits, table, cluster."
        ),
    ] = "nothing",
    standby: Annotated[
        list[str] | None,
        typer.Option(
            "--standby", metavar="DSN", help="A standby of it: does it read indexes? May be repeated."
        ),
    ] = None,
    platform: Annotated[
        str, typer.Option("--platform", metavar="NAME", help=f"Whose lines to write: {PLATFORM_NAMES}.")
    ] = "alter-system",
    mute: Annotated[
        list[str] | None, typer.Option("--mute", metavar="RULE", help="Leave a rule out. May be repeated.")
    ] = None,
    since: Annotated[
        Path | None,
        typer.Option("--since", metavar="FILE", help="Earlier advice (--json): what is new, what is gone?"),
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option(
            "--save", metavar="DIR", help="Keep what was seen in a new folder, to be advised from again."
        ),
    ] = None,
    wal_most: Annotated[
        str, typer.Option("--wal-most", metavar="SIZE", help="WAL that is recorded at most.")
    ] = _WAL_MOST,
    calibration: Annotated[
        Path | None,
        typer.Option("--calibration", metavar="FILE", help="For --recovery-target; default this machine's."),
    ] = None,
    html: Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Write a page as well.")] = None,
    markdown: Annotated[
        Path | None, typer.Option("--markdown", metavar="FILE", help="Write Markdown as well.")
    ] = None,
    json: options.Json = False,
) -> None:
    """Look at a server, without writing, and say what to change: evidence, gain, risk, lines, and undo.

    Membership in pg_monitor is enough for statistics; with REPLICATION the WAL is recorded, too (contents
    never reach the disk), and settings are simulated on it. Nothing is changed on the server.
    """
    order = AdviceOrder(
        options.duration_s(recovery_target),
        None if wal_disk is None else options.positive_bytes("--wal-disk", wal_disk),
        may_lose,
        platform,
        mute or (),
        calibration,
        options.duration_s(startup_budget),
    )
    order.check()
    if (target is None) is not demo:
        raise SettingError(
            "name a server or a folder, or say --demo",
            hint='Such as: walproof advise "service=shop" --for 10min',
        )
    if pg is not None and not demo:
        raise SettingError("--pg is for --demo", hint="A server that runs has its own PostgreSQL.")
    if standby and (target is None or Path(target).is_dir()):
        raise SettingError("--standby is for a server that runs", hint="Name the primary as well.")
    most = parse_bytes(wal_most)
    seconds = _seconds(for_, demo=demo)
    with ExitStack() as stack:
        if target is None:
            target = stack.enter_context(_demo(pg))
        if Path(target).is_dir():
            folder, window = Path(target), recorded_window(Path(target))
        else:
            folder = save if save is not None else _temporary(stack)
            window = observe_server(target, seconds, most, folder, _progress)
            window = _with_standbys(window, standby or ())
            if save is not None:
                _keep(window, folder)
        advice, view = advice_from(window, folder, order)
    if since is not None:
        from dataclasses import replace

        from walproof.report.advice.since import since as compare

        view = replace(view, since=compare(since, advice).sentences)
    if html is not None or markdown is not None:
        from walproof.cli.files import write_file
        from walproof.report.advice.page import to_html, to_markdown

        if html is not None:
            write_file(html, to_html(view))
        if markdown is not None:
            write_file(markdown, to_markdown(view))
    if json:
        from walproof.report.advice.json import to_json

        sys.stdout.write(to_json(view))
        return
    from walproof.report.advice.terminal import print_advice

    print_advice(view, options.result_console())


def _seconds(for_: str | None, *, demo: bool) -> float:
    """How long to look. Raises SettingError, UnitError."""
    if for_ is None:
        return _DEMO_S if demo else _LOOK_S
    seconds = parse_duration_s(for_)
    if seconds < _SHORTEST_S:
        raise SettingError(f"--for is {for_}: expected at least {_SHORTEST_S:g} s")
    return seconds


@contextmanager
def _demo(pg: str | None) -> Iterator[str]:
    """Connection string of a server that is made for this look alone."""
    from walproof.lab.demo import demo_server
    from walproof.postgres.install import discover, find

    install = find(pg) if pg is not None else discover()[0]
    with demo_server(install, options.work_folder(None), _say) as conninfo:
        yield conninfo


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def _temporary(stack: ExitStack) -> Path:
    """A folder for the recording that is gone when the command ends."""
    parent = Path(tempfile.mkdtemp(prefix="walproof-advise-"))
    stack.callback(shutil.rmtree, parent, ignore_errors=True)
    return parent / "recording"


@dataclass(frozen=True, slots=True)
class AdviceOrder:
    """What advice is asked for: limits, and whose lines."""

    recovery_s: float | None = None
    wal_disk_bytes: int | None = None
    may_lose: str = "nothing"
    platform: str = "alter-system"
    mute: Sequence[str] = ()
    calibration: Path | None = None
    startup_budget_s: float | None = None

    def check(self) -> None:
        """Raise SettingError for words that are none, before anything is looked at."""
        from walproof.advise.server.rules import RULES
        from walproof.cli.promises import may_lose
        from walproof.platforms.registry import platform

        platform(self.platform)
        may_lose(self.may_lose)
        for name in self.mute:
            if name not in RULES:
                raise SettingError(f'no rule "{name}"', hint=f"Rules: {', '.join(RULES)}.")


def advice_from(
    window: ServerWindow, folder: Path, order: AdviceOrder, observe: Observe | None = None
) -> tuple[Sequence[Advice], AdviceView]:
    """Advice on a server from what was seen of it, with the WAL in the folder if there is any.

    Raises SettingError, WalError, StoreError, AnalysisError.
    """
    from walproof.advise.server.rules import advise as ask_rules
    from walproof.cli.promises import may_lose
    from walproof.platforms.registry import platform
    from walproof.report.advice.view import advice_view

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
    advised = ask_rules(case, order.mute)
    return advised.advice, advice_view(advised, platform(order.platform))


def observe_server(
    conninfo: str,
    seconds: float,
    most: int,
    folder: Path,
    show: Callable[[str], None],
    look: Callable[[], None] = lambda: None,
) -> ServerWindow:
    """Look for so long, and record the WAL meanwhile, up to ``most`` bytes, where that is allowed.

    ``look`` is called often, and what it raises ends all. Raises ProbeError.
    """
    from walproof.observe.server import ServerObserver

    with ServerObserver(conninfo) as observer:
        refused = _record(observer, conninfo, seconds, most, folder, show, look)
        window = observer.window()
    if refused is None:
        return window
    from dataclasses import replace

    return replace(window, lacks=(*window.lacks, f"the WAL: {refused}"))


def _with_standbys(window: ServerWindow, standbys: Sequence[str]) -> ServerWindow:
    """The window with what standbys read of its indexes. Raises ProbeError."""
    from walproof.observe.scans import standby_scans

    for conninfo in standbys:
        window = window.with_scans(standby_scans(conninfo, window))
    return window


def _record(
    observer: ServerObserver,
    conninfo: str,
    seconds: float,
    most: int,
    folder: Path,
    show: Callable[[str], None],
    look: Callable[[], None],
) -> str | None:
    """Record WAL, stripped, while looking; why there is none, if so."""
    from walproof.lab.capture import CaptureOrder, capture

    received = 0

    def watch(passed_s: float, so_far: int, _free: int) -> None:
        nonlocal received
        received = so_far
        observer.tick()
        show(
            f"looked for {format_duration(passed_s)} of {format_duration(seconds)}: "
            f"{format_bytes(so_far)} of WAL"
        )

    def is_over() -> bool:
        look()
        return received > most

    try:
        order = CaptureOrder(conninfo, seconds, folder, is_stripped=True)
        capture(order, watch, is_over, lambda _beginning: None)
    except ProbeError as error:
        show("")
        return _told(observer, conninfo, seconds, most, folder, _both(error), show, look)
    show("")
    return None


def _told(
    observer: ServerObserver,
    conninfo: str,
    seconds: float,
    most: int,
    folder: Path,
    refused: str,
    show: Callable[[str], None],
    look: Callable[[], None],
) -> str:
    """Record what pg_walinspect tells where WAL cannot be streamed; what to say of it."""
    from walproof.cli.told_wal import record_told

    def watch(passed_s: float, so_far: int) -> None:
        look()
        observer.tick()
        show(
            f"looked for {format_duration(passed_s)} of {format_duration(seconds)}: "
            f"{format_bytes(so_far)} of WAL told"
        )

    try:
        told = record_told(conninfo, seconds, folder, most, watch)
    except ProbeError as error:
        show("")
        sys.stderr.write(f"the WAL is not recorded: {refused}; {_both(error)}; statistics alone\n")

        def is_enough() -> bool:
            look()
            return False

        observer.wait(seconds, is_enough)
        return f"{refused}; nor by pg_walinspect: {_both(error)}"
    show("")
    sys.stderr.write(f"the WAL is not streamed: {refused}; {told.sentence}\n")
    return f"{refused}; {told.sentence}"


def _both(error: ProbeError) -> str:
    return error.message if error.detail is None else f"{error.message} ({error.detail})"


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()


def recorded_window(folder: Path) -> ServerWindow:
    """What was seen of a server whose recording is in a folder. Raises WalError, StoreError."""
    from walproof.advise.server.recorded import window_of
    from walproof.facts.codec import from_json
    from walproof.facts.server import ServerWindow
    from walproof.wal.recording import read_recording

    kept = folder / SERVER_FILE
    if kept.exists():
        try:
            return from_json(ServerWindow, kept.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise SettingError(f'could not read "{kept}": {error}') from error
    return window_of(read_recording(folder))


def _keep(window: ServerWindow, folder: Path) -> None:
    from walproof.cli.files import write_file
    from walproof.facts.codec import to_json

    write_file(folder / SERVER_FILE, to_json(window))


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
    from walproof.analysis.whatif import Limits

    limits = Limits(wal_disk_bytes, None, recovery_s)
    unread = ServerCase(window, limits=limits, may_lose=may_lose, startup_budget_s=startup_budget_s)
    if not any(folder.glob("0*")):
        return unread
    from walproof.analysis.whatif import Question, study
    from walproof.wal import stats
    from walproof.wal.recording import find_recording, recorded_versions
    from walproof.wal.target import SETTINGS, target_of
    from walproof.wal.whatif import identify, simulate

    recording = find_recording([folder])
    if recording is None:
        raise SettingError(
            f'folder "{folder}" holds WAL and no recording.json',
            hint='"walproof wal capture" and "walproof advise --save" write one; "walproof wal whatif" '
            "reads any WAL.",
        )
    start = None
    if window.looks:
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
    own = target_of(version, segment_size, [present])
    # What hint bits cost is asked only where they are logged: it needs a table of pages of its own.
    is_hinted = "on" in (window.value("data_checksums"), window.value("wal_log_hints"))
    asked = (replace(own, hint_records=False),) if own.hint_records and is_hinted else ()
    question = Question(own, True, asked, recorded=recorded_versions([folder]))
    from walproof.analysis.forecast import forecast_distances, of_minors
    from walproof.cli.costs import find_costs

    costs = of_minors(find_costs(calibration, version), recorded_versions([folder]))
    times = forecast_distances(
        folder, full_page_writes=own.full_page_writes, start=start, costs=costs, observe=observe
    )
    simulated = simulate(folder, targets=question.targets(), start=start, observe=observe)
    found = study(simulated, question, times.longest_s)
    wal = stats(folder, start=start, observe=observe)
    return replace(unread, wal=wal, whatif=found, recovery_band=costs.coefficients.band)
