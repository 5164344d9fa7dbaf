"""``--since`` and ``--until``: parts of the WAL that are named by times."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from walproof.errors import WalError
from walproof.units import Lsn, parse_moment

if TYPE_CHECKING:
    from walproof.wal.places.opened import Path
    from walproof.wal.progress import Observe

Since = Annotated[
    str | None,
    typer.Option(
        "--since",
        metavar="TIME",
        help="From this time: 14:30, 2026-11-22 14:30, or 26h (ago). In place of --start.",
    ),
]
Until = Annotated[
    str | None, typer.Option("--until", metavar="TIME", help="Up to this time. In place of --end.")
]


def chosen_span(
    paths: Sequence[Path],
    start: str | None,
    end: str | None,
    since: str | None,
    until: str | None,
    timeline: int | None = None,
    observe: Observe | None = None,
) -> tuple[Lsn | None, Lsn | None]:
    """First and last location of what the options name. Raises UnitError and WalError."""
    for location, moment, words in (
        (start, since, "--start and --since"), (end, until, "--end and --until"),
    ):  # fmt: skip
        if location is not None and moment is not None:
            raise WalError(
                f"{words} exclude each other", hint="A location needs no time, nor a time a location."
            )
    first = None if start is None else Lsn.parse(start)
    last = None if end is None else Lsn.parse(end)
    if since is None and until is None:
        return first, last
    from walproof.wal.span import find_span

    now_s = time.time()
    span = find_span(
        *paths,
        since_s=None if since is None else parse_moment(since, now_s),
        until_s=None if until is None else parse_moment(until, now_s),
        timeline=timeline,
        observe=observe,
    )
    return (span.start if start is None else first), (span.end if end is None else last)
