"""Commands and files that a page of the documentation shows.

A block marked ``sh`` holds commands that are run as they stand, in order, in one folder; a block with
``title="NAME"`` is a file of that folder. Blocks without a mark show commands, too, with examples of names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

_BLOCK = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_TITLE = re.compile(r'title="([^"]+)"')


def runnable(page: Path) -> list[str]:
    """The commands that can be run, in the order of the page."""
    found = (line for mark, text in _blocks(page) if mark == "sh" for line in text.splitlines())
    return [line for line in found if line.strip()]


def files(page: Path) -> dict[str, str]:
    """Contents of the files that the page tells to make, by name."""
    return {title[1]: text for mark, text in _blocks(page) if (title := _TITLE.search(mark))}


def shown(page: Path) -> list[str]:
    """Every command that begins with walproof, in whatever block; without prompt and folder."""
    lines = (line for _, text in _blocks(page) for line in text.splitlines())
    stripped = (re.sub(r"^(?:\$ )?(?:[A-Z_]+=\S+ )?(?:\.venv/bin/)?", "", line.strip()) for line in lines)
    return [line for line in stripped if line.startswith("walproof ")]


def _blocks(page: Path) -> Iterator[tuple[str, str]]:
    yield from _BLOCK.findall(page.read_text(encoding="utf-8"))
