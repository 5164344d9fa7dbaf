"""The servers of one ``walproof advise``: which, with whose limits, and looking at all of them at once."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from walproof.analysis.watch.assessment import unique_names
from walproof.cli.advising import (
    LookOrder,
    Telling,
    is_folder,
    keep_window,
    observe_server,
    recorded_window,
)
from walproof.cli.files import check_new_folder
from walproof.cli.watch_order import ServerOrder, Typed, server_name, watch_order
from walproof.errors import ConninfoError, StoreError, WalproofError

if TYPE_CHECKING:
    from walproof.facts.server import ServerWindow

_POLL_S = 0.2
_ENDING_S = 30.0
"""How long looks may take to end after Ctrl-C: their time-outs are shorter."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One server, running or recorded."""

    name: str
    """No other has it."""
    server: ServerOrder
    """As ``walproof watch`` has it; of a recording its ``conninfo`` is the folder."""
    max_retained_bytes: int | None = None

    @property
    def is_recorded(self) -> bool:
        """Whether it is a folder."""
        return is_folder(self.server.conninfo)


@dataclass(frozen=True, slots=True)
class Looked:
    """What was seen of a server, and where its recording is; or why nothing was."""

    asked: Asked
    folder: Path
    window: ServerWindow | None = None
    error: WalproofError | None = None


def asked_servers(words: Sequence[str], config: Path | None, typed: Typed) -> list[Asked]:
    """Servers of the command line, or of the file: a word is a folder, a name in the file, or a connection
    string; ``typed`` has the limits that were typed.

    Raises SettingError, UnitError, ConninfoError.
    """
    from walproof.cli.watch_file import read_watch_file

    file = None if config is None else read_watch_file(config)
    named = {table.name for table in file.server} if file is not None else set()
    folders = [word for word in words if word not in named and is_folder(word)]
    servers = tuple(word for word in words if word not in folders)
    found = [Asked(Path(word).resolve().name, ServerOrder(word)) for word in folders]
    if servers or not words:
        from walproof.probe.connection import require_service

        require_readable([word for word in servers if word not in named], words)
        order = watch_order(replace(typed, servers=servers), file)
        retained = None if file is None else file.max_retained
        for server in order.servers:
            require_service(server.conninfo)
            found.append(Asked(server.name or server_name(server.conninfo), server, retained))
    names = unique_names([asked.name for asked in found])
    return [replace(asked, name=name) for asked, name in zip(found, names, strict=True)]


def require_readable(servers: Sequence[str], words: Sequence[str]) -> None:
    """Raise ConninfoError for what is no connection string, and say which word it is: it is not repeated."""
    from walproof.settings.conninfo import parse

    for word in servers:
        try:
            parse(word)
        except ConninfoError as error:
            place = f"server {words.index(word) + 1} of {len(words)}: " if len(words) > 1 else ""
            is_bare = "=" not in word and "://" not in word
            raise ConninfoError(
                f"{place}{error.message}",
                detail="No folder has that name, and no server of a file." if is_bare else error.detail,
                hint=error.hint,
            ) from None


def _folder_name(name: str) -> str:
    """The name of a server as that of a folder."""
    return re.sub(r"[/\x00-\x1f]", "_", name).lstrip(".") or "_"


class FleetLook:
    """Looks at several servers at once, each in a thread; one that fails does not end the others.

    ``wal_most``: bytes of WAL to record, of all together.
    """

    def __init__(self, servers: Sequence[Asked], seconds: float, wal_most: int, folder: Path) -> None:
        running = [asked for asked in servers if not asked.is_recorded]
        most = wal_most // max(1, len(running))
        folders = unique_names([_folder_name(asked.name) for asked in running])
        self._orders = {
            asked.name: LookOrder(
                asked.server.conninfo,
                seconds,
                most,
                folder / name,
                asked.server.streams,
                asked.max_retained_bytes,
                asked.server.calibration,
            )
            for asked, name in zip(running, folders, strict=True)
        }
        self._servers = servers
        self._over = threading.Event()
        self._passed: dict[str, tuple[float, int]] = {}
        self._windows: dict[str, ServerWindow] = {}
        self._errors: dict[str, WalproofError] = {}
        self._defects: dict[str, BaseException] = {}

    def check_folders(self) -> None:
        """Refuse what a recording would be mixed with, and what cannot be written. Raises SettingError,
        StoreError."""
        for order in self._orders.values():
            check_new_folder("--save", order.folder)

    def look(self, show: Callable[[float, int, int], None], say: Callable[[str], None]) -> list[Looked]:
        """Look until all have been looked at. ``show`` is told the seconds of the slowest look, how many
        servers are being looked at, and the bytes of WAL of all; ``say`` gets sentences."""
        threads = [
            threading.Thread(target=self._look, args=(name, order, say), name=f"advise {name}", daemon=True)
            for name, order in self._orders.items()
        ]
        for thread in threads:
            thread.start()
        try:
            while (running := [thread for thread in threads if thread.is_alive()]) and not self._defects:
                running[0].join(_POLL_S)
                seen = list(self._passed.values())
                if seen:
                    show(min(passed for passed, _ in seen), len(running), sum(size for _, size in seen))
        finally:
            self._over.set()
            until = time.monotonic() + _ENDING_S
            for thread in threads:
                thread.join(max(0.0, until - time.monotonic()))
        for defect in self._defects.values():
            raise defect
        return [self._looked(asked) for asked in self._servers]

    def _look(self, name: str, order: LookOrder, say: Callable[[str], None]) -> None:
        def passed(seconds: float, wal_bytes: int) -> None:
            self._passed[name] = seconds, wal_bytes

        telling = Telling(passed, lambda text: say(f"{name}: {text}"), self._check)
        try:
            self._windows[name] = observe_server(order, telling)
        except _Ended:
            pass
        except WalproofError as error:
            self._errors[name] = error
            say(f"{name} cannot be looked at: {error.message}")
        except BaseException as defect:
            self._defects[name] = defect
        finally:
            self._passed.pop(name, None)

    def _check(self) -> None:
        if self._over.is_set():
            raise _Ended

    def _looked(self, asked: Asked) -> Looked:
        if asked.is_recorded:
            folder = Path(asked.server.conninfo)
            try:
                return Looked(asked, folder, recorded_window(folder))
            except WalproofError as error:
                return Looked(asked, folder, error=error)
        folder = self._orders[asked.name].folder
        return Looked(asked, folder, self._windows.get(asked.name), self._errors.get(asked.name))


class _Ended(Exception):
    """The command is over."""


def with_own_standbys(looked: Sequence[Looked]) -> list[Looked]:
    """Primaries with what their standbys among the servers read of their indexes."""
    found = []
    for each in looked:
        window = each.window
        if window is not None and not window.is_in_recovery:
            for other in looked:
                if other.window is not None and _is_standby_of(other.window, window):
                    scans = {index.name: index.scans for index in other.window.indexes}
                    window = window.with_scans(scans, other.window.counted_s)
        found.append(replace(each, window=window))
    return found


def _is_standby_of(other: ServerWindow, window: ServerWindow) -> bool:
    """Whether it is one of which the indexes of the same database were read."""
    return (
        other.is_in_recovery
        and other.system_identifier == window.system_identifier is not None
        and other.database == window.database
        and bool(other.indexes)
    )


def keep(looked: Sequence[Looked], say: Callable[[str], None]) -> None:
    """Write what was seen of each running server beside its recording; what cannot be written is said."""
    for each in looked:
        if each.window is not None and not each.asked.is_recorded:
            try:
                keep_window(each.window, each.folder)
            except StoreError as error:
                say(f"{each.asked.name} is not kept: {error.message}")
