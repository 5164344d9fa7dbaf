"""Recordings of servers in a folder and below it: what each holds, and which questions it can answer."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from walproof.errors import WalproofError
from walproof.facts.codec import from_json
from walproof.facts.server import SERVER_FILE, ServerWindow
from walproof.files import regular_text
from walproof.wal.recording import RECORDING_FILE, Recording, read_recording
from walproof.web.pages import page

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

_OURS = '"system_identifier"'
"""What tells it from other programs' files of that name."""
_DEPTH = 3
_FOLDERS_MOST = 2000


@dataclass(frozen=True, slots=True)
class ListedRecording:
    """A recording of WAL, facts seen on a server without its WAL, or the reason why neither can be read."""

    folder: Path
    recording: Recording | None
    has_server: bool
    """Whether the facts seen on the server are stored beside it."""
    problem: str = ""
    window: ServerWindow | None = None
    """The facts, where there is no WAL."""

    @property
    def version(self) -> str | None:
        """The server's version, as it says it; of old recordings the major version."""
        if self.recording is not None:
            return self.recording.settings.get("server_version", str(self.recording.version_num // 10000))
        return None if self.window is None else self.window.version

    @property
    def version_num(self) -> int | None:
        """The same as a number."""
        known = self.recording or self.window
        return None if known is None else known.version_num

    @property
    def began_at(self) -> float | None:
        """Unix time of the first look."""
        if self.recording is not None:
            return self.recording.began.at
        return None if self.window is None or not self.window.looks else self.window.looks[0].at

    @property
    def ended_at(self) -> float | None:
        """Unix time of the last look."""
        if self.recording is not None:
            return self.recording.ended.at
        return None if self.window is None or not self.window.looks else self.window.looks[-1].at

    @property
    def wal_bytes(self) -> int | None:
        """How much WAL there is."""
        if self.recording is not None:
            return self.recording.bytes
        return None if self.window is None else 0

    @property
    def commands(self) -> tuple[tuple[str, str], ...]:
        """Questions that the recording can answer: (question, command)."""
        name = shlex.quote(str(self.folder))
        advice = ("what should the server set?", f"walproof advise {name}")
        if self.recording is None:
            return (advice,)
        return (
            advice,
            ("what would other settings write?", f"walproof wal whatif {name}"),
            ("who writes the WAL?", f"walproof wal stats {name}"),
        )


def find_recordings(top: Path) -> list[ListedRecording]:
    """Recordings in the folder and three levels below it, the newest first; links are not followed."""
    found = []
    for folder in _folders(top):
        has_server = _is_file(folder / SERVER_FILE)
        if not _is_file(folder / RECORDING_FILE):
            if has_server and (alone := _without_wal(folder)) is not None:
                found.append(alone)
            continue
        try:
            found.append(ListedRecording(folder, read_recording(folder), has_server))
        except WalproofError as error:
            found.append(ListedRecording(folder, None, has_server, error.message))
    return sorted(found, key=lambda entry: -(entry.began_at or 0.0))


def _is_file(path: Path) -> bool:
    return os.path.isfile(path)  # noqa: PTH113 - Path.is_file raises OSError in a folder that may not be entered


def _without_wal(folder: Path) -> ListedRecording | None:
    """Facts seen on a server whose WAL was not recorded. None: the file is another program's."""
    try:
        text = regular_text(folder / SERVER_FILE)
    except (OSError, UnicodeDecodeError):
        return None
    # WAL without its recording.json can be asked nothing here.
    if _OURS not in text or any(folder.glob("0*")):
        return None
    try:
        return ListedRecording(folder, None, True, window=from_json(ServerWindow, text))
    except WalproofError as error:
        return ListedRecording(folder, None, True, error.message)


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
