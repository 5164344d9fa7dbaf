"""Files that commands write."""

from __future__ import annotations

from pathlib import Path

from walproof.errors import StoreError
from walproof.files import private_folder, write_whole


def write_file(path: Path, text: str) -> None:
    """Write a report, for its owner alone. Raises StoreError."""
    try:
        private_folder(path.parent)
        write_whole(path, text)
    except OSError as error:
        raise StoreError(
            f'could not write report "{path}": {error.strerror}', hint="Name another place with --out."
        ) from error
