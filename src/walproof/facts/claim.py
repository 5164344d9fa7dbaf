"""Who carries out a run: one process at a time, also where several machines share a store.

A claim ends with the process that holds it, however that ends: an advisory lock of a session in PostgreSQL, a
locked file beside an SQLite store. Whether there is one is looked up in pg_locks and in /proc/locks: whoever
took it to see would for that moment hold it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from walproof.errors import StoreError
from walproof.facts.place import StorePlace
from walproof.files import locked_file

SESSION: Mapping[str, str] = {
    # A session that waits while trials run is not idle.
    "idle_session_timeout": "0",
    # One whose machine lost its power or its network is given up after two minutes. The kernel's default is
    # two hours: the same command would begin a new run meanwhile, as if the run went on.
    "tcp_keepalives_idle": "60",
    "tcp_keepalives_interval": "10",
    "tcp_keepalives_count": "6",
    "tcp_user_timeout": "120000",
}
"""Settings of a session that holds a claim, as far as its server knows them."""
_SET = (
    "SELECT set_config(wanted.name, wanted.value, false) FROM (VALUES "
    + ", ".join(f"('{name}', '{value}')" for name, value in SESSION.items())
    + ") AS wanted (name, value) JOIN pg_settings USING (name)"
)


@contextmanager
def claim(engine: sa.Engine, place: StorePlace, run_id: str) -> Iterator[bool]:
    """Claim the run while the block lasts; false if another process has it.

    Raises StoreError.
    """
    with _in_database(engine, place, run_id) if place.path is None else _by_file(place, run_id) as is_ours:
        yield is_ours


def claimed(engine: sa.Engine, place: StorePlace, run_ids: Iterable[str]) -> frozenset[str]:
    """Which of the runs some process carries out now; beside an SQLite store, one of this machine.

    Raises StoreError.
    """
    if place.path is None:
        with place.guarded("read"), engine.connect() as connection:
            held = {int(key) for (key,) in connection.exec_driver_sql(_HELD)}
        return frozenset(run_id for run_id in run_ids if _key(run_id) in held)
    locked = _locked_inodes()
    return frozenset(run_id for run_id in run_ids if _inode(_lock_file(place.path, run_id)) in locked)


# A lock by one 64-bit key: its halves, of the same database.
_HELD = """
    SELECT (classid::bigint << 32) | objid::bigint FROM pg_locks
     WHERE locktype = 'advisory' AND objsubid = 1 AND granted
       AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"""


def _locked_inodes() -> set[int]:
    """Inodes of files that a process has locked by flock for itself alone: proc(5), /proc/locks."""
    found: set[int] = set()
    try:
        lines = Path("/proc/locks").read_text(encoding="ascii").splitlines()
    except OSError:
        return found
    for line in lines:
        # 1: FLOCK  ADVISORY  WRITE 2310 fe:01:1831 0 EOF; "->" stands before one that waits.
        parts = line.split()
        if parts[1:4] == ["FLOCK", "ADVISORY", "WRITE"] and len(parts) > 5:
            found.add(int(parts[5].rpartition(":")[2]))
    return found


def _inode(file: Path) -> int | None:
    try:
        return file.stat().st_ino
    except OSError:
        return None


def _lock_file(store: Path, run_id: str) -> Path:
    store = store.resolve()  # one lock, by whichever link the store was named
    return store.with_name(f".{store.name}.{run_id}.lock")


def _key(run_id: str) -> int:
    return int.from_bytes(hashlib.sha256(f"walproof run {run_id}".encode()).digest()[:8], signed=True)


@contextmanager
def _in_database(engine: sa.Engine, place: StorePlace, run_id: str) -> Iterator[bool]:
    key = _key(run_id)
    is_ours = False
    with place.guarded("opened"):
        connection = engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        # Of its own: in the pool it would keep the lock.
        connection.detach()
    try:
        with place.guarded("read"):
            connection.exec_driver_sql(_SET)
            is_ours = bool(connection.scalar(sa.select(sa.func.pg_try_advisory_lock(key))))
        yield is_ours
    finally:
        # The server ends the session, and with it the lock, only some time after its client is gone. Where
        # the session is lost, the lock is.
        with suppress(DBAPIError):
            if is_ours:
                connection.scalar(sa.select(sa.func.pg_advisory_unlock(key)))
        connection.close()


@contextmanager
def _by_file(place: StorePlace, run_id: str) -> Iterator[bool]:
    assert place.path is not None
    with ExitStack() as stack:
        try:
            is_ours = stack.enter_context(locked_file(_lock_file(place.path, run_id)))
        except OSError as error:
            raise StoreError(f"store {place.shown} cannot be written", detail=error.strerror) from error
        yield is_ours
