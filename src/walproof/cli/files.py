"""Files that commands write, and whether they could be."""

from __future__ import annotations

import os
from pathlib import Path

from walproof.errors import SettingError, StoreError
from walproof.files import existing_above, private_folder, write_whole

_LARGE = "/var/tmp"


def write_file(path: Path, text: str, option: str = "--out") -> None:
    """Write a report, for its owner alone. Raises StoreError, which advises to name another place with the
    option."""
    try:
        private_folder(path.parent)
        write_whole(path, text)
    except OSError as error:
        raise StoreError(
            f'could not write report "{path}": {error.strerror}', hint=f"Name another place with {option}."
        ) from error


def check_file(option: str, path: Path, what: str = "report", *, makes_folder: bool = True) -> None:
    """Refuse a file that could not be written, before what it is to tell is found out. Nothing is made.

    ``what`` it is, for the message. ``makes_folder``: whether its folder is made where it is missing. Raises
    StoreError.
    """
    try:
        if path.is_dir():
            reason: str | None = "it is a folder"
        elif path.exists() and not path.is_file():
            reason = None if os.access(path, os.W_OK) else "it cannot be written"
        else:
            # A plain file is replaced by a new one beside it, so the folder's rights count.
            folder = path.resolve().parent
            reason = _closed(existing_above(folder) if makes_folder else folder)
    except OSError as error:
        reason = str(error.strerror)
    if reason is not None:
        raise StoreError(
            f'could not write {what} "{path}": {reason}', hint=f"Name another place with {option}."
        )


def check_new_folder(option: str, folder: Path) -> None:
    """Refuse a folder that has files, with which new ones would be mixed, or that cannot be made. Nothing is
    made. Raises SettingError, StoreError."""
    hint = f"Name a new folder with {option}."
    try:
        is_used = folder.is_dir() and any(folder.iterdir())
    except OSError as error:
        raise StoreError(f'could not use folder "{folder}": {error.strerror}', hint=hint) from error
    if is_used:
        raise SettingError(f'folder "{folder}" is not empty', hint=hint)
    check_folder(folder, hint)


def check_folder(folder: Path, hint: str) -> None:
    """Refuse a folder that can be neither used nor made. Nothing is made. Raises StoreError."""
    try:
        reason = _closed(existing_above(folder))
    except OSError as error:
        reason = str(error.strerror)
    if reason is not None:
        raise StoreError(f'could not use folder "{folder}": {reason}', hint=hint)


def _closed(folder: Path) -> str | None:
    """Why nothing can be made in what exists of a path; None if it can."""
    if not folder.is_dir():
        return f'"{folder}" is not a folder'
    return None if os.access(folder, os.W_OK | os.X_OK) else f'"{folder}" cannot be written'


def large_scratch() -> str | None:
    """Where large files for the time of a command belong: in TMPDIR, else /var/tmp, since /tmp may be memory
    (systemd's file-hierarchy(7)). None: wherever Python has temporary files."""
    is_usable = os.environ.get("TMPDIR") is None and os.access(_LARGE, os.W_OK | os.X_OK)
    return _LARGE if is_usable else None
