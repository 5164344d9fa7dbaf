"""Questions to a foreign server. Each may be refused without harm to the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg import sql
from psycopg.rows import TupleRow

from walproof.errors import ProbeError
from walproof.probe.connection import one_line

_TOO_LATE = ("57", "08")
"""Classes of SQLSTATE after which the session is over (manual, appendix A)."""


class Asking:
    """A session, and what the server refused it."""

    def __init__(self, session: psycopg.Connection[TupleRow]) -> None:
        self.session = session
        self.major = session.info.server_version // 10000
        self._lacks: dict[str, str] = {}

    @property
    def lacks(self) -> tuple[str, ...]:
        """What could not be read, with the server's reason; each is listed once."""
        return tuple(f"{about}: {reason}" for about, reason in self._lacks.items())

    def rows(self, about: str, query: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Rows of a query; none if it is refused, which is noted. Raises ProbeError when the server is
        gone."""
        try:
            return self.session.execute(sql.SQL(query), values or None).fetchall()
        except psycopg.Error as error:
            state = error.sqlstate or ""
            if self.session.closed or (state.startswith(_TOO_LATE) and state != "57014"):
                raise ProbeError("the server ended the session", detail=one_line(error)) from error
            self._lacks.setdefault(about, one_line(error))
            return []

    def value(self, about: str, query: str) -> Any:
        """The first column of the only row; None if the query is refused."""
        found = self.rows(about, query)
        return found[0][0] if found else None

    def named(self, about: str, query: str) -> dict[str, float]:
        """The only row as name -> number, without nulls."""
        try:
            cursor = self.session.execute(query.encode())
            row = cursor.fetchone()
            names = [column.name for column in cursor.description or ()]
        except psycopg.Error as error:
            if self.session.closed:
                raise ProbeError("the server ended the session", detail=one_line(error)) from error
            self._lacks.setdefault(about, one_line(error))
            return {}
        return {
            name: float(value) for name, value in zip(names, row or (), strict=False) if value is not None
        }
