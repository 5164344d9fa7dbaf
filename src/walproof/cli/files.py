"""Files that commands write."""

from __future__ import annotations

from pathlib import Path

from walproof.errors import StoreError


def write_file(path: Path, text: str) -> None:
    """Write a report. Raises StoreError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise StoreError(
            f'could not write report "{path}": {error.strerror}', hint="Name another place with --out."
        ) from error
