"""What verifying one file found, as the native module tells it and as it is kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from walproof.units import Lsn

Begun = tuple[int, int, int, str, int]
"""The part of a record before the edge of a segment; see ``_native.pyi``."""
Rest = tuple[int, int, str, int]
"""The part after it."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Something wrong at one place of a file."""

    cause: str
    """``page``, ``record``, ``link``, ``continuation``, ``checksum``, ``structure``, ``truncated``, ``too
    long``, ``unpack``, ``unreadable``, ``encrypted``."""
    lsn: Lsn
    offset: int
    resumes: Lsn | None
    """Where records go on in the file."""
    message: str

    @property
    def is_of_file(self) -> bool:
        """Whether the file as a whole cannot be restored."""
        return self.cause in ("truncated", "too long", "unpack", "unreadable", "encrypted")


@dataclass(frozen=True, slots=True)
class Stretch:
    """Records of one segment that follow from each other."""

    start: Lsn
    end: Lsn
    first: Lsn | None
    first_previous: Lsn | None
    """The record that the first one names as its predecessor."""
    last: Lsn | None
    records: int
    times: tuple[int, int] | None
    """Earliest and latest end of a transaction, us since 1970."""
    switches: tuple[tuple[Lsn, int, int], ...]
    """Records that switch to another timeline: location, timeline from then on, timeline before."""


@dataclass(frozen=True, slots=True)
class FileFacts:
    """What is in one file."""

    bytes: int
    sha1: str | None
    version: int | None
    system_identifier: int | None
    address: Lsn | None
    """Where its pages belong, if that is not where its name says."""
    timelines: tuple[int, int] | None
    head: str
    """``record``, ``rest`` (of one from before), ``overwrite`` (of one that was given up), ``broken``."""
    rest: Rest | None
    tail: Begun | None
    stretches: tuple[Stretch, ...]
    faults: tuple[Fault, ...]
    end: Fault | None
    """What is not a record and has none after it; None if the segment is full."""
    is_clean_end: bool

    @classmethod
    def of_plain(cls, plain: Mapping[str, Any]) -> FileFacts:
        """From the native module's dict, or from JSON. Raises KeyError, TypeError or ValueError for anything
        else."""
        address, timelines, rest, tail = (plain[name] for name in ("address", "timelines", "rest", "tail"))
        return cls(
            int(plain["bytes"]),
            plain["sha1"],
            plain["version"],
            plain["system_identifier"],
            None if address is None else Lsn(address),
            None if timelines is None else (timelines[0], timelines[1]),
            str(plain["head"]),
            None if rest is None else (int(rest[0]), int(rest[1]), str(rest[2]), int(rest[3])),
            None if tail is None else (int(tail[0]), int(tail[1]), int(tail[2]), str(tail[3]), int(tail[4])),
            tuple(_stretch(stretch) for stretch in plain["stretches"]),
            tuple(_fault(fault) for fault in plain["faults"]),
            None if plain["end"] is None else _fault(plain["end"]),
            bool(plain["is_clean_end"]),
        )


def _stretch(plain: Mapping[str, Any]) -> Stretch:
    first, last, times = plain["first"], plain["last"], plain["times"]
    return Stretch(
        Lsn(plain["start"]),
        Lsn(plain["end"]),
        None if first is None else Lsn(first[0]),
        None if first is None else Lsn(first[1]),
        None if last is None else Lsn(last),
        int(plain["records"]),
        None if times is None else (int(times[0]), int(times[1])),
        tuple((Lsn(lsn), int(to), int(before)) for lsn, to, before in plain["switches"]),
    )


def _fault(plain: Any) -> Fault:
    cause, lsn, offset, resumes, message = plain
    return Fault(str(cause), Lsn(lsn), int(offset), None if resumes is None else Lsn(resumes), str(message))
