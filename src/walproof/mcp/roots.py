"""Which folders an assistant may read: those that the operator named, and what is in them.

A path is judged by where it leads, links followed, and so is every link in a folder that is read. This
holds against paths that an assistant makes up; not against who can write into the folders at the same time,
and not for what the tool of an archive keeps beside it (``docs/assistants.md``).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from walproof.errors import SettingError
from walproof.settings.conninfo import seems_conninfo
from walproof.wal.places.opened import is_address

_HINT = "Whoever runs walproof mcp may name more: --root FOLDER."


class Roots:
    """Folders of this machine, and addresses in object stores."""

    def __init__(self, given: Sequence[str]) -> None:
        """Raises SettingError for what is not a folder."""
        self._addresses = tuple(root.rstrip("/") for root in given if is_address(root))
        folders = []
        for root in given:
            if is_address(root):
                continue
            if seems_conninfo(root):
                raise SettingError("--root is a connection string", hint="It names a folder.")
            path = Path(root)
            if not os.path.isdir(path):  # noqa: PTH112 - is_dir raises OSError where nobody may look
                raise SettingError(f'--root is "{root}": there is no such folder')
            folders.append(path.resolve())
        self.folders = tuple(folders)

    @property
    def shown(self) -> list[str]:
        """The folders in words, as an assistant is told them."""
        return [*map(str, self.folders), *self._addresses]

    def place(self, text: str, look: Callable[[], None]) -> str:
        """Where a path leads, which may be read with all that is in it. ``look`` is called often.

        Raises SettingError.
        """
        if is_address(text):
            return self._address(text)
        path = self._inside(text)
        if os.path.isdir(path):  # noqa: PTH112 - as above
            for link in _links(path, look):
                if not self._is_inside(_resolved(link)):
                    raise SettingError(
                        f'"{path}" holds a link that leads out of what may be read',
                        detail=f'The link is "{link}".',
                        hint=_HINT,
                    )
        return str(path)

    def _address(self, text: str) -> str:
        # ".." and queries are refused where an address is opened.
        if any(text == root or text.startswith(f"{root}/") for root in self._addresses):
            return text
        raise self._outside(text)

    def _inside(self, text: str) -> Path:
        if "\0" in text or not text.strip():
            raise SettingError("this is not a path", hint=f"Paths begin with one of: {self._said()}.")
        # An absolute path stands for itself, whatever it is joined to.
        found = [path for root in self.folders if self._is_inside(path := _resolved(root / text))]
        if not found:
            raise self._outside(text)
        # Path.exists raises OSError for a name that is too long.
        existing = [path for path in found if os.path.exists(path)]  # noqa: PTH110
        if not existing:
            raise SettingError(f'there is no "{text}" in what may be read', hint=f"That is: {self._said()}.")
        return existing[0]

    def _is_inside(self, path: Path) -> bool:
        return any(path == root or path.is_relative_to(root) for root in self.folders)

    def _outside(self, text: str) -> SettingError:
        return SettingError(
            f'"{text}" is not in what may be read', detail=f"That is: {self._said()}.", hint=_HINT
        )

    def _said(self) -> str:
        return ", ".join(self.shown) or "no folder at all"


def _resolved(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError, ValueError) as error:
        raise SettingError(f'this is not a path: "{path}"', detail=str(error)) from error


def _links(folder: Path, look: Callable[[], None]) -> Iterator[Path]:
    """Every link in the folder and below. A folder that may not be read holds nothing for this reader."""
    left = [folder]
    while left:
        look()
        try:
            with os.scandir(left.pop()) as entries:
                for entry in entries:
                    if entry.is_symlink():
                        yield Path(entry.path)
                    elif entry.is_dir(follow_symlinks=False):
                        left.append(Path(entry.path))
        except OSError:
            continue
