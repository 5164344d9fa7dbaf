"""Transactions as pgbench scripts."""

from __future__ import annotations

import re

from walproof.advise.workload.children import NewRows
from walproof.advise.workload.naming import Unreadable
from walproof.advise.workload.schema import enums_of, has_value, is_replaced, replaced_in
from walproof.advise.workload.transactions import Member, Transaction
from walproof.advise.workload.turns import places_of
from walproof.advise.workload.writer import Drawing, Drawn, Writer

_OF_PREDICATE = re.compile(r"\bON\s+CONFLICT\s*\((?:(?!\bDO\b).)*\)\s*WHERE\b", re.IGNORECASE | re.DOTALL)
"""An arbiter with a predicate: only a unique index that has it will do."""


def check(member: Member, drawing: Drawing) -> None:
    """Raises Unreadable for a statement that no script can have."""
    for column in member.read.columns:
        if is_replaced(column):
            raise Unreadable(f"it names {column.name} of type {column.type}, of which no value can be made")
    target = member.read.target
    was_unique = target is not None and any(index.was_unique for index in target.indexes)
    if was_unique and _OF_PREDICATE.search(member.read.query):
        raise Unreadable("its ON CONFLICT names a unique index that is a plain one here")
    own = frozenset(enums_of(drawing.made.values()))
    for table, column in member.read.unfilled:
        if not has_value(column, own, replaced_in(table)):
            what = (
                "only a trigger fills it"
                if column.default is None
                else f"its default {column.default} is not here"
            )
            raise Unreadable(f"it gives no {column.name}, which is NOT NULL in {table.name}: {what}")
    Writer(member, drawing, {}, [], NewRows([member.read])).text()


def script(transaction: Transaction, drawing: Drawing) -> str:
    """The script. What stands for the same row in several of its statements is drawn once."""
    draws: list[str] = []
    rows: dict[str, Drawn] = {}
    new = NewRows([member.read for member in transaction.members])
    places = places_of([member.times for member in transaction.members])
    lines = [Writer(transaction.members[at], drawing, rows, draws, new).text() for at in places]
    if len(lines) > 1:
        lines = ["BEGIN;", *lines, "COMMIT;"]
    return "\n".join([*draws, *lines]) + "\n"
