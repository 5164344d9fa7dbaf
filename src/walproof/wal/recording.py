"""A recording: WAL of a server, with what is needed to understand it without the server.

DIR/000000010000...          segments as pg_receivewal would write them; the last one ends in .partial
DIR/recording.json           version, settings, where it began and ended, and when each position was reached
DIR/relations.json           names of the relations (as ``walproof wal map``)
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from walproof.errors import WalError
from walproof.units import Lsn

RECORDING_FILE, RELATIONS_FILE = "recording.json", "relations.json"
_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Position:
    """How far the server's WAL had come at a time."""

    at: float
    """Unix time of this machine."""
    lsn: Lsn
    """pg_current_wal_insert_lsn()."""


@dataclass(frozen=True, slots=True)
class Recording:
    """What was recorded beside the segments."""

    system_identifier: int
    version_num: int
    timeline: int
    segment_bytes: int
    settings: Mapping[str, str]
    """Those that shape WAL and checkpoints, with units as ``current_setting`` shows them."""
    began: Position
    ended: Position
    """The last position that was received."""
    positions: tuple[Position, ...]
    ended_because: str
    """``time``, ``interrupted``, ``disk`` or the reason in a sentence."""

    @property
    def bytes(self) -> int:
        """WAL between beginning and end."""
        return int(self.ended.lsn) - int(self.began.lsn)


def write_recording(folder: Path, recording: Recording) -> None:
    """Write the JSON beside the segments. Raises WalError."""
    data = asdict(recording) | {"format": _FORMAT}
    for name in ("began", "ended"):
        data[name] = _plain(getattr(recording, name))
    data["positions"] = [_plain(one) for one in recording.positions]
    path = folder / RECORDING_FILE
    try:
        path.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise WalError(f'could not write "{path}": {error.strerror}') from error


def recorded_names(folder: Path) -> Path | None:
    """The relation map of a recording; None for a folder that is none, or has lost its map."""
    file = folder / RELATIONS_FILE
    return file if (folder / RECORDING_FILE).is_file() and file.is_file() else None


def read_recording(folder: Path) -> Recording:
    """Read it back. Raises WalError."""
    path = folder / RECORDING_FILE
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data.pop("format") != _FORMAT:
            raise WalError(f'"{path}" was written by another version of walproof')
        data["began"], data["ended"] = _position(data["began"]), _position(data["ended"])
        data["positions"] = tuple(_position(one) for one in data["positions"])
        return Recording(**data)
    except OSError as error:
        raise WalError(
            f'"{folder}" is not a recording',
            detail=f'could not read "{path}": {error.strerror}',
            hint='"walproof wal capture" makes one.',
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise WalError(f'"{path}" is damaged', detail=str(error)) from error


def find_recording(paths: Iterable[str | Path]) -> Recording | None:
    """The first folder among them that is one, read; None where there is none. Raises WalError."""
    for path in paths:
        if (Path(path) / RECORDING_FILE).is_file():
            return read_recording(Path(path))
    return None


def _plain(position: Position) -> list[Any]:
    return [position.at, str(position.lsn)]


def _position(data: list[Any]) -> Position:
    return Position(float(data[0]), Lsn.parse(str(data[1])))
