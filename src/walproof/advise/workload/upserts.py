"""Whether INSERT ... ON CONFLICT DO UPDATE inserts rows or updates them.

pg_stat_statements counts both alike. But the server counts the rows that are inserted into a table: those
that no other statement has inserted are new rows of its upserts.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from walproof.advise.workload.parameters import ReadStatement
from walproof.facts.application import HIDDEN, AppStatement, AppTable
from walproof.sentences import say_percent

_NEW_LEAST = 0.5
"""Share of the rows from which on they are taken for new ones."""
_NONE, _ALL = 0.05, 0.95
"""Shares that are as good as none and all."""
_ALIEN = 1.2
"""Times the rows of the upserts above which something else has inserted, too."""
_MAY_INSERT = re.compile(r"\s*(?:COPY|INSERT|MERGE|WITH)\b", re.IGNORECASE)


def is_upsert(read: ReadStatement) -> bool:
    """Whether a statement inserts a row or updates the one that is there."""
    return read.verb == "insert" and read.has_conflict and not read.passes_over


def new_shares(
    read: Mapping[AppStatement, ReadStatement], unread: Iterable[AppStatement]
) -> dict[str, float]:
    """Table -> share of the rows of its upserts that are new, where that can be told.

    ``unread``: statements that may insert, too, and of which nothing is known.
    """
    unknown = [row.query for row in unread if row.query == HIDDEN or _MAY_INSERT.match(row.query)]
    upserts: dict[AppTable, float] = defaultdict(float)
    others: dict[AppTable, float] = defaultdict(float)
    unclear: set[AppTable] = set()
    for row, each in read.items():
        if each.target is None:
            continue
        if each.verb == "insert":
            (upserts if is_upsert(each) else others)[each.target] += row.rows
        elif each.verb == "merge" or each.inserted:
            unclear.add(each.target)
    found = {}
    for table, rows in upserts.items():
        is_known = not any(query == HIDDEN or table.relation in query for query in unknown)
        if table.inserted is None or rows <= 0 or table in unclear or not is_known:
            continue
        share = (table.inserted - others[table]) / rows
        if share <= _ALIEN:
            found[table.name] = min(1.0, max(0.0, share))
    return found


def inserting(
    read: Mapping[AppStatement, ReadStatement], shares: Mapping[str, float]
) -> frozenset[AppStatement]:
    """The upserts that are taken for such as insert; ``shares``: of `new_shares`."""
    return frozenset(
        row
        for row, each in read.items()
        if is_upsert(each) and each.target is not None and shares.get(each.target.name, 0.0) >= _NEW_LEAST
    )


def upsert_notes(reads: Iterable[ReadStatement], shares: Mapping[str, float]) -> Iterator[str]:
    """What differs from the application; ``reads``: statements of the load."""
    for name in dict.fromkeys(each.target.name for each in reads if each.target and is_upsert(each)):
        share = shares.get(name)
        if share is None:
            yield f"{name}: how often ON CONFLICT DO UPDATE inserted is not known; here it always updates."
        elif _NONE <= share < _ALL:
            here = "inserts" if share >= _NEW_LEAST else "updates"
            yield (
                f"{name}: of the rows of ON CONFLICT DO UPDATE {say_percent(share)} were new; here it always "
                f"{here}."
            )
