"""The library that is preloaded under a server, and whether that is possible here.

It stands in for functions of glibc on Linux x86-64. Programs that are static, use another C library or run
with another user's rights ignore LD_PRELOAD: they are refused before a run, with the reason.
"""

from __future__ import annotations

import os
import platform
import stat
import struct
import sys
from pathlib import Path
from typing import BinaryIO

import walproof
from walproof.errors import DiskError

_PT_INTERP = 3
_PATH_MAX = 4096


def library() -> Path:
    """The library's file. Raises DiskError when the platform has none, or the install lacks it."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        raise DiskError(
            f"no simulated disk on {sys.platform} {platform.machine()}",
            detail="The library under the server is made for Linux on x86-64 with glibc.",
            hint="Run in a virtual machine or container of that kind.",
        )
    folder = Path(walproof.__file__).parent
    found = sorted(folder.glob("_preload*.so"))
    if not found:
        raise DiskError(
            f'the library of the simulated disk is missing in "{folder}"',
            hint="Install walproof again: pip builds the library together with the package.",
        )
    return found[0]


def check_program(program: Path) -> None:
    """Check that a library can be preloaded under ``program``. Raises DiskError with the reason if not."""
    try:
        mode = program.stat().st_mode
        with program.open("rb") as file:
            interpreter = _interpreter(file)
    except OSError as error:
        raise DiskError(f'could not read "{program}": {error.strerror}') from error
    refused = None
    if mode & (stat.S_ISUID | stat.S_ISGID):
        refused = "it runs with the rights of its owner (setuid), and ignores LD_PRELOAD"
    elif interpreter is None:
        refused = "it is not a dynamically linked ELF program"
    elif not Path(interpreter).name.startswith("ld-linux"):
        refused = f'its C library is not glibc (interpreter "{interpreter}")'
    if refused:
        raise DiskError(
            f'no simulated disk under "{program}"',
            detail=refused,
            hint="--pg embedded names a PostgreSQL for which it works.",
        )


def _interpreter(program: BinaryIO) -> str | None:
    # The ELF header and its table of segments, 64 bit, little endian (elf(5)).
    head = program.read(64)
    if head[:6] != b"\x7fELF\x02\x01" or len(head) < 64:
        return None
    (table,), (size, count) = struct.unpack_from("<Q", head, 32), struct.unpack_from("<HH", head, 54)
    program.seek(table)
    segments = program.read(size * count)
    for at in range(0, len(segments) - 39, size):
        (kind,) = struct.unpack_from("<I", segments, at)
        offset, length = struct.unpack_from("<Q16xQ", segments, at + 8)
        if kind == _PT_INTERP:
            # It may be anywhere in the file: patchelf puts a longer name at the end.
            program.seek(offset)
            return os.fsdecode(program.read(min(length, _PATH_MAX)).rstrip(b"\0"))
    return None
