"""Statements that a transaction calls several times: an INSERT for each item of an order.

pg_stat_statements does not say so. Two things do. Commits: there are fewer than there would be if each item
had a transaction of its own. And WAL records: a foreign key locks the row that it points to, which writes a
record, but only once in a transaction (src/backend/access/heap/heapam.c, heap_lock_tuple). So items that are
inserted one by one with their order write fewer records a call than items that have transactions of their
own. Items that are added in one transaction to an order that was there before write as few: these two cannot
be told apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from walproof.advise.workload.children import is_one_new_row, parent_key
from walproof.advise.workload.transactions import Member, Transaction
from walproof.facts.application import AppColumn

TIMES_MOST = 20
"""A script is not to be endless."""
_TIMES_LEAST = 1.2
"""What is called less often than this for each row that it points to is hardly called several times."""
_SPARED = (0.5, 1.5)
"""Locks that are not written, relative to what so many items of an order spare."""
_ALIKE = 0.01
_LATE = ("INITIALLY DEFERRED", "NOT ENFORCED")
"""Foreign keys that no INSERT checks."""


@dataclass(slots=True)
class _Group:
    """A transaction and those that are parts of it, as it turns out."""

    outer: Transaction
    inner: list[Transaction] = field(default_factory=list)

    @property
    def members(self) -> list[Member]:
        """Statements of all of them."""
        return [member for each in (self.outer, *self.inner) for member in each.members]


def with_repeats(found: Sequence[Transaction], commits: float | None) -> list[Transaction]:
    """The transactions; those that insert rows, one by one, that point to a row which another inserts are put
    into that one. ``Member.times`` is the mean.

    ``commits``: how many transactions the database committed; without it nothing is put together.
    """
    if commits is None:
        return list(found)
    groups = [_Group(each) for each in found]
    scripts = sum(each.calls for each in found)
    # Those called least first: where items have parts of their own, the items are there by then.
    for inner in sorted(found, key=lambda each: each.calls):
        own = next(group for group in groups if group.outer is inner)
        into = None if own.inner else _into(inner, groups)
        # As many commits as without transactions of its own, rather than as with them.
        if into is not None and commits < scripts - inner.calls / 2:
            into.inner.append(inner)
            groups.remove(own)
            scripts -= inner.calls
    return [_joined(group) for group in groups]


def _into(inner: Transaction, groups: Sequence[_Group]) -> _Group | None:
    """The group that inserts the row to which the rows of the inner transaction point."""
    likely = [
        group
        for group in groups
        if group.outer is not inner
        and inner.calls <= TIMES_MOST * group.outer.calls
        and any(_points_into(member, group.members, inner) for member in inner.members)
    ]
    return max(likely, key=lambda group: group.outer.calls, default=None)


def _points_into(member: Member, others: Sequence[Member], inner: Transaction) -> bool:
    """Whether the rows that a statement inserts, one by one, point to rows that one of the others inserts,
    as far as locks tell. ``inner``: its transaction as it would be alone."""
    table, calls = member.read.target, member.statement.calls
    inserts = [each for each in inner.members if each.read.verb == "insert"]
    if table is None or not all(map(_inserts_one_each, [member, *inserts])):
        return False
    keys = [parent_key(table, column) for column in member.read.inserted]
    pointed = {key[0] for key in keys if key is not None} & _locked(member)
    # What the transaction has changed, or locked, before is not locked again.
    pointed -= {each.read.target.name for each in inner.members if each.read.target is not None}
    pointed -= {of.name for each in inner.members if " FOR " in each.read.query.upper()
                for of in each.read.tables}  # fmt: skip
    for each in others:
        parent = each.read.target
        if parent is None or parent.name not in pointed or not is_one_new_row(each.read):
            continue
        if parent.is_unlogged or calls < _TIMES_LEAST * each.statement.calls:
            return False
        written = sum(one.statement.wal_records / one.statement.calls for one in inserts)
        locked = set[str]().union(*map(_locked, inserts))
        spared = sum(map(_records_of_row, inserts)) + len(locked) - written
        least, most = (share * (1 - each.statement.calls / calls) for share in _SPARED)
        # Rows that the transaction has changed or locked anyway, such as the tenant's, spare a lock, too.
        anyway = (locked - {parent.name}) & _touched(others)
        return least <= spared <= most + len(anyway)
    return False


def _inserts_one_each(member: Member) -> bool:
    """Whether each call of an INSERT makes a row, and writes it to the WAL."""
    counted, table = member.statement, member.read.target
    is_one_each = abs(counted.rows - counted.calls) <= _ALIKE * counted.calls
    return is_one_new_row(member.read) and is_one_each and table is not None and not table.is_unlogged


def _records_of_row(member: Member) -> float:
    """WAL records, at least, of a row that is inserted, without locks: its own, and one for each index.
    Indexes that may not have the row, or write otherwise, are not counted."""
    table = member.read.target
    assert table is not None, "it inserts"
    keys = sum(key.kind in ("p", "u") for key in table.keys)
    plain = sum(
        " USING btree " in index.definition and " WHERE " not in index.definition for index in table.indexes
    )
    return 1.0 + keys + plain


def _locked(member: Member) -> set[str]:
    """Tables of which an INSERT locks a row in any case."""
    assert member.read.target is not None, "it inserts"
    given = {column.name for column in member.read.inserted if _is_always_given(column)}
    return {
        key.other
        for key in member.read.target.keys
        if key.kind == "f" and key.other is not None and set(key.columns) <= given
        and not any(word in key.definition for word in _LATE)
    }  # fmt: skip


def _touched(members: Sequence[Member]) -> set[str]:
    """Tables of which the statements change or lock a row."""
    changed = {each.read.target.name for each in members if each.read.target is not None}
    return changed.union(*(_locked(each) for each in members if each.read.verb == "insert"))


def _is_always_given(column: AppColumn) -> bool:
    """Whether an INSERT that names the column gives it a value other than NULL."""
    return column.not_null or (column.distinct is not None and column.null_share == 0)


def _joined(group: _Group) -> Transaction:
    """The inner statements come after the outer one's last INSERT, in the order in which they were found."""
    outer = group.outer
    if not group.inner:
        return outer
    at = max(place for place, member in enumerate(outer.members, 1) if member.read.verb == "insert")
    repeated = [
        replace(member, times=each.calls / outer.calls) for each in group.inner for member in each.members
    ]
    return replace(outer, members=(*outer.members[:at], *repeated, *outer.members[at:]))
