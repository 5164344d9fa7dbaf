"""Which major version a server that was read has, and which one is measured.

What WAL, planner and defaults do differs between major versions, so an answer for one is none for another.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from walproof.errors import InstallError

if TYPE_CHECKING:
    from walproof.facts import Install

_NAMED = re.compile(r"(?:embedded-)?(\d+)(?:\.\d+)?")
"""What ``--pg`` and ``pg`` in a file name a version by; a folder says nothing of it."""


def install_like(version_num: int) -> Install | None:
    """This machine's install of the server's major version; None without one."""
    from walproof.postgres.install import find

    try:
        return find(str(version_num // 10000))
    except InstallError:
        return None


def named_major(specs: Sequence[str]) -> int | None:
    """The one major version that a load's file names; None if it names none, several or a folder."""
    found = [_NAMED.fullmatch(spec) for spec in specs]
    majors = {int(match[1]) for match in found if match is not None}
    return majors.pop() if len(majors) == 1 and all(found) else None


def other_major(what: str, read: int, chosen: Sequence[Install]) -> str | None:
    """A sentence if none of the installs is of the major version that was read; else None."""
    from walproof.postgres.install import major

    if any(major(install) == read for install in chosen):
        return None
    versions = " and ".join(install.version for install in chosen)
    return (
        f"{what} is of PostgreSQL {read}, and {versions} is measured: what WAL, planner and defaults do "
        "differs between major versions."
    )
