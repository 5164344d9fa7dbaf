"""Watches, in tests that run as root, which files walproof's own code changes with root's rights.

In a folder of the servers' user it must change none by path: a link could lead from there to any file (see
walproof.privilege.acting).
"""

from __future__ import annotations

import ctypes
import os
import pwd
import sys
from pathlib import Path
from types import FrameType

_SOURCE = str(Path(__file__).parent.parent / "src" / "walproof")
_TESTS = str(Path(__file__).parent)
# Audit events of file operations (Python manual, "Audit events table"): the argument whose folder is changed,
# and the one that is the folder's descriptor, if any: what is done through a descriptor leads nowhere else.
_CHANGES = {
    "open": (0, None), "os.mkdir": (0, 2), "os.rename": (1, 3), "os.symlink": (1, 2), "os.link": (1, 3),
    "os.chmod": (0, 2), "os.chown": (0, 3), "os.truncate": (0, None), "os.remove": (0, 1), "os.rmdir": (0, 1),
    "os.utime": (0, 3),
}  # fmt: skip
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_libc = ctypes.CDLL(None)

overreached: list[str] = []
"""What was changed so, and where in our code, since the list was emptied."""


def watch() -> None:
    """Begin, for the rest of the process. Does nothing for whoever is not root."""
    names = {"walproof", "postgres", "nobody", os.environ.get("WALPROOF_SERVER_USER")}
    users = {entry.pw_uid for entry in pwd.getpwall() if entry.pw_name in names}

    def look(event: str, arguments: tuple[object, ...]) -> None:
        if event not in _CHANGES:
            return
        at, descriptor = _CHANGES[event]
        path = arguments[at]
        if descriptor is not None and arguments[descriptor] not in (-1, None):
            return
        if not isinstance(path, str | bytes | os.PathLike):
            return
        if event == "open" and not (isinstance(arguments[2], int) and arguments[2] & _WRITING):
            return
        try:
            owner = os.stat(os.path.dirname(os.path.abspath(os.fsdecode(path)))).st_uid  # noqa: PTH100, PTH120, PTH116
        except (OSError, ValueError):
            return
        if owner in users and _libc.setfsuid(-1) == 0 and (place := _in_source(sys._getframe(1))):
            overreached.append(f"{event} of {os.fsdecode(path)} at {place}")

    if os.geteuid() == 0:
        sys.addaudithook(look)


def _in_source(frame: FrameType | None) -> str | None:
    """The nearest line of the project that called, where that is not a test's."""
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith(_SOURCE):
            return f"{file}:{frame.f_lineno}"
        if file.startswith(_TESTS) and frame.f_code.co_filename != __file__:
            return None
        frame = frame.f_back
    return None
