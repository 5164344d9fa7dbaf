"""What a primary keeps for a slot, and whether it would wait for whoever streams from it."""

from __future__ import annotations

import re
from dataclasses import dataclass

import psycopg
from psycopg.rows import TupleRow

from walproof.units import Lsn

_LOOK = """
    SELECT pg_current_wal_insert_lsn()::text, pg_current_wal_flush_lsn()::text,
           (SELECT restart_lsn::text FROM pg_replication_slots WHERE slot_name = %s),
           current_setting('synchronous_standby_names'), current_setting('application_name')
    """
_NAME = re.compile(r'"((?:[^"]|"")*)"|([^\s,()"]+)')


@dataclass(frozen=True, slots=True)
class SlotLook:
    """A primary at one moment, and one of its slots."""

    inserted: Lsn
    """End of its WAL."""
    flushed: Lsn
    """End of what a walsender may send."""
    confirmed: Lsn | None
    """Where the WAL that is kept for the slot begins; None if there is no slot of that name."""
    is_synchronous: bool
    """Whether commits may wait for a walsender with the session's application_name, or be released by it."""


def look_at_slot(session: psycopg.Connection[TupleRow], slot: str) -> SlotLook:
    """Ask a primary. Raises psycopg.Error."""
    row = session.execute(_LOOK, [slot]).fetchone()
    assert row is not None
    inserted, flushed, confirmed, names, application = row
    return SlotLook(
        Lsn.parse(inserted),
        Lsn.parse(flushed),
        None if confirmed is None else Lsn.parse(confirmed),
        is_named(names, application),
    )


def is_named(synchronous_standby_names: str, application_name: str) -> bool:
    """Whether the setting names a walsender of that application_name; ``*`` names all of them.

    src/backend/replication/syncrep.c, SyncRepGetStandbyPriority.
    """
    names = {
        quoted.replace('""', '"').lower() or plain.lower()
        for quoted, plain in _NAME.findall(synchronous_standby_names)
    }
    return not names.isdisjoint({"*", application_name.lower()})
