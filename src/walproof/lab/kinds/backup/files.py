"""How many bytes the files of a backup have."""

from __future__ import annotations

from pathlib import Path

from walproof.privilege.acting import acting_as
from walproof.privilege.user import ServerUser


def folder_bytes(folder: Path, user: ServerUser | None) -> int:
    """Bytes of all files below ``folder``, which is ``user``'s; 0 if there are none."""
    with acting_as(user):
        return sum(file.lstat().st_size for file in folder.rglob("*") if not file.is_dir())
