"""One INSERT a row: by itself, prepared, or without waiting for each answer."""

from __future__ import annotations

from walproof.workload.loading.load_target import LoadTarget
from walproof.workload.loading.rows import Rows
from walproof.workload.loading.table import Session


def insert(session: Session, target: LoadTarget, rows: Rows, batch_rows: int | None) -> None:
    """A statement that is parsed again for each row; with ``batch_rows`` of 1 each row is committed by
    itself."""
    session.prepare_threshold = None
    _insert(session, target, rows, batch_rows)


def prepared_insert(session: Session, target: LoadTarget, rows: Rows, batch_rows: int | None) -> None:
    """As ``insert``, but parsed once."""
    session.prepare_threshold = 0
    _insert(session, target, rows, batch_rows)


def pipeline(session: Session, target: LoadTarget, rows: Rows, batch_rows: int | None) -> None:
    """A prepared statement; the answers of a batch are read when all of it is on its way (libpq 14)."""
    session.prepare_threshold = 0
    statement = target.insert()
    for batch in rows.batches(batch_rows):
        with session.pipeline(), session.transaction():
            for row in batch:
                session.execute(statement, row)


def executemany(session: Session, target: LoadTarget, rows: Rows, batch_rows: int | None) -> None:
    """What the driver makes of many rows: psycopg sends them as a pipeline."""
    statement = target.insert()
    with session.cursor() as cursor:
        for batch in rows.batches(batch_rows):
            with session.transaction():
                cursor.executemany(statement, batch)


def _insert(session: Session, target: LoadTarget, rows: Rows, batch_rows: int | None) -> None:
    statement = target.insert()
    if batch_rows == 1:
        for row in rows:
            session.execute(statement, row)
        return
    for batch in rows.batches(batch_rows):
        with session.transaction():
            for row in batch:
                session.execute(statement, row)
