"""Parts of WAL that are read separately, on several machines if need be, and put together exactly.

    >>> from walproof.wal.parts import join_parts, read_part
    >>> here = read_part("a")  # doctest: +SKIP
    >>> there = read_part("b")  # doctest: +SKIP
    >>> both = join_parts([here.data, there.data])  # doctest: +SKIP
    >>> both.stats().totals  # doctest: +SKIP

A part is all bytes between two locations. The record over an edge is counted when its two sides are joined;
joining is associative, and refuses what does not follow (crates/walproof-wal/src/part).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from walproof._native import WalPart
from walproof.errors import WalError
from walproof.units import Lsn
from walproof.wal.places.opened import Path, open_places, reading
from walproof.wal.places.place import Place
from walproof.wal.progress import Observe
from walproof.wal.totals import WalStats, stats_of

MAGIC = b"walpart"
"""How the file of a part begins; a byte for the version of its form follows."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of WAL: what was counted of it, and what its edges need."""

    version: int
    """Major version of the server that wrote the WAL."""
    system_identifier: int
    segment_size: int
    start: Lsn
    end: Lsn
    """Where the next part begins."""
    first_record: Lsn | None
    """Totals of the records that lie entirely in the part; None when there are none."""
    last_record: Lsn | None
    first_timeline: int
    last_timeline: int
    is_open: bool
    """Whether a part may follow, because the WAL does not end here."""
    data: bytes
    """The contents of the part's file."""

    def stats(self) -> WalStats:
        """The totals, as ``stats`` gives them for everything that the part was joined from.

        Raises WalError when there is no record in it.
        """
        return stats_of(WalPart.of_bytes(self.data).stats())

    def facts(self) -> dict[str, object]:
        """Everything but the data, for JSON; locations are text."""
        return {
            "version": self.version,
            "system_identifier": str(self.system_identifier),  # 64 bits do not fit a double
            "segment_size": self.segment_size,
            "start": str(self.start),
            "end": str(self.end),
            "first_record": None if self.first_record is None else str(self.first_record),
            "last_record": None if self.last_record is None else str(self.last_record),
            "first_timeline": self.first_timeline,
            "last_timeline": self.last_timeline,
            "is_open": self.is_open,
            "part_bytes": len(self.data),
        }


def read_part(
    *paths: Path,
    start: Lsn | None = None,
    end: Lsn | None = None,
    timeline: int | None = None,
    threads: int | None = None,
    observe: Observe | None = None,
) -> Part:
    """The part from ``start`` (the first segment at hand) to ``end`` (the last segment that follows).

    Locations are multiples of 8; ``observe`` is told how far it has come. Raises WalError: nothing readable,
    missing or damaged WAL.
    """
    with reading(paths, threads or len(os.sched_getaffinity(0))) as wal:
        return _part(
            wal.call(
                WalPart.read,
                wal.sources,
                start,
                end,
                timeline,
                threads=wal.threads,
                observe=wal.observed(observe),
            )
        )


def join_parts(parts: Iterable[bytes]) -> Part:
    """Put parts together, in the order of their WAL. Raises WalError if one does not follow."""
    first, *others = parts
    whole = WalPart.of_bytes(first)
    for other in others:
        whole.append(other)
    return _part(whole)


def load_parts(paths: Sequence[Path]) -> Part:
    """As ``join_parts``, but of files; an error names the file."""
    whole: WalPart | None = None
    with open_places(paths) as places:
        for path in places:
            try:
                data = path.read()
            except OSError as error:
                raise WalError(f'could not open file "{path}": {error.strerror}') from error
            try:
                if whole is None:
                    whole = WalPart.of_bytes(data)
                else:
                    whole.append(data)
            except WalError as error:
                raise WalError(f"{path}: {error.message}", detail=error.detail, hint=error.hint) from error
    assert whole is not None
    return _part(whole)


def are_parts(paths: Sequence[Path]) -> bool:
    """Whether the files are parts, and not WAL. Raises WalError if there are both."""
    with open_places(paths) as places:
        found = [path for path in places if _begins_as_part(path)]
    if found and len(found) < len(places):
        other = next(path for path in places if path not in found)
        raise WalError(
            "parts and WAL cannot be read together",
            detail=f'"{found[0]}" is a part, "{other}" is not.',
            hint='Make a part of the WAL first: "walproof wal part".',
        )
    return bool(found)


def _begins_as_part(path: Place) -> bool:
    if not path.is_file():
        return False
    try:
        return path.first_bytes(len(MAGIC)) == MAGIC
    except OSError:
        return False  # who reads it says why


def _part(part: WalPart) -> Part:
    facts = part.facts()
    first, last = facts["first_record"], facts["last_record"]
    return Part(
        version=facts["version"],
        system_identifier=facts["system_identifier"],
        segment_size=facts["segment_size"],
        start=Lsn(facts["start"]),
        end=Lsn(facts["end"]),
        first_record=None if first is None else Lsn(first),
        last_record=None if last is None else Lsn(last),
        first_timeline=facts["first_timeline"],
        last_timeline=facts["last_timeline"],
        is_open=facts["is_open"],
        data=part.to_bytes(),
    )
