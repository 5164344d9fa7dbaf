"""A recording: the WAL of a server, with what is needed to understand it without the server.

DIR/000000010000...          segments as pg_receivewal would write them; the last one ends in .partial
DIR/recording.json           version, settings, where it began and ended, and when each position was reached
DIR/relations.json           names of the relations (as ``walproof wal map``)
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path as FilePath
from typing import Any

from walproof.checked import checked, is_version, parsed
from walproof.errors import WalError
from walproof.files import write_whole
from walproof.units import Lsn
from walproof.wal.places.folder import Folder
from walproof.wal.places.opened import Path, open_places
from walproof.wal.places.place import Place, read_text

RECORDING_FILE, RELATIONS_FILE = "recording.json", "relations.json"
RECORDED_SETTINGS = (
    "max_wal_size", "min_wal_size", "checkpoint_timeout", "checkpoint_completion_target", "full_page_writes",
    "wal_compression", "wal_log_hints", "wal_level", "data_checksums", "shared_buffers", "wal_keep_size",
    "checkpoint_warning", "archive_mode", "bgwriter_delay", "bgwriter_lru_maxpages", "wal_segment_size",
    "server_version", "track_commit_timestamp", "autovacuum",
)  # fmt: skip
"""The settings that shape WAL and checkpoints; their values are numbers, or words of PostgreSQL's."""
UNFINISHED = "unfinished"
"""Why a recording ended that goes on, or whose walproof was killed."""
_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Position:
    """How far the server's WAL had come at one time."""

    at: float
    """Unix time, by this machine's clock."""
    lsn: Lsn
    """pg_current_wal_insert_lsn()."""


@dataclass(frozen=True, slots=True)
class Recording:
    """What was recorded in addition to the segments."""

    system_identifier: int
    version_num: int
    timeline: int
    segment_bytes: int
    settings: Mapping[str, str]
    """The settings that shape WAL and checkpoints, with units as ``current_setting`` shows them."""
    began: Position
    ended: Position
    """The last position that was received."""
    positions: tuple[Position, ...]
    ended_because: str
    """``time``, ``interrupted``, ``disk``, `UNFINISHED` or the reason in a sentence."""

    @property
    def bytes(self) -> int:
        """Bytes of WAL between beginning and end."""
        return int(self.ended.lsn) - int(self.began.lsn)


def write_recording(folder: FilePath, recording: Recording) -> None:
    """Write the JSON beside the segments. Raises WalError."""
    data = asdict(recording) | {"format": _FORMAT}
    for name in ("began", "ended"):
        data[name] = _plain(getattr(recording, name))
    data["positions"] = [_plain(position) for position in recording.positions]
    path = folder / RECORDING_FILE
    try:
        write_whole(path, json.dumps(data, indent=1) + "\n")
    except OSError as error:
        raise WalError(f'could not write "{path}": {error.strerror}') from error


def recorded_names(path: Path) -> Place | None:
    """The relation map of a recording, or of the recording that a segment lies in; None if it has none."""
    place = path if isinstance(path, Place) else Folder(FilePath(path))
    folder = place if place.is_folder() else place.parent
    file = folder / RELATIONS_FILE
    return file if (folder / RECORDING_FILE).is_file() and file.is_file() else None


def read_recording(folder: FilePath | Place) -> Recording:
    """Read it back. Raises WalError."""
    path = (folder if isinstance(folder, Place) else Folder(folder)) / RECORDING_FILE
    try:
        data = parsed(read_text(path))
        if data["format"] != _FORMAT:
            raise WalError(f'"{path}" was written by another version of walproof')
        positions = [_object(pair) for pair in data["positions"]]
        data |= {"began": _object(data["began"]), "ended": _object(data["ended"]), "positions": positions}
        return checked(Recording, data)
    except OSError as error:
        raise WalError(
            f'"{folder}" is not a recording',
            detail=f'could not read "{path}": {error.strerror}',
            hint='"walproof wal capture" makes one.',
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise WalError(f'"{path}" is damaged', detail=str(error)) from error


def read_recordings(paths: Iterable[Path]) -> list[Recording]:
    """The recordings among the folders, read. Raises WalError."""
    with open_places(paths) as places:
        return [read_recording(place) for place in places if (place / RECORDING_FILE).is_file()]


def find_recording(paths: Iterable[Path]) -> Recording | None:
    """The first recording among the folders, read; None if there is none. Raises WalError."""
    with open_places(paths) as places:
        for place in places:
            if (place / RECORDING_FILE).is_file():
                return read_recording(place)
    return None


def recorded_versions(paths: Iterable[Path]) -> tuple[str, ...]:
    """The server's version, with its minor, for each folder that is a recording. Raises WalError."""
    return tuple(map(_version, read_recordings(paths)))


def _version(recording: Recording) -> str:
    major, minor = divmod(recording.version_num, 10000)
    # For a beta and the like, the number tells no more than the major version.
    told = recording.settings.get("server_version", "").split(" ")[0]
    return told if is_version(told) else f"{major}.{minor}"


def _plain(position: Position) -> list[Any]:
    return [position.at, str(position.lsn)]


def _object(pair: list[Any]) -> dict[str, Any]:
    at, lsn = pair
    return {"at": at, "lsn": lsn}
