"""Makes a recording without contents: it keeps what totals and simulations need, and no row of any table.

    >>> from walproof.wal.strip import strip
    >>> strip("archive", folder="stripped")  # doctest: +SKIP

Every record stays where it is, with its pages, sizes, transaction and time; all that could be contents
is zero (crates/walproof-wal/src/strip has the list of what is kept). Nothing else is copied as it is:
recording.json without words, histories of timelines without reasons. How well images compress is told by
images.json, for which a sample of them is compressed before they are blanked out.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path as FilePath

from walproof._native import wal_strip
from walproof.errors import WalError
from walproof.files import PRIVATE_FILE, private_folder, sync_folder
from walproof.wal.images import ImageSamples, read_images, write_images
from walproof.wal.places.opened import OpenPlaces, Path, open_places
from walproof.wal.progress import Observe
from walproof.wal.recording import (
    RECORDED_SETTINGS,
    UNFINISHED,
    Recording,
    read_recordings,
    write_recording,
)

_ENDS = ("time", "interrupted", "disk", UNFINISHED)
_VALUE = re.compile(r"[A-Za-z0-9.+-]{1,24}")
"""A number with its unit, a version, a word of an enumeration."""


@dataclass(frozen=True, slots=True)
class Stripped:
    """What was done."""

    segments: int
    records: int
    blanked_bytes: int
    """Bytes of contents that are now zero."""
    written_bytes: int
    """Size of the files."""


def strip(
    *paths: Path, folder: FilePath, timeline: int | None = None, observe: Observe | None = None
) -> Stripped:
    """Write each segment, blanked and compressed, to ``folder``, which must be new or empty.

    Histories of timelines, and what recording.json tells in numbers, are copied too; relations.json, which
    has names, is not. Raises WalError as ``walproof.wal.stats``, and when the folder cannot be written to;
    segments that are done stay. When it is interrupted, nothing stays. ``observe`` is told how far it has
    come."""
    with open_places(paths) as places:
        recordings, told = read_recordings(places), read_images(places)
        with _made(folder):
            wal = OpenPlaces(places, threads=1)
            done, (forks, nanoseconds) = wal.call(
                wal_strip, wal.sources, folder, timeline, wal.observed(observe)
            )
            _keep(folder)
            write_images(folder, ImageSamples(tuple(forks), nanoseconds).with_those_of(told))
            for recording in recordings[-1:]:
                write_recording(folder, without_words(recording))
    return Stripped(*done)


@contextmanager
def _made(folder: FilePath) -> Iterator[None]:
    """Provide an empty folder, and empty it again when the block is interrupted. Raises WalError."""
    is_new = not folder.exists()
    try:
        private_folder(folder)
        if any(folder.iterdir()):
            raise WalError(f'folder "{folder}" is not empty', hint="Name a new one with --to.")
    except OSError as error:
        raise WalError(f'could not use folder "{folder}": {error.strerror}') from error
    try:
        yield
    except WalError:
        raise
    except BaseException:
        for file in folder.iterdir():
            file.unlink()
        if is_new:
            folder.rmdir()
        raise


def _keep(folder: FilePath) -> None:
    """Bring what the folder holds to the disk, readable by its owner alone."""
    try:
        for path in folder.iterdir():
            with path.open("r+b") as file:
                os.fchmod(file.fileno(), PRIVATE_FILE)
                os.fsync(file.fileno())
        sync_folder(folder)
    except OSError as error:
        raise WalError(f'could not write in folder "{folder}": {error.strerror}') from error


def without_words(recording: Recording) -> Recording:
    """The same recording without what could be somebody's words: a server's message, a setting of an unknown
    form."""
    values = {name: value.partition(" ")[0] for name, value in recording.settings.items()}
    return replace(
        recording,
        settings={
            name: value
            for name, value in values.items()
            if name in RECORDED_SETTINGS and _VALUE.fullmatch(value)
        },
        ended_because=recording.ended_because if recording.ended_because in _ENDS else "ended early",
    )
