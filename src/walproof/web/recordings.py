"""Recordings of servers in a folder and below it: what each holds, and which questions it can answer."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from walproof.errors import WalproofError
from walproof.wal.recording import RECORDING_FILE, Recording, read_recording
from walproof.web.pages import page

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

_SERVER_FILE = "server.json"
"""The file that ``advise --save`` keeps beside a recording."""
_DEPTH = 3
_FOLDERS_MOST = 2000


@dataclass(frozen=True, slots=True)
class ListedRecording:
    """A recording, or the reason why it cannot be read."""

    folder: Path
    recording: Recording | None
    has_server: bool
    """Whether the facts seen on the server are stored beside it."""
    problem: str = ""

    @property
    def commands(self) -> tuple[tuple[str, str], ...]:
        """Questions that the recording can answer: (question, command)."""
        name = shlex.quote(str(self.folder))
        return (
            ("what should the server set?", f"walproof advise {name}"),
            ("what would other settings write?", f"walproof wal whatif {name}"),
            ("who writes the WAL?", f"walproof wal stats {name}"),
        )


def find_recordings(top: Path) -> list[ListedRecording]:
    """Recordings in the folder and three levels below it, the newest first; links are not followed."""
    found = []
    for folder in _folders(top):
        if not (folder / RECORDING_FILE).is_file():
            continue
        has_server = (folder / _SERVER_FILE).is_file()
        try:
            found.append(ListedRecording(folder, read_recording(folder), has_server))
        except WalproofError as error:
            found.append(ListedRecording(folder, None, has_server, error.message))
    return sorted(found, key=lambda entry: 0.0 if entry.recording is None else -entry.recording.began.at)


def _folders(top: Path) -> Iterator[Path]:
    level, left = [top], _FOLDERS_MOST
    for _ in range(_DEPTH + 1):
        below: list[Path] = []
        for folder in level:
            left -= 1
            if left < 0:
                return
            yield folder
            try:
                with os.scandir(folder) as entries:
                    below += sorted(
                        Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)
                    )
            except OSError:
                continue  # a folder that may not be read has nothing for this reader
        level = below


def recording_routes(top: Path, shown: Mapping[str, Any]) -> list[Route]:
    """The address /recordings."""
    from starlette.routing import Route

    def recordings(_request: Request) -> Response:
        return page("recordings.html.j2", **shown, recordings=find_recordings(top), top=top)

    return [Route("/recordings", recordings)]
