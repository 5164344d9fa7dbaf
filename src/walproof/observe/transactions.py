"""Reads transactions that do not end: those that wait for standbys, and prepared ones."""

from __future__ import annotations

from walproof.facts.transactions import (
    CONFIRMING,
    HORIZON,
    PREPARED,
    STALLED_S,
    HorizonHolder,
    PreparedTransaction,
    SynchronousWait,
)
from walproof.observe.asking import Asking, number_in, text_in
from walproof.settings.synchronous import parse_standbys

# Without max_wal_senders no commit waits (SyncRepRequested, syncrep.h). The setting is asked for with the
# rest: what was read a moment ago may have been changed to free those who wait.
_SETTINGS = """
    SELECT current_setting('synchronous_standby_names'), current_setting('synchronous_commit')
     WHERE current_setting('max_wal_senders')::int > 0 AND NOT pg_is_in_recovery()"""
# A walsender without a flush position, such as that of a backup, has no priority there. A role without
# rights sees names, and no state.
_SENDERS = """
    SELECT coalesce(array_agg(application_name ORDER BY application_name) FILTER (WHERE serves), '{}'),
           coalesce(array_agg(application_name ORDER BY application_name) FILTER (WHERE NOT serves), '{}'),
           coalesce(array_agg(application_name) FILTER (WHERE serves IS NULL), '{}')
      FROM (SELECT application_name, sync_priority > 0 AND state IN ('streaming', 'stopping') AS serves
              FROM pg_stat_replication) AS sender"""
# A COMMIT waits from its beginning on, nearly. Any other statement waits at its end, whenever it began, and a
# procedure may commit often: each of its transactions has another xact_start.
_WAITING = """
    SELECT extract(epoch FROM clock_timestamp())::float8,
           extract(epoch FROM max(clock_timestamp() - query_start))::float8,
           coalesce(array_agg(format('%s %s %s', pid, query_start, xact_start)), '{}'),
           coalesce(array_agg(CASE WHEN query ~* '^ *(commit|end)( +(work|transaction))? *;? *$'
                                   THEN extract(epoch FROM clock_timestamp() - query_start)::float8
                                   ELSE 0 END), '{}')
      FROM pg_stat_activity WHERE wait_event = 'SyncRep'"""
# The oldest alone are named, and everybody may see them.
_PREPARED = """
    SELECT quote_literal(gid), quote_ident(owner), quote_ident(database),
           extract(epoch FROM clock_timestamp() - prepared)::float8, age(transaction)
      FROM pg_prepared_xacts ORDER BY prepared, gid LIMIT 100"""

# A VACUUM keeps no rows from another one (PROC_IN_VACUUM, procarray.c). Queries stay on the server.
_HORIZON = """
    SELECT 'session', pid::text, state, extract(epoch FROM clock_timestamp() - xact_start)::float8,
           greatest(age(backend_xmin), age(backend_xid))
      FROM pg_stat_activity
     WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()
       AND (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL)
       AND NOT (state = 'active' AND query ~* '^ *vacuum')
    UNION ALL
    SELECT 'slot', slot_name::text, CASE WHEN active THEN 'active' ELSE 'inactive' END, NULL,
           greatest(age(xmin), age(catalog_xmin))
      FROM pg_replication_slots
     WHERE (xmin IS NOT NULL OR catalog_xmin IS NOT NULL) AND slot_name NOT LIKE 'walproof%'
    UNION ALL
    SELECT 'standby', application_name, state, NULL, age(backend_xmin)
      FROM pg_stat_replication WHERE backend_xmin IS NOT NULL AND application_name NOT LIKE 'walproof%'
     ORDER BY 5 DESC, 1, 2 LIMIT 20"""


class SynchronousReader:
    """Reads who confirms commits, and remembers who waited: of most statements one look cannot tell how
    long they have waited."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}
        """Of each transaction that waits: since when it surely has, by the server's clock."""

    def read(self, ask: Asking) -> SynchronousWait | None:
        """Who confirms commits, and who waits; None where no commit waits for a standby."""
        before, self._since = self._since, {}
        about_settings, about_senders, about_sessions = CONFIRMING
        settings = ask.row(about_settings, _SETTINGS)
        listed = parse_standbys(str(settings[0])) if settings else None
        if listed is None:
            return None
        senders = ask.row(about_senders, _SENDERS)
        sessions = ask.row(about_sessions, _WAITING)
        if not senders or not sessions:
            return None
        serving, others, unseen = senders
        now, oldest_s, waiting, commits_s = sessions
        self._since = {
            transaction: before.get(transaction, float(now) - float(commit_s))
            for transaction, commit_s in zip(waiting, commits_s, strict=True)
        }
        waited_s = [float(now) - since for since in self._since.values()]
        return SynchronousWait(
            names=str(settings[0]),
            level=str(settings[1]),
            serving=tuple(map(str, serving)),
            others=tuple(map(str, others)),
            unknown=sum(listed.match(str(name)) for name in unseen),
            waiting=len(waiting),
            oldest_s=number_in(oldest_s),
            stalled=sum(seconds >= STALLED_S for seconds in waited_s),
            stalled_s=max(waited_s, default=0.0),
        )


def read_prepared(ask: Asking) -> tuple[PreparedTransaction, ...]:
    """Prepared transactions of every database, the oldest first."""
    return tuple(
        PreparedTransaction(str(gid), str(owner), str(database), max(0.0, float(age_s)), int(age))
        for gid, owner, database, age_s, age in ask.rows(PREPARED, _PREPARED)
    )


def read_horizon(ask: Asking) -> tuple[HorizonHolder, ...]:
    """Sessions, slots and standbys that may need old rows, the oldest first."""
    return tuple(
        HorizonHolder(
            str(kind), str(name), text_in(state),
            None if since_s is None else max(0.0, float(since_s)), max(0, int(age)),
        )
        for kind, name, state, since_s, age in ask.rows(HORIZON, _HORIZON)
    )  # fmt: skip
