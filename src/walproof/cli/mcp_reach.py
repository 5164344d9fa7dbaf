"""What the operator of ``walproof mcp`` lets an assistant reach, and words that several of its tools
share."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from walproof.cli import options
from walproof.cli.watch_order import server_name
from walproof.errors import SettingError
from walproof.mcp.roots import Roots
from walproof.mcp.tool import Call
from walproof.settings.conninfo import concealed, seems_conninfo, without_conninfos
from walproof.wal.places.opened import open_places
from walproof.wal.places.place import Place


def _listed(given: object) -> object:
    """Some assistants write a list as its JSON, or a single path without a list around it."""
    if not isinstance(given, str):
        return given
    if given.lstrip().startswith("["):
        try:
            return json.loads(given)
        except ValueError:
            pass
    return [given]


Paths = Annotated[
    list[str],
    BeforeValidator(_listed),
    Field(
        min_length=1,
        description="Folders or segments of one recording or archive, below what may be read (overview "
        "says what). Relative paths begin there.",
    ),
]
Start = Annotated[str | None, Field(description="First location to read, an LSN such as 0/3A000028.")]
End = Annotated[str | None, Field(description="Location to read up to, an LSN.")]
Since = Annotated[
    str | None,
    Field(
        description="Read from this time on, in place of start: 2026-11-22T14:30+00:00, 14:30 by the local "
        "clock of the machine where walproof mcp runs, or 26h for 26 hours ago."
    ),
]
Until = Annotated[str | None, Field(description="Read up to this time, in place of end.")]
RecoveryTarget = Annotated[
    str | None, Field(description="Longest crash recovery that is acceptable, such as 60s or 5min.")
]
WalDisk = Annotated[str | None, Field(description="Room for pg_wal, such as 20GB.")]
Form = Annotated[
    Literal["json", "markdown"], Field(description="json: everything, as data. markdown: a report to read.")
]


@dataclass(frozen=True, slots=True)
class Reach:
    """Where tools may look."""

    roots: Roots
    servers: Mapping[str, str]
    """Name -> connection string."""
    out: Path
    store: str | None
    calibration: Path | None
    scratch: Path
    """Folder for recordings of running servers; it is removed at the end."""
    longest_s: float

    @contextmanager
    def places(self, paths: Sequence[str], call: Call) -> Iterator[tuple[Place, ...]]:
        """Open the places of paths that an assistant named. Raises SettingError, WalError."""
        with open_places([self.roots.place(path, call.look) for path in paths]) as places:
            yield places

    def server(self, name: str | None) -> tuple[str, str]:
        """(name, connection string) of a server; None: the only one. Raises SettingError."""
        if name is None and len(self.servers) == 1:
            return next(iter(self.servers.items()))
        if name is None or name not in self.servers:
            raise SettingError(
                "name a server" if name is None else f'there is no server "{name}"',
                detail=f"Servers: {', '.join(self.servers)}.",
                hint="Whoever runs walproof mcp names servers: --server DSN.",
            )
        return name, self.servers[name]

    def concealing(self) -> Callable[[str], str]:
        """What takes secrets of connection strings out of a text."""
        texts = list(self.servers.values())
        if self.store is not None and seems_conninfo(self.store):
            texts.append(self.store)
        return lambda said: without_conninfos(concealed(said, *texts), (), os.environ)


def named_servers(texts: Sequence[str]) -> dict[str, str]:
    """Connection strings by the names that an assistant knows. Raises SettingError, ConninfoError."""
    found: dict[str, str] = {}
    for text in texts:
        name = server_name(text)
        if name in found:
            raise SettingError(
                f'two servers are called "{name}"',
                hint='A service file gives them names: --server "service=shop" --server "service=books".',
            )
        found[name] = text
    return found


def positive(name: str, text: str | None) -> int | None:
    """An optional size. Raises SettingError, UnitError."""
    return None if text is None else options.positive_bytes(name, text)


def flags(*pairs: tuple[str, object]) -> list[str]:
    """Words of a command: each option that has a value."""
    words: list[str] = []
    for flag, value in pairs:
        if value is True:
            words.append(flag)
        elif value is not None and value is not False:
            words += [flag, str(value)]
    return words


def settings_text(settings: Mapping[str, Any]) -> str:
    """``a=1,b=on``, as options are written."""
    return ",".join(f"{name}={value}" for name, value in settings.items())
