"""The options of initdb that a study has: what they say about its clusters."""

from __future__ import annotations

from collections.abc import Sequence

_SEGMENTS = "--wal-segsize"
_DEFAULT_SEGMENT_MB = 16


def segment_mb_of(options: Sequence[str]) -> int:
    """The size of a WAL segment in MB. What initdb itself refuses is left to it."""
    found = _DEFAULT_SEGMENT_MB
    for option, following in zip(options, (*options[1:], ""), strict=False):
        name, equals, value = option.partition("=")
        size = value if equals else following
        if name == _SEGMENTS and size.isdecimal() and int(size) > 0:
            found = int(size)  # the last one counts
    return found
