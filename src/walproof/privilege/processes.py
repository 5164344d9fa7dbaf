"""Who else runs processes as a user: processes that share a user with our servers can read, change and end
them."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_WORKSPACE = re.compile(rb"(^|[/=])walproof-[0-9a-f]{12}([-/.]|$)")
"""Name of a workspace in a path: whatever walproof starts has one on its command line or works in one."""
_OWN_PROGRAM = re.compile(rb"(^|/)walproof$|^walproof\.")
"""The command, or one of its modules as given to ``python -m``."""


@dataclass(frozen=True, slots=True)
class Process:
    """A process that somebody else started."""

    pid: int
    program: str

    def __str__(self) -> str:
        return f"{self.program} (process {self.pid})"


def others_of(uid: int, proc: Path = _PROC) -> list[Process]:
    """Live processes of a user that walproof did not start, by number; ``proc``: the /proc to look in."""
    found = [
        Process(pid, _program(proc / str(pid)))
        for pid in _pids(proc)
        if uid in _users(proc / str(pid)) and not _is_ours(pid, proc)
    ]
    return sorted(found, key=lambda process: process.pid)


def _pids(proc: Path) -> Iterator[int]:
    yield from (int(entry.name) for entry in proc.iterdir() if entry.name.isdigit())


def _is_ours(pid: int, proc: Path) -> bool:
    """Whether it or one of its ancestors is walproof, or a program of a workspace of walproof's."""
    seen = set()
    while pid > 1 and pid not in seen:
        if pid == os.getpid() or _names_workspace(proc / str(pid)) or _is_roots_walproof(proc / str(pid)):
            return True
        seen.add(pid)
        pid = _parent(proc / str(pid))
    return False


def _names_workspace(entry: Path) -> bool:
    if any(_WORKSPACE.search(word) for word in _words(entry)):
        return True
    with contextlib.suppress(OSError):
        return _WORKSPACE.search(os.fsencode((entry / "cwd").readlink())) is not None
    return False


def _is_roots_walproof(entry: Path) -> bool:
    return _users(entry) == {0} and any(_OWN_PROGRAM.search(word) for word in _words(entry)[:6])


def _words(entry: Path) -> list[bytes]:
    try:
        return (entry / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return []


def _status(entry: Path) -> dict[str, str]:
    try:
        lines = (entry / "status").read_text(errors="replace").splitlines()
    except OSError:
        return {}
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def _users(entry: Path) -> set[int]:
    """Real, effective, saved and filesystem user; none of a process that is gone or a zombie."""
    status = _status(entry)
    if status.get("State", "Z").startswith("Z"):
        return set()
    return {int(word) for word in status.get("Uid", "").split()}


def _parent(entry: Path) -> int:
    return int(_status(entry).get("PPid", "0"))


def _program(entry: Path) -> str:
    return _status(entry).get("Name", "?")
