"""Reads the control file of a data directory, because few installs bring the program that prints it."""

from __future__ import annotations

import struct
from pathlib import Path

from walproof.errors import ClusterError
from walproof.units import Lsn

_VERSIONS = (1300, 1700, 1800, 1905)
"""PG_CONTROL_VERSION of PostgreSQL 13 to 16, of 17, of 18 and of 19: what is read is at the same place in
all."""
_HEAD = struct.Struct("=Q I I I 4x q Q Q I")
"""ControlFileData up to checkPointCopy.ThisTimeLineID (src/include/catalog/pg_control.h)."""
_REACHED = struct.Struct("=I")
_REACHED_AT, _REACHED_AT_19 = 144, 152
"""Place of minRecoveryPointTLI, and in 19, whose CheckPoint is 8 bytes longer."""


def read_redo(data: Path) -> tuple[Lsn, int]:
    """Where recovery of this data directory begins, and on which timeline.

    Raises ClusterError if there is no control file, or its version is not known.
    """
    _, _, redo, timeline = _read(data)
    return redo, timeline


def target_timeline(data: Path) -> int:
    """The timeline that a crash recovery goes to: the one of the checkpoint, or a newer one that was reached
    before the crash and had no checkpoint yet (minRecoveryPointTLI; InitWalRecovery in xlogrecovery.c).

    Raises as `read_redo`.
    """
    content, version, _, timeline = _read(data)
    return max(timeline, _reached(data, content, version))


def _read(data: Path) -> tuple[bytes, int, Lsn, int]:
    """(content, version, redo point, its timeline)."""
    path = data / "global" / "pg_control"
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ClusterError(
            f'where recovery begins is not known: cannot read "{path}"', detail=error.strerror
        ) from error
    head = content[: _HEAD.size]
    if len(head) < _HEAD.size:
        raise ClusterError(
            f'where recovery begins is not known: "{path}" is cut off',
            detail=f"It has {len(head)} bytes; {_HEAD.size} are read.",
        )
    _, version, *_, redo, timeline = _HEAD.unpack(head)
    if version not in _VERSIONS:
        known = ", ".join(map(str, _VERSIONS))
        raise ClusterError(
            f'where recovery begins is not known: the layout of "{path}" is not',
            detail=f"It has version {version}; known are {known} (PostgreSQL 13 to 19).",
        )
    return content, version, Lsn(redo), timeline


def _reached(data: Path, content: bytes, version: int) -> int:
    """The timeline that was reached; 0 where there is none that its history explains."""
    at = _REACHED_AT if version < _VERSIONS[-1] else _REACHED_AT_19
    field = content[at : at + _REACHED.size]
    if len(field) < _REACHED.size:
        return 0
    (timeline,) = _REACHED.unpack(field)
    return int(timeline) if (data / "pg_wal" / f"{timeline:08X}.history").is_file() else 0
