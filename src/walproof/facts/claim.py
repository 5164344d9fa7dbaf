"""Who carries out a run: one process at a time, also where several machines share a store.

A claim ends with the process that holds it, however that ends: an advisory lock of a session in PostgreSQL, a
locked file beside an SQLite store.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy as sa

from walproof.errors import StoreError
from walproof.facts.place import Place
from walproof.files import PRIVATE_FILE

# A session that waits while trials run is not idle.
_STAY = "SELECT set_config(name, '0', false) FROM pg_settings WHERE name = 'idle_session_timeout'"


@contextmanager
def claim(engine: sa.Engine, place: Place, run_id: str) -> Iterator[bool]:
    """Whether the run is ours for as long as this holds; false where another process has it.

    Raises StoreError.
    """
    with _in_database(engine, place, run_id) if place.path is None else _by_file(place, run_id) as is_ours:
        yield is_ours


@contextmanager
def _in_database(engine: sa.Engine, place: Place, run_id: str) -> Iterator[bool]:
    key = int.from_bytes(hashlib.sha256(f"walproof run {run_id}".encode()).digest()[:8], signed=True)
    with place.guarded("opened"):
        connection = engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        # Of its own: in the pool it would keep the lock.
        connection.detach()
    try:
        with place.guarded("read"):
            connection.exec_driver_sql(_STAY)
            is_ours = connection.scalar(sa.select(sa.func.pg_try_advisory_lock(key)))
        yield bool(is_ours)
    finally:
        connection.close()


@contextmanager
def _by_file(place: Place, run_id: str) -> Iterator[bool]:
    assert place.path is not None
    path = place.path.with_name(f".{place.path.name}.{run_id}.lock")
    try:
        lock = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, PRIVATE_FILE)
    except OSError as error:
        raise StoreError(f"store {place.shown} cannot be written", detail=error.strerror) from error
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Whoever had it before may have removed the file meanwhile.
            is_ours = os.path.samestat(os.fstat(lock), path.stat())
        except (BlockingIOError, FileNotFoundError):
            is_ours = False
        try:
            yield is_ours
        finally:
            if is_ours:
                path.unlink(missing_ok=True)
    finally:
        os.close(lock)
