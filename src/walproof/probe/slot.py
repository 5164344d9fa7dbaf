"""What a primary keeps for a slot, and whether it would wait for whoever streams from it."""

from __future__ import annotations

from dataclasses import dataclass

import psycopg
from psycopg.rows import TupleRow

from walproof.settings.synchronous import parse_standbys
from walproof.units import Lsn

_LOOK = """
    SELECT pg_current_wal_insert_lsn()::text, pg_current_wal_flush_lsn()::text,
           (SELECT max(restart_lsn)::text FROM pg_replication_slots
             WHERE slot_name = %s OR starts_with(slot_name::text, %s || '_')),
           current_setting('synchronous_standby_names'), current_setting('application_name')
    """


@dataclass(frozen=True, slots=True)
class SlotLook:
    """A primary at one moment, and one of its slots."""

    inserted: Lsn
    """End of its WAL."""
    flushed: Lsn
    """End of what a walsender may send."""
    confirmed: Lsn | None
    """Where the WAL that is kept for the slot begins; None if there is no slot of that name. While a session
    takes over from another, that of the slot that is further."""
    is_synchronous: bool
    """Whether commits may wait for a walsender with the session's application_name, or be released by it."""


def look_at_slot(session: psycopg.Connection[TupleRow], slot: str) -> SlotLook:
    """Ask a primary about a slot, or those of a `BurstStream` with that name. Raises psycopg.Error."""
    row = session.execute(_LOOK, [slot, slot]).fetchone()
    assert row is not None
    inserted, flushed, confirmed, names, application = row
    standbys = parse_standbys(names)
    return SlotLook(
        Lsn.parse(inserted),
        Lsn.parse(flushed),
        None if confirmed is None else Lsn.parse(confirmed),
        standbys is not None and standbys.match(application),
    )
