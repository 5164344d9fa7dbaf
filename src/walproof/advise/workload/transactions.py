"""Which statements belong to one transaction: a guess from how often each was called.

pg_stat_statements does not know transactions. What is always committed together is called equally often,
though, and the database counts its commits. BEGIN and COMMIT are counted, too, but not where a driver
prepares them: then only their first execution is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from walproof.advise.workload.scripts import Piece
from walproof.facts.application import AppStatement

_ALIKE = 0.01
"""Calls that differ by less are called equally often."""
_SLACK = 0.05
"""Commits may be fewer by this share: other sessions commit, too."""
_ENDS = ("COMMIT", "END", "COMMIT TRANSACTION", "END TRANSACTION", "COMMIT WORK")
_ORDER = ("select", "insert", "update", "merge", "delete")


@dataclass(frozen=True, slots=True)
class Transaction:
    """A script."""

    pieces: tuple[Piece, ...]
    calls: float
    is_guess: bool
    """Whether its statements were put together here."""


def committed(statements: Sequence[AppStatement]) -> float:
    """How often a transaction block was committed."""
    return sum(row.calls for row in statements if row.query.strip(" ;").upper() in _ENDS)


def transactions(
    pieces: Sequence[Piece], blocks: float, commits: float | None = None
) -> tuple[Transaction, ...]:
    """The pieces as scripts, those with the most calls first.

    ``blocks``: how often a transaction block was committed, as far as that was counted; ``commits``: how many
    transactions the database committed. What was called equally often is put together, the largest groups
    first, as long as there are still so many commits as the database had.
    """
    scripts = sum(piece.statement.calls for piece in pieces)
    found: list[Transaction] = []
    for group in sorted(_alike(pieces), key=lambda group: (-len(group), -group[0].statement.calls)):
        calls = max(piece.statement.calls for piece in group)
        writes = any(piece.read.target is not None for piece in group)
        saved = calls * (len(group) - 1)
        fits = blocks >= calls * (1 - _ALIKE) or (
            commits is not None and scripts - saved >= commits * (1 - _SLACK)
        )
        if len(group) > 1 and writes and fits:
            blocks -= calls
            scripts -= saved
            found.append(Transaction(tuple(group), calls, is_guess=True))
        else:
            found += [Transaction((piece,), piece.statement.calls, is_guess=False) for piece in group]
    return tuple(sorted(found, key=lambda transaction: -transaction.calls))


def _alike(pieces: Sequence[Piece]) -> list[list[Piece]]:
    """Pieces with as many calls, in an order in which what is read or new comes before what is changed."""
    groups: list[list[Piece]] = []
    for piece in sorted(pieces, key=lambda piece: -piece.statement.calls):
        calls = piece.statement.calls
        if groups and groups[-1][0].statement.calls - calls <= _ALIKE * groups[-1][0].statement.calls:
            groups[-1].append(piece)
        else:
            groups.append([piece])
    return [sorted(group, key=lambda piece: _ORDER.index(piece.read.verb)) for group in groups]
