"""Scripts of a transaction that calls some of its statements several times."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby, pairwise

from walproof.advise.workload.transactions import Member, Transaction

_ROUNDED = 0.02
"""Shares of the runs that are as good as none, or all."""


def in_whole_turns(made: Transaction) -> Iterator[Transaction]:
    """The transaction as scripts that call each statement a whole number of times, and that have together the
    same mean: 2.6 items are two in four of ten runs, and three in six."""
    edges = [0.0]
    for share in sorted(each.times - _whole(each) for each in made.members):
        edges += [share] * (share > edges[-1] + _ROUNDED)
    for low, high in pairwise([*edges, 1.0]):
        members = [
            replace(each, times=_whole(each) + (each.times - _whole(each) > (low + high) / 2))
            for each in made.members
        ]
        yield Transaction(tuple(members), made.calls * (high - low))


def _whole(member: Member) -> int:
    return int(member.times + _ROUNDED)


def places_of(times: Sequence[float]) -> list[int]:
    """Which statement of a script each of those is that it sends in a run.

    ``times``: how often a run calls each statement; neighbours that are called equally often take turns.
    """
    found: list[int] = []
    for count, places in groupby(range(len(times)), key=lambda place: times[place]):
        found += list(places) * int(count)
    return found
