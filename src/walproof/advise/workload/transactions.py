"""Which statements belong to one transaction: a guess from how often each was called.

pg_stat_statements does not know transactions. What is always committed together is called equally often,
though, and the database counts its commits. BEGIN and COMMIT are counted, too, but not where a driver
prepares them: then only their first execution is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from walproof.advise.workload.children import parents_first
from walproof.advise.workload.parameters import ReadStatement
from walproof.facts.application import AppStatement

_ALIKE = 0.01
"""Calls that differ by less are called equally often."""
_NOISE = 3.0
"""Or by less than so many times the square root of their number: two looks cut transactions in two."""
_SLACK = 0.1
"""Commits may be fewer by this share: other sessions commit, too."""
_ENDS = ("COMMIT", "END", "COMMIT TRANSACTION", "END TRANSACTION", "COMMIT WORK")
_ORDER = ("select", "insert", "update", "merge", "delete")


@dataclass(frozen=True, slots=True)
class Member:
    """A statement of a transaction."""

    statement: AppStatement
    read: ReadStatement
    times: float = 1.0
    """How often the transaction calls it: in a script a whole number."""


@dataclass(frozen=True, slots=True)
class Transaction:
    """Statements that are committed together."""

    members: tuple[Member, ...]
    calls: float


def committed(statements: Sequence[AppStatement]) -> float:
    """How often a transaction block was committed, as far as that was counted."""
    return sum(row.calls for row in statements if row.query.strip(" ;").upper() in _ENDS)


def transactions(
    members: Sequence[Member], blocks: float, commits: float | None = None
) -> tuple[Transaction, ...]:
    """The statements as transactions, those with the most calls first.

    ``blocks``: how often a transaction block was committed, as far as that was counted; ``commits``: how many
    transactions the database committed, which says more. What was called equally often is put together, the
    largest groups first, as long as there are still as many commits as the database had.
    """
    scripts = sum(member.statement.calls for member in members)
    found: list[Transaction] = []
    for group in sorted(_alike(members), key=lambda group: (-len(group), -group[0].statement.calls)):
        calls = max(member.statement.calls for member in group)
        size = 1
        if any(member.read.target is not None for member in group):
            if commits is not None:
                size = min(len(group), 1 + max(0, int((scripts - commits * (1 - _SLACK)) / calls)))
            elif blocks >= calls * (1 - _ALIKE):
                size = len(group)
        if size > 1:
            blocks -= calls
            scripts -= calls * (size - 1)
            # What is left over are reads first: a block is there for what it changes.
            writing = sorted(group, key=lambda member: member.read.target is None)[:size]
            together = [member for member in group if member in writing]
            order = parents_first([member.read for member in together])
            found.append(Transaction(tuple(together[at] for at in order), calls))
            group = [member for member in group if member not in writing]
        found += [Transaction((member,), member.statement.calls) for member in group]
    return tuple(sorted(found, key=lambda transaction: -transaction.calls))


def _alike(members: Sequence[Member]) -> list[list[Member]]:
    """Statements with as many calls; what is read or new comes before what is changed."""
    groups: list[list[Member]] = []
    for member in sorted(members, key=lambda member: -member.statement.calls):
        calls = member.statement.calls
        most = groups[-1][0].statement.calls if groups else 0.0
        if groups and most - calls <= max(_ALIKE * most, min(_NOISE, 0.1 * most)):
            groups[-1].append(member)
        else:
            groups.append([member])
    return [sorted(group, key=lambda member: _ORDER.index(member.read.verb)) for group in groups]
