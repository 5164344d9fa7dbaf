"""Reads transactions that do not end: those that wait for standbys, and prepared ones."""

from __future__ import annotations

from walproof.facts.transactions import CONFIRMING, PREPARED, PreparedTransaction, SynchronousWait
from walproof.observe.asking import Asking
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
_WAITING = """
    SELECT count(*), extract(epoch FROM max(clock_timestamp() - query_start))::float8
      FROM pg_stat_activity WHERE wait_event = 'SyncRep'"""
# The oldest alone are named, and everybody may see them.
_PREPARED = """
    SELECT quote_literal(gid), quote_ident(owner), quote_ident(database),
           extract(epoch FROM clock_timestamp() - prepared)::float8, age(transaction)
      FROM pg_prepared_xacts ORDER BY prepared, gid LIMIT 100"""


def read_synchronous(ask: Asking) -> SynchronousWait | None:
    """Who confirms commits, and who waits; None where no commit waits for a standby."""
    about_settings, about_senders, about_sessions = CONFIRMING
    settings = ask.row(about_settings, _SETTINGS)
    listed = parse_standbys(str(settings[0])) if settings else None
    if listed is None:
        return None
    senders = ask.row(about_senders, _SENDERS)
    waiting = ask.row(about_sessions, _WAITING)
    if not senders or not waiting:
        return None
    serving, others, unseen = senders
    return SynchronousWait(
        names=str(settings[0]),
        level=str(settings[1]),
        serving=tuple(map(str, serving)),
        others=tuple(map(str, others)),
        unknown=sum(listed.match(str(name)) for name in unseen),
        waiting=int(waiting[0]),
        oldest_s=None if waiting[1] is None else float(waiting[1]),
    )


def read_prepared(ask: Asking) -> tuple[PreparedTransaction, ...]:
    """Prepared transactions of every database, the oldest first."""
    return tuple(
        PreparedTransaction(str(gid), str(owner), str(database), max(0.0, float(age_s)), int(age))
        for gid, owner, database, age_s, age in ask.rows(PREPARED, _PREPARED)
    )
