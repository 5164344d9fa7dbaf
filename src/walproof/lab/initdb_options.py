"""The options of initdb that a study has: what they say about its clusters, and which of them a kind of study
chooses itself."""

from __future__ import annotations

from collections.abc import Sequence

_SEGMENTS = "--wal-segsize"
_DEFAULT_SEGMENT_MB = 16
_CHECKSUMS = frozenset({"-k", "--data-checksums", "--no-data-checksums"})


def segment_mb_of(options: Sequence[str]) -> int:
    """The size of a WAL segment in MB. What initdb itself refuses is left to it."""
    found = _DEFAULT_SEGMENT_MB
    for option, following in zip(options, (*options[1:], ""), strict=False):
        name, equals, value = option.partition("=")
        size = value if equals else following
        if name == _SEGMENTS and size.isdecimal() and int(size) > 0:
            found = int(size)  # the last one counts
    return found


def checksum_choices(options: Sequence[str]) -> tuple[str, ...]:
    """Those that say whether a cluster has data checksums."""
    return tuple(option for option in options if option in _CHECKSUMS)


def settings_in(options: Sequence[str]) -> tuple[str, ...]:
    """Those that write a setting into postgresql.conf."""
    return tuple(option for option in options if option.startswith(("-c", "--set")))


def without_own(options: Sequence[str]) -> tuple[str, ...]:
    """The others than these and the size of segments, for clusters whose kind of study chooses both."""
    words = iter(options)
    found: list[str] = []
    for option in words:
        if option == _SEGMENTS:
            next(words, None)  # the size is the next word
        elif not option.startswith(f"{_SEGMENTS}=") and option not in _CHECKSUMS:
            found.append(option)
    return tuple(found)
