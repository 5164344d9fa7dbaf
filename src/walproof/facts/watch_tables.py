"""The tables of a history of watched servers, and how its file is opened.

The file is SQLite, which one process writes while any number read. A record is compressed JSON; what records
are chosen by has columns.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from walproof.errors import StoreError, first_line
from walproof.facts.codec import from_json, to_json
from walproof.facts.place import sqlite_url
from walproof.facts.watch import WatchRecord

HISTORY_FORMAT = 2
_BODY_MOST = 16 << 20
"""Longest record read: records have some kilobytes, but a stranger's file may hold anything."""

METADATA = sa.MetaData()

FORMAT = sa.Table("watch_format", METADATA, sa.Column("format", sa.Integer, primary_key=True))
SESSION = sa.Table(
    "watch_session",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("began_at", sa.Double, nullable=False),
    sa.Column("every_s", sa.Double, nullable=False),
    sa.Column("walproof_version", sa.Text, nullable=False),
)
SERVER = sa.Table(
    "watch_server",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("name", sa.Text, nullable=False, unique=True),
)
RECORD = sa.Table(
    "watch_record",
    METADATA,
    sa.Column("number", sa.Integer, primary_key=True),
    sa.Column("server_id", sa.ForeignKey("watch_server.id"), nullable=False),
    sa.Column("session", sa.ForeignKey("watch_session.id"), nullable=False),
    sa.Column("at", sa.Double, nullable=False),
    sa.Column("tier", sa.Integer, nullable=False),
    sa.Column("is_gone", sa.Boolean, nullable=False),
    sa.Column("severity", sa.Integer, nullable=False),
    sa.Column("crash_s", sa.Double),
    sa.Column("body", sa.LargeBinary, nullable=False),
    sa.Index("watch_record_at", "server_id", "at"),
    sqlite_autoincrement=True,
)
"""``tier``: how far it has been thinned; the rest is from the record."""


def pack(record: WatchRecord) -> bytes:
    """The body of a record."""
    return zlib.compress(to_json(record).encode())


def unpack(body: bytes) -> WatchRecord:
    """Read a record. Raises StoreError if it is none."""
    unzip = zlib.decompressobj()
    try:
        text = unzip.decompress(body, _BODY_MOST).decode()
    except (zlib.error, UnicodeDecodeError) as error:
        raise StoreError("a record of the history cannot be read", detail=str(error)) from error
    if unzip.unconsumed_tail:
        raise StoreError("a record of the history is longer than any that walproof writes")
    return from_json(WatchRecord, text)


def writing_engine(path: Path) -> sa.Engine:
    """Open an existing file, empty or a history."""
    engine = sa.create_engine(sqlite_url(path))

    @sa.event.listens_for(engine, "connect")
    def _prepare(connection: Any, _record: object) -> None:
        # A power cut may take the last seconds, never the file: NORMAL is enough for that in WAL mode.
        for pragma in (
            "busy_timeout=2000", "auto_vacuum=INCREMENTAL", "journal_mode=WAL", "synchronous=NORMAL",
            "journal_size_limit=1048576", "foreign_keys=ON",
        ):  # fmt: skip
            connection.execute(f"PRAGMA {pragma}")

    return engine


def reading_engine(path: Path) -> sa.Engine:
    """Open a file in a place that may not be writable."""
    # SQLite's own URI: https://sqlite.org/uri.html.
    file = sqlite_url(f"file:{quote(str(path))}").update_query_dict({"uri": "true"})
    engine = sa.create_engine(file.update_query_dict({"mode": "ro"}))
    try:
        with engine.connect() as connection:
            connection.execute(sa.select(sa.literal(1)))
            connection.exec_driver_sql("SELECT count(*) FROM sqlite_master")
    except SQLAlchemyError:
        # In WAL mode readers, too, need a file beside it, unless nobody is going to write.
        engine.dispose()
        engine = sa.create_engine(file.update_query_dict({"immutable": "1"}))
    return engine


@contextmanager
def guarded(path: Path, verb: str) -> Iterator[None]:
    """Turn what SQLite says into a StoreError."""
    try:
        yield
    except SQLAlchemyError as error:
        cause = getattr(error, "orig", None) or error
        raise StoreError(
            f'history "{path}" cannot be {verb}',
            detail=first_line(cause),
            hint="Is it a file that walproof watch --history wrote, and is there room on its disk?",
        ) from error


def check_format(connection: sa.Connection, path: Path) -> None:
    """Raise StoreError if it is not a history, or one of another walproof."""
    if not sa.inspect(connection).has_table(FORMAT.name):
        raise StoreError(f'"{path}" is not a history', hint="walproof watch --history FILE writes one.")
    stored = connection.scalar(sa.select(FORMAT.c.format))
    if stored != HISTORY_FORMAT:
        raise StoreError(
            f'history "{path}" has format {stored}, expected {HISTORY_FORMAT}',
            hint="It was written by another version of walproof; use that one, or name another file.",
        )
