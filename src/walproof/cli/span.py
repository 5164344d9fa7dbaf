"""``--start``, ``--end``, ``--since`` and ``--until``: a span of the WAL, by locations or by times."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated

import typer

from walproof.errors import UnitError, WalError
from walproof.sentences import say_list
from walproof.units import Lsn, is_time_of_day, parse_moment

if TYPE_CHECKING:
    from walproof.wal.places.opened import Path
    from walproof.wal.places.place import Entry, Place
    from walproof.wal.progress import Observe

Since = Annotated[
    str | None,
    typer.Option(
        "--since", metavar="TIME", help="From this time, not --start: 14:30, 2026-11-22 14:30, 26h (ago)."
    ),
]
Until = Annotated[
    str | None, typer.Option("--until", metavar="TIME", help="Up to this time, in place of --end.")
]
_SEGMENT = re.compile("[0-9A-F]{24}(?![0-9A-F])")
_LOCATION_OR_TIME = "--start and --end take locations, --since and --until times: give one for each end."


@dataclass(frozen=True, slots=True)
class AskedSpan:
    """What was asked for; nothing was read yet."""

    start: Lsn | None
    end: Lsn | None
    since_s: float | None
    until_s: float | None
    """Unix times."""

    def find(
        self,
        paths: Sequence[Path],
        timeline: int | None,
        warn: Callable[[str], None],
        observe: Observe | None = None,
    ) -> tuple[Lsn | None, Lsn | None]:
        """Its first and its last location. Raises WalError; doubts about it are a warning, and so is WAL of a
        timeline that is not read."""
        if timeline is None and (unread := unread_timelines(paths)) is not None:
            warn(unread)
        if self.since_s is None and self.until_s is None:
            return self.start, self.end
        from walproof.wal.span import find_span

        span = find_span(
            *paths, since_s=self.since_s, until_s=self.until_s, timeline=timeline, observe=observe
        )
        if span.doubt is not None:
            warn(span.doubt)
        start = span.start if self.start is None else self.start
        end = span.end if self.end is None else self.end
        if start is not None and end is not None and start >= end:
            raise WalError(f"no WAL is between {start} and {end}, where the location and the time lead")
        return start, end


def unread_timelines(paths: Sequence[Path]) -> str | None:
    """A sentence about folders with WAL that is not read: an older timeline goes on after the next one began,
    and only what leads to the newest is read. None where all is read. Raises WalError."""
    from walproof.wal.places.folder import Folder
    from walproof.wal.places.opened import open_places

    named: dict[int, list[str]] = {}
    last: dict[int, Entry] = {}
    histories: dict[int, Entry] = {}
    with open_places(paths) as places:
        for place in places:
            # Nothing lies below an object; to ask a store for a folder would list it once more.
            if isinstance(place, Folder) and not place.is_folder():
                continue
            for entry in place.files():
                if _SEGMENT.match(entry.name):
                    timeline = int(entry.name[:8], 16)
                    named.setdefault(timeline, []).append(entry.name[8:24])
                    last[timeline] = max(entry, last.get(timeline, entry), key=lambda file: file.name)
                elif ".history" in entry.name:
                    from walproof.wal.verify.names import history_timeline

                    if (known := history_timeline(entry.name)) is not None:
                        histories[known] = entry
        timelines = sorted(named)
        # A timeline ends where the next one begins, if that branched off it.
        left = [older for older, newer in pairwise(timelines) if max(named[older]) > min(named[newer])]
        newest = max(histories, default=0)
        has_segments = not timelines or newest <= timelines[-1]
        if not has_segments:
            left = sorted({*left, *_left_behind(places, newest, histories[newest], last)})
    if not left:
        return None
    options = say_list([f"--timeline {timeline}" for timeline in left])
    read = f"{options} {'reads' if len(left) == 1 else 'read'} that"
    if not has_segments:
        return (
            f"of timeline {newest} there is {newest:08X}.history and no segment: WAL is read up to where it "
            f"began, and none that older timelines have after that: {read}"
        )
    return (
        f"only WAL that leads to timeline {timelines[-1]} is read, and none that older timelines have after "
        f"the next one began: {read}"
    )


def _left_behind(
    places: Sequence[Place], timeline: int, history: Entry, last: Mapping[int, Entry]
) -> list[int]:
    """The older timelines whose last segment begins after the way to ``timeline`` left them, by its history.
    Those of which that cannot be told are left out. Raises WalError."""
    from walproof._native import wal_probe, wal_text
    from walproof.wal.places.opened import call
    from walproof.wal.places.place import entry_source
    from walproof.wal.segment import segment_start
    from walproof.wal.verify.timelines import parse_history

    try:
        forks = dict(parse_history(call(places, wal_text, entry_source(history)), timeline))
    except WalError:
        return []
    probed = [
        (older, entry.name, call(places, wal_probe, entry_source(entry))) for older, entry in last.items()
    ]
    return [
        older
        for older, name, facts in probed
        if facts is not None and segment_start(name, facts[2]) >= forks.get(older, 0)
    ]


def ask_span(start: str | None, end: str | None, since: str | None, until: str | None) -> AskedSpan:
    """The options' values. Raises UnitError, and WalError where they contradict each other."""
    for location, moment, words in (
        (start, since, "--start and --since"), (end, until, "--end and --until"),
    ):  # fmt: skip
        if location is not None and moment is not None:
            raise WalError(f"{words} exclude each other", hint=_LOCATION_OR_TIME)
    now_s = time.time()
    since_s = None if since is None else _moment(since, now_s)
    until_s = None if until is None else _moment(until, now_s)
    if until is not None and since_s is not None and is_time_of_day(until):
        # The next time: 23:50 to 00:10, or to 14:35 when that is in two minutes.
        until_s = parse_moment(until, since_s + 86400)
    if since_s is not None and until_s is not None and until_s < since_s:
        from walproof.wal.span import say_moment

        raise WalError(f"--until {say_moment(until_s)} is before --since {say_moment(since_s)}")
    return AskedSpan(
        None if start is None else Lsn.parse(start), None if end is None else Lsn.parse(end), since_s, until_s
    )


def _moment(text: str, now_s: float) -> float:
    if "/" in text:
        raise UnitError(f'"{text}" is a location, not a time', hint=_LOCATION_OR_TIME)
    return parse_moment(text, now_s)
