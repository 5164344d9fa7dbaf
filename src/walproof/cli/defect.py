"""The text for an exception that nobody expected: a defect of walproof, to be reported.

The text is meant for a report that anybody may read. It has the places in the source, not the values that
were there, and the exception's own words without connection strings.
"""

from __future__ import annotations

import os
import platform
import sys
import traceback
from pathlib import Path

from walproof import __version__
from walproof.settings.conninfo import without_conninfos

_SOURCE = Path(__file__).parents[2]
_PLACES_MOST = 12
"""How many of the innermost places are shown."""


def defect_text(error: BaseException) -> str:
    """Message, detail and hint."""
    said = without_conninfos(str(error).strip(), sys.argv, os.environ)
    chain: list[BaseException] = [error]
    while (before := chain[-1].__cause__ or chain[-1].__context__) is not None and before not in chain:
        chain.append(before)
    lines = [f"walproof {__version__}, Python {platform.python_version()}, {platform.system()}"]
    for raised in reversed(chain):
        frames = traceback.extract_tb(raised.__traceback__)[-_PLACES_MOST:]
        lines += [f"{_short(frame.filename)}:{frame.lineno} in {frame.name}" for frame in frames]
        lines.append(f"raised {type(raised).__name__}")
    detail = "\n        ".join(lines)
    return (
        f"walproof: error: unexpected {type(error).__name__}{f': {said}' if said else ''}\n"
        f"detail: {detail}\n"
        "hint: This is a defect of walproof, not of yours. Please report it with this text and the command, "
        "without passwords; SECURITY.md says how, if it may be exploited.\n"
    )


def _short(name: str) -> str:
    """Where a file is below the installed packages: no name of a user's folder."""
    path = Path(name)
    if path.is_relative_to(_SOURCE):
        return str(path.relative_to(_SOURCE))
    parts = path.parts
    at = max((i for i, part in enumerate(parts) if part in ("site-packages", "lib")), default=len(parts) - 2)
    return "/".join(parts[at + 1 :])
