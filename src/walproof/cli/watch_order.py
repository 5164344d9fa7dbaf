"""What to watch: from the command line, from ``watch.toml``, and by default."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from walproof.advise.watch.concern import Thresholds
from walproof.cli import options
from walproof.errors import SettingError
from walproof.settings.conninfo import parse
from walproof.units import format_duration, parse_bytes, parse_duration_s

if TYPE_CHECKING:
    from walproof.cli.watch_file import WatchedServerTable, WatchFile
    from walproof.facts.watch_recorder import HistoryLimits

SHORTEST_S = 0.5
_MAX_RETAINED = 1 << 30
DEFAULT_HISTORY = options.DEFAULT_OUT / "watch.sqlite"
_OF_REPLAYS = (
    "servers", "recovery_target", "full_warning", "full_critical", "lag_warning", "lag_critical",
)  # fmt: skip
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class ServerOrder:
    """One server."""

    conninfo: str
    name: str | None = None
    """The name that is shown; None: from the connection string."""
    recovery_s: float | None = None
    wal_disk_bytes: int | None = None
    streams: bool = True
    calibration: Path | None = None
    bytes_per_s_most: int | None = None
    """Most bytes of the stream to read per second; None: as fast as it comes."""


@dataclass(frozen=True, slots=True)
class HistoryOrder:
    """Where records are kept, and how many."""

    path: Path
    limits: HistoryLimits


@dataclass(frozen=True, slots=True)
class PairOrder:
    """The two servers of the order are a pair, upstream first, and that is asked about."""

    application_name: str | None = None
    """application_name of the walsender, where it is unclear."""


@dataclass(frozen=True, slots=True)
class WatchOrder:
    """What to watch, and what to compare with."""

    servers: tuple[ServerOrder, ...]
    every_s: float = 2.0
    thresholds: Thresholds = field(default_factory=Thresholds)
    max_retained_bytes: int = _MAX_RETAINED
    listen: str | None = None
    web: str | None = None
    """Where the page is served."""
    web_names: tuple[str, ...] = ()
    """Host names by which browsers may ask for it."""
    history: HistoryOrder | None = None
    pair: PairOrder | None = None
    """The pair of ``replica watch``; otherwise pairs are found."""


@dataclass(frozen=True, slots=True)
class Typed:
    """The command line; None for what was not typed."""

    servers: tuple[str, ...] = ()
    """Connection strings, or names of servers of the file."""
    recovery_target: str | None = None
    wal_disk: str | None = None
    every: str | None = None
    full_warning: str | None = None
    full_critical: str | None = None
    lag_warning: str | None = None
    lag_critical: str | None = None
    listen: str | None = None
    web: str | None = None
    web_names: tuple[str, ...] = ()
    stream: bool | None = None
    max_retained: str | None = None
    max_rate: str | None = None
    calibration: Path | None = None
    history: Path | None = None
    keep: str | None = None
    history_max: str | None = None

    def of_live_servers(self) -> list[str]:
        """Options that were typed and say nothing of a history that is shown again."""
        named = {key: getattr(self, key) for key in self.__slots__ if key not in _OF_REPLAYS}
        words = {"web_names": "--name", "stream": "--stream" if self.stream else "--no-stream"}
        return [
            words.get(key, "--" + key.replace("_", "-"))
            for key, value in named.items()
            if value is not None and value != ()
        ]


def watch_order(typed: Typed, file: WatchFile | None) -> WatchOrder:
    """Options win over the file, and in it a server's own keys over those of all.

    Raises SettingError, UnitError, ConninfoError.
    """
    from walproof.cli.watch_file import WatchFile

    base = file or WatchFile()
    recovery_s = _read("--recovery-target", typed.recovery_target, duration)
    room = _read("--wal-disk", typed.wal_disk, options.positive_bytes)
    rate = _read("--max-rate", typed.max_rate, options.positive_bytes)
    every_s = _first(_read("--every", typed.every, duration), base.every, 2.0)
    if every_s < SHORTEST_S:
        raise SettingError(f"the time between two looks is {every_s:g} s: expected {SHORTEST_S:g} s at least")
    servers = tuple(
        ServerOrder(
            table.conninfo,
            table.name,
            _either(recovery_s, table.recovery_target, base.recovery_target),
            _either(room, table.wal_disk, base.wal_disk),
            _first(typed.stream, table.stream, base.stream, True),
            _either(typed.calibration, table.calibration, base.calibration),
            _either(rate, table.max_rate, base.max_rate),
        )
        for table in _chosen(typed.servers, base)
    )
    if not servers:
        raise SettingError(
            "no server is named",
            hint='walproof watch "service=db1", or --config FILE with servers in it.',
        )
    for server in servers:
        server_name(server.conninfo)
    return WatchOrder(
        servers,
        every_s,
        thresholds_of(typed, file),
        _first(_read("--max-retained", typed.max_retained, _bytes), base.max_retained, _MAX_RETAINED),
        _either(typed.listen, base.listen),
        _either(typed.web, base.web),
        typed.web_names,
        _history(typed, base),
    )


def thresholds_of(typed: Typed, file: WatchFile | None) -> Thresholds:
    """Thresholds without a recovery target: servers have their own. Raises SettingError, UnitError."""
    given = Thresholds()

    def seconds(key: str) -> float:
        text: str | None = getattr(typed, key)
        option = "--" + key.replace("_", "-")
        default: float = getattr(given, f"{key}_s")
        filed: float | None = None if file is None else getattr(file, key)
        return _first(_read(option, text, duration), filed, default)

    found = Thresholds(
        None, seconds("full_warning"), seconds("full_critical"), seconds("lag_warning"),
        seconds("lag_critical"),
    )  # fmt: skip
    _require_order("--full-critical", found.full_critical_s, "--full-warning", found.full_warning_s)
    _require_order("--lag-warning", found.lag_warning_s, "--lag-critical", found.lag_critical_s)
    return found


def _require_order(lesser: str, lesser_s: float, larger: str, larger_s: float) -> None:
    """Refuse a threshold that another one hides: what is critical is worse than a warning."""
    if lesser_s > larger_s:
        raise SettingError(
            f"{lesser} is {format_duration(lesser_s)}, and {larger} {format_duration(larger_s)}: one of them "
            "would never count",
            hint="Give both; what is not given has its default.",
        )


def replay_thresholds(typed: Typed, file: WatchFile | None) -> Callable[[str], Thresholds]:
    """Thresholds of the server with a name, for a replay: without a recovery target where neither the option
    nor the file has one for it. Raises SettingError, UnitError.
    """
    thresholds = thresholds_of(typed, file)
    typed_s = _read("--recovery-target", typed.recovery_target, duration)
    tables = () if file is None else file.server
    filed_s = {table.name or server_name(table.conninfo): table.recovery_target for table in tables}
    of_all_s = None if file is None else file.recovery_target
    return lambda name: replace(thresholds, recovery_s=_either(typed_s, filed_s.get(name), of_all_s))


def server_name(conninfo: str) -> str:
    """What a server is called on the page: its service, or host and port. Raises ConninfoError."""
    given = parse(conninfo)
    if service := given.get("service"):
        return service
    host, port = given.get("host") or given.get("hostaddr") or "local", given.get("port")
    host = "local" if host.startswith(("/", "@")) else host
    return f"{host}:{port}" if port else host


def duration(option: str, text: str) -> float:
    """Raises SettingError below half a second, UnitError."""
    seconds = parse_duration_s(text)
    if seconds < SHORTEST_S:
        raise SettingError(f"{option} is {text}: expected at least {SHORTEST_S:g} s")
    return seconds


def _chosen(words: tuple[str, ...], file: WatchFile) -> tuple[WatchedServerTable, ...]:
    """A word is the name of a server in the file, else a connection string."""
    from walproof.cli.watch_file import WatchedServerTable

    if not words:
        return file.server
    named = {table.name: table for table in file.server if table.name is not None}
    for word in words:
        if word not in named:
            # Before anything else reads it, and could repeat it in an error.
            server_name(word)
    return tuple(named.get(word) or WatchedServerTable(dsn=word) for word in words)


def _history(typed: Typed, file: WatchFile) -> HistoryOrder | None:
    from walproof.facts.watch_recorder import LEAST_BYTES, HistoryLimits

    keep_s = _either(_read("--keep", typed.keep, duration), file.keep)
    most = _either(_read("--history-max", typed.history_max, options.positive_bytes), file.history_max)
    path = _either(typed.history, file.history)
    if path is None and keep_s is None and most is None:
        return None
    if most is not None and most < LEAST_BYTES:
        raise SettingError("a history needs 1 MB at least", hint="--history-max 1GB")
    given = HistoryLimits()
    limits = HistoryLimits(_first(keep_s, given.keep_s), _first(most, given.bytes_most))
    return HistoryOrder(DEFAULT_HISTORY if path is None else path, limits)


def _bytes(_option: str, text: str) -> int:
    return parse_bytes(text)


def _read(option: str, text: str | None, read: Callable[[str, str], _T]) -> _T | None:
    return None if text is None else read(option, text)


def _either(*values: _T | None) -> _T | None:
    return next((value for value in values if value is not None), None)


def _first(*values: _T | None) -> _T:
    found = _either(*values)
    assert found is not None
    return found
