"""Where a store is, and how its database is opened: an SQLite file, or a PostgreSQL that a team shares.

libpq alone reads the address of a PostgreSQL, with what it means there (service files, ~/.pgpass, the
environment); what is shown of it is what `walproof.settings.conninfo` lets through.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError, OperationalError, SQLAlchemyError

from walproof.errors import ConninfoError, StoreAwayError, StoreError, StoreMissingError, first_line
from walproof.files import existing_above, make_private, private_folder
from walproof.settings.conninfo import concealed, parse, seems_conninfo, shown, shown_parts

_POSTGRESQL = re.compile(r"postgres(?:ql)?(?:\+psycopg)?://")
_READ_ONLY = "25006"
"""Class of the error of a server that was a primary until a failover: its successor is yet to be reached."""
PATIENCE_S = 10
"""How long one waits for another process that writes."""
_NETWORK = {
    "connect_timeout": "10",
    "keepalives_idle": "60",
    "keepalives_interval": "10",
    "keepalives_count": "6",
    "tcp_user_timeout": "120000",
}
"""Parameters of libpq where neither the address of a server, nor the environment or a service file gives
any. A server that is off does not even refuse. One that lost its power or its network later is given up after
two minutes, as it gives up a claim: by itself the kernel waits 15 minutes for what is not acknowledged, and
two hours for an answer."""
_HINT = 'Use the path of an SQLite file, or postgresql://me@host/db, or "postgresql:///?service=facts".'
_WRITABLE = "Is the folder writable and the server up? --out and --store name another place."


@dataclass(frozen=True, slots=True)
class StorePlace:
    """Where a store is."""

    shown: str
    """Name of the store in messages, without secrets."""
    path: Path | None
    """The SQLite file."""
    conninfo: str
    """Address of a PostgreSQL, for libpq; it may hold a password."""

    @contextmanager
    def guarded(self, verb: str, hint: str = _WRITABLE) -> Iterator[None]:
        """Turn what the database says into a StoreError without secrets."""
        try:
            yield
        except SQLAlchemyError as error:
            cause = getattr(error, "orig", None) or error
            if isinstance(error, IntegrityError):
                hint = (
                    "Another walproof has written the same rows: has this one lost its claim? --new begins "
                    "a run."
                )
            is_read_only = getattr(cause, "sqlstate", None) == _READ_ONLY
            is_away = self.path is None and (isinstance(error, OperationalError) or is_read_only)
            raise (StoreAwayError if is_away else StoreError)(
                f"store {self.shown} cannot be {verb}",
                detail=concealed(first_line(cause), self.conninfo),
                hint=hint,
            ) from None


def find_place(url: str | Path) -> StorePlace:
    """What ``--store`` says; nothing is made. Raises StoreError without any part of a secret."""
    conninfo, file = _read(str(url))
    if conninfo:
        return StorePlace(f"postgresql ({shown(conninfo)})", None, conninfo)
    path = Path(file).absolute()
    return StorePlace(str(path), path, "")


def make_file(place: StorePlace) -> None:
    """Make the SQLite file, empty, and its folder, where they are missing. Raises StoreError."""
    if place.path is None:
        return
    try:
        private_folder(place.path.parent)
        if not place.path.exists():
            make_private(place.path)
    except OSError as error:
        raise StoreError(
            f'could not create store "{place.path}": {error.strerror}',
            hint="Name a folder that you can write with --out.",
        ) from error


def require_there(place: StorePlace) -> None:
    """Refuse an SQLite file that does not exist; a server is not asked. Raises StoreMissingError, and
    StoreError where nobody may look for it."""
    try:
        if place.path is not None:
            place.path.stat()
    except (FileNotFoundError, NotADirectoryError):
        raise StoreMissingError(
            f'there is no store "{place.path}"',
            hint='"walproof run durability --quick" makes some results; --store names another place.',
        ) from None
    except OSError as error:
        raise StoreError(
            f'store "{place.path}" cannot be opened: {error.strerror}',
            hint="--out and --store name another place.",
        ) from error


def require_writable(url: str | Path) -> None:
    """Refuse a file that could not be made or written, without making it. A server is not asked. Raises
    StoreError."""
    conninfo, file = _read(str(url))
    if conninfo:
        return
    path = Path(file).absolute()
    try:
        reason = _unwritable(path, existing_above(path))
    except OSError as error:
        reason = str(error.strerror)
    if reason is not None:
        raise StoreError(
            f'no results could be kept in "{path}": {reason}',
            hint="Name a folder that you can write with --out, or another store with --store.",
        )


def _unwritable(path: Path, there: Path) -> str | None:
    """Why the file cannot be made or written; ``there`` is what exists of its path."""
    if there == path and path.is_dir():
        return "it is a folder"
    if there != path and not there.is_dir():
        return f'"{there}" is not a folder'
    return None if os.access(there, os.W_OK) else f'"{there}" cannot be written'


def repeatable(url: str) -> str:
    """``--store`` for a command that is printed and kept: what may be secret in an address is left out.

    libpq then looks for a password in its environment and files. Raises StoreError as `find_place`.
    """
    conninfo, _ = _read(url)
    if not conninfo:
        return url
    parts = shown_parts(conninfo)
    if parts == parse(conninfo):
        return conninfo
    pairs = "&".join(f"{name}={quote(value, safe='/,')}" for name, value in parts.items())
    return f"postgresql:///?{pairs}" if pairs else "postgresql://"


def _read(text: str) -> tuple[str, str]:
    """(address of a PostgreSQL, path of a file), one of which is empty. Raises StoreError."""
    if (scheme := _POSTGRESQL.match(text)) is not None:
        conninfo = f"postgresql://{text[scheme.end() :]}"
        try:
            parse(conninfo)
        except ConninfoError as error:
            raise StoreError(f"invalid store: {error.message}", hint=error.hint) from None
        return conninfo, ""
    file = text.removeprefix("sqlite:///")
    if file == text and ("://" in text or seems_conninfo(text)):
        # It is not repeated: it may hold a password.
        raise StoreError("--store names no file and no postgresql:// URL", hint=_HINT)
    return "", file


def sqlite_url(path: Path | str) -> sa.URL:
    """SQLAlchemy's URL of an SQLite file, in which no character of the path has a meaning of its own."""
    return sa.URL.create("sqlite", database=str(path))


def open_engine(place: StorePlace) -> sa.Engine:
    """SQLAlchemy's engine for it."""
    if place.path is not None:
        # Never made here: a reader must not leave an empty file where a name was mistyped.
        file = f"file:{quote(str(place.path))}"
        query = {"uri": "true", **_mode(place.path)}
        engine = sa.create_engine(sa.URL.create("sqlite", database=file, query=query))
        sa.event.listen(engine, "connect", _prepare_sqlite)
        return engine
    # A server that was away and is back has closed the connections that are kept.
    engine = sa.create_engine("postgresql+psycopg://", pool_pre_ping=True)

    @sa.event.listens_for(engine, "do_connect")
    def _by_libpq(dialect: Any, _record: Any, words: list[Any], named: dict[str, Any]) -> None:
        given = _given(dialect.loaded_dbapi, place.conninfo)
        words[:] = [place.conninfo]
        named.update({name: value for name, value in _NETWORK.items() if name not in given})

    return engine


def _given(psycopg: Any, conninfo: str) -> set[str]:
    """Parameters that the address, the environment or a service file gives. libpq tells it of a connection
    only (PQconninfo), so one is begun, to a socket that cannot exist."""
    nowhere = psycopg.conninfo.make_conninfo(conninfo, host="/dev/null", hostaddr="")
    begun = psycopg.pq.PGconn.connect_start(nowhere.encode())
    try:
        return {option.keyword.decode() for option in begun.info if option.val}
    finally:
        begun.finish()


def _mode(path: Path) -> dict[str, str]:
    """How SQLite opens the file (https://sqlite.org/uri.html).

    Beside a file in WAL mode SQLite makes two others, which a disk that is read only refuses. Such a file is
    read as it is, unless it has a WAL: without that, trials would be missing.
    """
    path = path.resolve()  # SQLite follows links, and keeps its files beside the database itself
    if os.access(path.parent, os.W_OK) or path.with_name(f"{path.name}-wal").exists():
        return {"mode": "rw"}
    return {"mode": "ro", "immutable": "1"}


def _prepare_sqlite(connection: Any, _record: object) -> None:
    # FULL: a stored trial survives a power cut.
    for pragma in (f"busy_timeout={1000 * PATIENCE_S}", "synchronous=FULL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}")
