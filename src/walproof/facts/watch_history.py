"""Reads what `walproof watch --history` has kept.

    >>> with open_history("watch.sqlite") as history:  # doctest: +SKIP
    ...     for server in history.servers():
    ...         history.looks(server.name, server.last_at - 3600, server.last_at, at_most=500)

Times are seconds of the epoch by the observer's clock. Nothing is written, also while walproof watches.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa

from walproof.errors import StoreError
from walproof.facts.watch import WatchRecord
from walproof.facts.watch_tables import RECORD, SERVER, SESSION, check_format, guarded, reading_engine, unpack

_BATCH = 200


@dataclass(frozen=True, slots=True)
class HistoryServer:
    """A server of a history."""

    name: str
    """Its name on the page."""
    first_at: float
    last_at: float
    records: int
    severity: int
    """Of the last record; 2 where the server did not answer."""


class WatchHistory:
    """An open history. Context manager; every method raises StoreError where the file cannot be read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._engine = reading_engine(path)
        weakref.finalize(self, self._engine.dispose)
        with guarded(path, "read"), self._engine.connect() as connection:
            check_format(connection, path)

    def __enter__(self) -> WatchHistory:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release every connection."""
        self._engine.dispose()

    def servers(self) -> tuple[HistoryServer, ...]:
        """All servers with a record, in the order in which they were first watched."""
        spans = (
            sa.select(
                RECORD.c.server_id, sa.func.min(RECORD.c.at).label("first"),
                sa.func.max(RECORD.c.at).label("last"), sa.func.count().label("records"),
                sa.func.max(RECORD.c.number).label("newest"),
            )
            .group_by(RECORD.c.server_id)
            .subquery()
        )  # fmt: skip
        severity = sa.case((RECORD.c.is_gone, 2), else_=RECORD.c.severity)
        query = (
            sa.select(SERVER.c.name, spans.c.first, spans.c.last, spans.c.records, severity)
            .select_from(
                SERVER.join(spans, spans.c.server_id == SERVER.c.id).join(
                    RECORD, RECORD.c.number == spans.c.newest
                )
            )
            .order_by(SERVER.c.id)
        )
        with guarded(self.path, "read"), self._engine.connect() as connection:
            return tuple(HistoryServer(*row) for row in connection.execute(query))

    def every_s(self) -> float:
        """Seconds between two looks in the newest session; 2 where there is none."""
        query = sa.select(SESSION.c.every_s).order_by(SESSION.c.id.desc()).limit(1)
        with guarded(self.path, "read"), self._engine.connect() as connection:
            return connection.scalar(query) or 2.0

    def looks(
        self, server: str, since: float, until: float, *, at_most: int | None = None
    ) -> tuple[WatchRecord, ...]:
        """Records of a server with ``since <= at <= until``, in the order in which they were made.

        ``at_most``: the worst record of each of so many stretches of equal length, by severity and then by
        the forecast of recovery; outages stay. Raises StoreError: no such server, ``at_most`` below 1.
        """
        if at_most is not None and at_most < 1:
            raise StoreError(f"at most {at_most} records of a history were asked for, expected 1 or more")
        with guarded(self.path, "read"), self._engine.connect() as connection:
            number = connection.scalar(sa.select(SERVER.c.id).where(SERVER.c.name == server))
            if number is None:
                raise StoreError(f'the history has no server "{server}"', detail=self._known(connection))
            chosen = sa.and_(RECORD.c.server_id == number, RECORD.c.at.between(since, until))
            query = sa.select(RECORD.c.body).where(chosen)
            if at_most is not None:
                query = query.where(RECORD.c.number.in_(_worst(chosen, since, until, at_most)))
            return tuple(unpack(row.body) for row in connection.execute(query.order_by(RECORD.c.number)))

    def records(
        self, since: float | None = None, until: float | None = None
    ) -> Iterator[tuple[str, WatchRecord]]:
        """(server, record) of all servers, in the order in which they were made, some at a time."""
        after = 0
        while True:
            query = sa.select(RECORD.c.number, SERVER.c.name, RECORD.c.body).join(SERVER)
            query = query.where(RECORD.c.number > after)
            if since is not None:
                query = query.where(RECORD.c.at >= since)
            if until is not None:
                query = query.where(RECORD.c.at <= until)
            with guarded(self.path, "read"), self._engine.connect() as connection:
                rows = connection.execute(query.order_by(RECORD.c.number).limit(_BATCH)).all()
            for row in rows:
                yield row.name, unpack(row.body)
            if len(rows) < _BATCH:
                return
            after = rows[-1].number

    def _known(self, connection: sa.Connection) -> str:
        names = connection.scalars(sa.select(SERVER.c.name).order_by(SERVER.c.id)).all()
        return "It has " + (", ".join(f'"{name}"' for name in names) or "none") + "."


def open_history(path: str | Path) -> WatchHistory:
    """The history in a file. Raises StoreError: there is none, or it cannot be read."""
    found = Path(path).absolute()
    if not found.is_file():
        raise StoreError(
            f'history "{found}" does not exist', hint="walproof watch --history FILE writes one."
        )
    return WatchHistory(found)


def _worst(chosen: sa.ColumnElement[bool], since: float, until: float, at_most: int) -> sa.Select[tuple[int]]:
    """Numbers of one record a stretch. Without bounds that are finite nothing could be divided."""
    length = max(until - since, 1e-6) / at_most
    stretch = sa.func.min(sa.cast((RECORD.c.at - since) / length, sa.Integer), at_most - 1)
    place = sa.func.row_number().over(
        partition_by=stretch,
        order_by=(
            RECORD.c.severity.desc(), RECORD.c.crash_s.desc().nulls_last(), RECORD.c.number,
        ),
    )  # fmt: skip
    ranked = sa.select(RECORD.c.number, place.label("place")).where(chosen).subquery()
    return sa.select(ranked.c.number).where(ranked.c.place == 1)
