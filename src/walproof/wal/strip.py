"""A recording without contents: what totals and simulations need, and no row of any table.

    >>> from walproof.wal.strip import strip
    >>> strip("archive", folder="stripped")  # doctest: +SKIP

Every record stays where it is, with its pages, sizes, transaction and time; full-page images (but for the 24
bytes of a page's header), data of blocks and rows are zero: crates/walproof-wal/src/strip.rs.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path as FilePath

from walproof._native import wal_strip
from walproof.errors import WalError
from walproof.wal.recording import RECORDING_FILE
from walproof.wal.totals import Path


@dataclass(frozen=True, slots=True)
class Stripped:
    """What was done."""

    segments: int
    records: int
    blanked_bytes: int
    """Bytes of contents that are zero now."""
    written_bytes: int
    """Size of the files."""


def strip(*paths: Path, folder: FilePath, timeline: int | None = None) -> Stripped:
    """Write each segment, blanked and compressed, to ``folder``, which must be new or empty.

    recording.json and histories of timelines are copied; relations.json, which has names, is not. Raises
    WalError as ``walproof.wal.stats``, and when the folder cannot be written to; segments that are done stay.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise WalError(f'folder "{folder}" is not empty', hint="Name a new one with --to.")
        done = wal_strip([os.fspath(path) for path in paths], folder, timeline)
        for path in map(FilePath, paths):
            if path.is_dir():
                for file in (*path.glob(RECORDING_FILE), *path.glob("*.history")):
                    shutil.copy(file, folder)
    except OSError as error:
        raise WalError(f'could not use folder "{folder}": {error.strerror}') from error
    return Stripped(*done)
