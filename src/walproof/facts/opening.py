"""A store's database when it is opened: what makes its tables, and what only reads them.

Who only reads makes no store, whatever database was named. Who writes makes tables where walproof's own are
missing, but not among those of another program: names like ``run`` and ``metric`` are not ours alone. The
tables that a store of an earlier walproof lacks are added by whoever opens it first.
"""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.exc import OperationalError

from walproof.errors import StoreError, StoreMissingError
from walproof.facts.place import PATIENCE_S, StorePlace, find_place, make_file, open_engine, require_there
from walproof.facts.tables import (
    FORMAT,
    METADATA,
    POWER_CUT,
    REQUEST_ANSWER,
    SLICE,
    STORE_FORMAT,
    TRIAL_BEGIN,
    in_one_transaction,
)

_NEWEST = (POWER_CUT, SLICE, REQUEST_ANSWER, TRIAL_BEGIN)
"""Tables that a store of an earlier walproof may lack."""
_OF_EARLIER = (
    "It is of an earlier walproof and lacks tables: copy it to a folder that you can write, or open it once "
    "as a role that may make tables."
)


def open_database(url: str | Path, *, must_exist: bool) -> tuple[StorePlace, sa.Engine]:
    """Open the database of a store, and make what is missing unless it ``must_exist``.

    Raises StoreError, and StoreMissingError where there is no store.
    """
    place = find_place(url)
    if must_exist:
        require_there(place)
    else:
        make_file(place)
    engine = open_engine(place)
    try:
        with place.guarded("opened"):
            _prepare(engine, place, must_exist)
    except BaseException:
        engine.dispose()
        raise
    return place, engine


def _prepare(engine: sa.Engine, place: StorePlace, must_exist: bool) -> None:
    names = set(sa.inspect(engine).get_table_names())
    if FORMAT.name in names:
        # Before anything is changed: a store of another format stays as it is.
        _check_format(engine, place)
    elif must_exist:
        raise StoreMissingError(
            f"{place.shown} is not a store of walproof", hint="--out or --store names it."
        )
    else:
        # A file is one program's; in a database of a server ours may stand beside others.
        theirs = names if place.path is not None else names & METADATA.tables.keys()
        if theirs:
            raise StoreError(
                f"{place.shown} holds tables of another program: {', '.join(sorted(theirs)[:8])}",
                hint="--store names another file or database; walproof makes its tables there.",
            )
    if place.path is not None and not must_exist:
        _journal_in_wal(engine)
    if FORMAT.name not in names:
        _create_tables(engine)
    elif not names.issuperset(table.name for table in _NEWEST):
        with place.guarded("brought up to date", _OF_EARLIER):
            _create_tables(engine)


def _create_tables(engine: sa.Engine) -> None:
    """Make all tables in one transaction that a second process, opening the same store, waits for."""
    with in_one_transaction(engine) as connection:
        is_new = not sa.inspect(connection).has_table(FORMAT.name)
        METADATA.create_all(connection)
        if is_new:
            connection.execute(FORMAT.insert().values(format=STORE_FORMAT))


def _check_format(engine: sa.Engine, place: StorePlace) -> None:
    with engine.connect() as connection:
        stored = connection.scalar(sa.select(FORMAT.c.format))
    if stored != STORE_FORMAT:
        raise StoreError(
            f"store {place.shown} has format {stored}, expected {STORE_FORMAT}",
            hint='"walproof store upgrade" converts it, and keeps the old store.'
            if stored is not None and stored < STORE_FORMAT
            else "It was written by a newer version of walproof; name another store.",
        )


def _journal_in_wal(engine: sa.Engine) -> None:
    """Let readers not block the writer; the file keeps this mode.

    Where two processes open a new file, SQLite refuses one of them at once, whatever busy_timeout says:
    each would wait for the other's lock (https://sqlite.org/c3ref/busy_handler.html). So it asks again.
    """
    until = time.monotonic() + PATIENCE_S
    with engine.connect() as connection:
        while True:
            try:
                connection.exec_driver_sql("PRAGMA journal_mode=WAL")
            except OperationalError as error:
                is_busy = getattr(error.orig, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY
                if not is_busy or time.monotonic() > until:
                    raise
                time.sleep(0.01)
            else:
                return
