"""Minors of one major version, which can write different WAL."""

from __future__ import annotations

import re
from collections.abc import Iterable

from walproof.sentences import say_list

MAP_NAMED_SINCE = {17: 11, 18: 6}
"""Major version -> first minor known in which records that clear bits of the visibility map name its page.
In 17.10 and 18.4 they do not, in 13 to 16 never; in 19 they do from the beginning."""


def major_minor(version: str) -> tuple[int, int | None]:
    """``18.4`` is (18, 4), ``19rc1`` is (19, None)."""
    match = re.match(r"(\d+)(?:\.(\d+))?", version)
    assert match is not None, version
    return int(match[1]), int(match[2]) if match[2] else None


def compared_minors(versions: Iterable[str]) -> str | None:
    """A sentence if ``versions`` include two minors of one major version, else None."""
    minors: dict[int, set[str]] = {}
    for version in versions:
        minors.setdefault(major_minor(version)[0], set()).add(version)
    several = [_listed(found) for _, found in sorted(minors.items()) if len(found) > 1]
    if not several:
        return None
    sentence = f"WAL of minors of one major version is compared ({'; '.join(several)}), and minors can write"
    sentence += " different WAL"
    unlike = [
        f"{major}.{first}"
        for major, first in MAP_NAMED_SINCE.items()
        if len({_names_map(version) for version in minors.get(major, ())}) > 1
    ]
    if unlike:
        sentence += f": from {say_list(unlike)} on, records that clear bits of the visibility map name its "
        sentence += "page, and images of it come with them"
    return sentence + "."


def _names_map(version: str) -> bool:
    major, minor = major_minor(version)
    return minor is not None and minor >= MAP_NAMED_SINCE[major]


def _listed(versions: Iterable[str]) -> str:
    return say_list(sorted(versions, key=lambda version: major_minor(version)[1] or 0))
