"""Rules about WAL that nobody needs: indexes without readers, updates that touch every index."""

from __future__ import annotations

from walproof.advise.server.advice import Advice, Fine, Found, Sure, Unseen, Weight
from walproof.advise.server.case import ServerCase
from walproof.facts.server import LEAST_STATISTICS_S, OTHER_INDEXES, ServerIndex, ServerTable
from walproof.sentences import say_count, say_list, say_percent
from walproof.sqltext import visible
from walproof.units import format_bytes, format_duration

LEAST_INDEX_BYTES = 1 << 20
LEAST_UPDATES = 10_000
HOT_SHARE = 0.5
"""The share of a table's updates that needed no entry in any index."""
FILLFACTOR = 85
_NAMED = 5
_UNUSED = "unused indexes"


def unused_indexes(case: ServerCase) -> Found | None:
    """Indexes that no query has read, by what they cost; not of a standby, whose statistics are its own."""
    if not case.window.indexes or case.window.is_in_recovery:
        return None
    unread = [
        index
        for index in case.window.indexes
        if index.scans == 0 and not index.is_needed and index.bytes >= LEAST_INDEX_BYTES
    ]
    if not unread:
        is_whole = case.window.lacks_of(OTHER_INDEXES) is None
        which = "Every index" if is_whole else f"Each of the {len(case.window.indexes)} largest indexes"
        return Fine(_UNUSED, f"{which} was read, is needed, or is small.")
    age_s = case.window.counted_s
    if age_s is None or age_s < LEAST_STATISTICS_S:
        return Unseen(
            _UNUSED,
            f"{_counted(len(unread))} not read since statistics count"
            + ("" if age_s is None else f", {format_duration(age_s)}")
            + ": too short to say",
        )
    idle = [index for index in unread if not _is_young(case, index)]
    if not idle:
        return Unseen(_UNUSED, f"{_counted(len(unread))} not read, and made less than a week ago")
    costs = {index.name: case.relation_wal(index.filenode) for index in idle}
    idle.sort(key=lambda index: (-(costs[index.name] or 0.0), -index.bytes))
    written = sum(cost or 0.0 for cost in costs.values())
    evidence = [f"No query has read {say_list([_named(case, index) for index in idle[:_NAMED]])}."]
    if len(idle) < len(unread):
        evidence.append(f"Too young to say: {say_count(len(unread) - len(idle), 'other')}.")
    if case.wal is not None and written:
        share = written / max(1, case.wal.accounting.total_bytes)
        evidence.append(f"They make {say_percent(share)} of the WAL that was recorded.")
    if case.window.standbys_asked:
        evidence.append(
            f"Asked as well, without a reader there: {say_count(case.window.standbys_asked, 'standby')}."
        )
    asked = case.window.standbys_asked
    unasked = len(case.window.standbys) > asked or (case.window.has_standbys and not asked)
    is_age_known = all(_age_s(case, index) is not None for index in idle)
    count = "an index" if len(idle) == 1 else f"{len(idle)} indexes"
    return Advice(
        _UNUSED,
        Weight.GAIN,
        f"Drop {count} that nobody reads",
        tuple(evidence),
        steps=tuple(step for index in idle[:_NAMED] for step in _drop(index)),
        costs=("A query that needs it later is slow until it is made again.",),
        sure=Sure.MEDIUM if is_age_known and not unasked else Sure.LOW,
        unknown=(
            *(
                ("whether a standby reads them: statistics are each server's own (--standby DSN asks it)",)
                if unasked
                else ()
            ),
            *(() if is_age_known else ("when they were made: a young index has had little time to be read",)),
            f"other databases than {case.window.database}",
        ),
        benefit=written / max(case.hours, 1e-9),
    )


def _drop(index: ServerIndex) -> tuple[str, ...]:
    drop = f"DROP INDEX CONCURRENTLY {index.name};"
    if index.is_valid:
        return (drop,)
    # It would wait until the index is made, and drop it. A name may hold line breaks, which end a comment.
    return ("-- only where pg_stat_progress_create_index shows that nobody builds it:", visible(f"-- {drop}"))


def _is_young(case: ServerCase, index: ServerIndex) -> bool:
    """Whether it was made so lately that a weekly job may not have come yet; no query may read one that is
    not valid, however old it is."""
    age_s = _age_s(case, index)
    return index.is_valid and age_s is not None and age_s < LEAST_STATISTICS_S


def _age_s(case: ServerCase, index: ServerIndex) -> float | None:
    """Seconds since it was made, if transactions always came as in the window; None where that is not known:
    PostgreSQL keeps no time of it."""
    taken = case.window.grown("next_xid")
    if index.age is None or not taken or case.window.seconds <= 0:
        return None
    rate = taken / case.window.seconds
    # Where so many are taken, ids reach back for less than that.
    return None if rate * LEAST_STATISTICS_S >= 2**31 else index.age / rate


def _counted(count: int) -> str:
    return "an index was" if count == 1 else f"{count} indexes were"


def _named(case: ServerCase, index: ServerIndex) -> str:
    cost = case.relation_wal(index.filenode)
    rate = f", {format_bytes(cost / case.hours)} of WAL an hour" if cost and case.hours > 0 else ""
    state = "" if index.is_valid else ", not valid: a CREATE INDEX CONCURRENTLY failed, or still runs"
    return f"{index.name} ({format_bytes(index.bytes)}{rate}{state})"


def hot_updates(case: ServerCase) -> Found | None:
    """Tables whose updates write to every index, for want of room on the page."""
    # Until its rows have been updated once, a table that was just filled has no room anywhere; updates make
    # it.
    busy = [table for table in case.window.tables if table.updated >= max(LEAST_UPDATES, table.live)]
    if not busy:
        return None
    cold = [table for table in busy if table.hot_updated < HOT_SHARE * table.updated]
    cramped = [
        table
        for table in cold
        if table.fillfactor > FILLFACTOR and (table.moved is None or table.moved >= HOT_SHARE * table.updated)
    ]
    if not cold:
        return Fine("HOT updates", f"Updated much, and mostly HOT: {say_count(len(busy), 'table')}.")
    if not cramped:
        named = say_list([_updated(table) for table in cold[:_NAMED]])
        return Fine("HOT updates", f"Room is there, so updates most likely change indexed columns: {named}.")
    cramped.sort(key=lambda table: table.hot_updated - table.updated)
    named = say_list([_updated(table) for table in cramped[:_NAMED]])
    is_seen = all(table.moved is not None for table in cramped)
    return Advice(
        "HOT updates",
        Weight.GAIN,
        "Leave room on the pages of tables that are updated",
        (
            f"Updates that find no room on their page write an entry into every index of the table: {named}.",
            "An update of an indexed column does so anyway, with any fillfactor.",
        ),
        steps=(
            *(f"ALTER TABLE {table.name} SET (fillfactor = {FILLFACTOR});" for table in cramped[:_NAMED]),
            "-- holds for new pages; VACUUM FULL or pg_repack rewrites the old ones",
        ),
        costs=(f"Tables grow by up to {say_percent(100 / FILLFACTOR - 1)}.",),
        sure=Sure.MEDIUM if is_seen else Sure.LOW,
        unknown=("whether the updates change indexed columns",),
    )


def _updated(table: ServerTable) -> str:
    moved = "" if table.moved is None else f", {say_percent(table.moved / table.updated)} to another page"
    hot = say_percent(table.hot_updated / table.updated)
    return f"{table.name} ({table.updated:,} updates, {hot} HOT{moved})"


def statistics_age(case: ServerCase) -> str | None:
    """A sentence that says since when the server counts."""
    counted_s = case.window.counted_s
    if counted_s is None:
        return None
    atleast = "at least " if case.window.reset_at is None else ""
    return f"Statistics of {case.window.database} count since {atleast}{format_duration(counted_s)}."
