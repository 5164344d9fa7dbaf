"""Which of this machine's PostgreSQL programs talks to a server that is not ours: the one with the most
fixes.

A client believes what a server says, so its own fixes count: before 18.4, 17.10, 16.14, 15.18 and 14.23 a
server could overwrite the stack of a client that reads large objects, as pg_dump does (CVE-2026-6477).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from walproof.errors import InstallError
from walproof.facts import Install
from walproof.postgres.install import read_version


@dataclass(frozen=True, slots=True)
class Client:
    """A client program and its version."""

    path: Path
    version: str
    """``18.4``."""
    version_num: int
    """As the server's ``server_version_num``: 180004."""


def find_client(program: str, server: int, installs: Iterable[Install]) -> Client:
    """The program of PATH or of ``installs`` for a server of version ``server`` (``server_version_num``).

    It is the newest minor of the server's major version, else of the next major version that there is. It is
    never older than the server, not even by a minor. Among equals the one on PATH comes first, then the first
    install. Raises InstallError, which names what there is, and how to do without."""
    there = list(_clients(program, installs))
    able = [client for client in there if client.version_num >= server]
    if able:
        major = min(client.version_num // 10000 for client in able)
        return max(
            (client for client in able if client.version_num // 10000 == major),
            key=lambda client: client.version_num,
        )
    wanted = f"{server // 10000}.{server % 10000}"
    found = ", ".join(f"{client.version} ({client.path})" for client in there) or "none"
    raise InstallError(
        f"no {program} of PostgreSQL {wanted} or newer found for a server of {wanted}",
        detail=f"{program} found on PATH and in installs: {found}.",
        hint=f"Install the client programs of PostgreSQL {server // 10000} (Debian: "
        f"postgresql-client-{server // 10000}), in their newest minor.",
    )


def _clients(program: str, installs: Iterable[Install]) -> Iterable[Client]:
    """Those that tell their version; the others cannot be run."""
    on_path = shutil.which(program)
    places = [] if on_path is None else [Path(on_path)]
    places += [Path(install.bindir) / program for install in installs]
    seen: set[Path] = set()
    for place in places:
        if place.resolve() in seen or not os.access(place, os.X_OK):
            continue
        seen.add(place.resolve())
        try:
            yield Client(place, *read_version(place))
        except InstallError:
            continue
