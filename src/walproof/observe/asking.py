"""Questions to a foreign server. Each may be refused without harm to the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg import sql
from psycopg.rows import TupleRow

from walproof.errors import ProbeError, one_line

_TOO_LATE = ("57", "08")
"""Classes of SQLSTATE after which the session is over (manual, appendix A)."""
_FINAL = ("42501", "0A000", "55000")
"""A right is missing, the server has no such function, or it does not fit the server's state: Aurora refuses
functions about WAL below wal_level = logical, and some of them on readers. Only a restart changes that."""
_MAY_CALL = "SELECT has_function_privilege(%s::text, 'EXECUTE')"


class Asking:
    """A session, and what the server refused it."""

    def __init__(self, session: psycopg.Connection[TupleRow]) -> None:
        self.session = session
        self.major = session.info.server_version // 10000
        self.count = 0
        """Queries so far: each is a transaction that the server counts."""
        self._lacks: dict[str, str] = {}
        self._refused: set[str] = set()
        """What the server will refuse again: it is not asked for any more, since each refusal is an ERROR in
        the server's log."""
        self._allowed: dict[str, bool] = {}

    @property
    def lacks(self) -> tuple[str, ...]:
        """What could not be read, with the server's reason; each is listed once."""
        return tuple(f"{about}: {reason}" for about, reason in self._lacks.items())

    def rows(self, about: str, query: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Rows of a query; none if it is refused, which is noted. Raises ProbeError when the server is
        gone."""
        if about in self._refused:
            return []
        self.count += 1
        try:
            return self.session.execute(sql.SQL(query), values or None).fetchall()
        except psycopg.Error as error:
            state = error.sqlstate or ""
            if self.session.closed or (state.startswith(_TOO_LATE) and state != "57014"):
                raise ProbeError("the server ended the session", detail=one_line(error)) from error
            self._note(about, error)
            return []

    def is_refused(self, about: str) -> bool:
        """Whether the server has refused something for good."""
        return about in self._refused

    def lack(self, about: str, reason: str) -> None:
        """Note what the server withheld without an error."""
        self._lacks.setdefault(about, reason)

    def _note(self, about: str, error: psycopg.Error) -> None:
        self._lacks.setdefault(about, one_line(error))
        if error.sqlstate in _FINAL:
            self._refused.add(about)

    def _may_call(self, about: str, function: str) -> bool:
        """Whether the role may call a function, asked without an error; what it may not is noted."""
        if function not in self._allowed:
            # A question that fails leaves the answer to the call itself.
            rows = self.rows(f"the right to call {function}", _MAY_CALL, [f"{function}()"])
            self._allowed[function] = not rows or rows[0][0] is not False
        if not self._allowed[function]:
            self._lacks.setdefault(about, f"permission denied for function {function}")
        return self._allowed[function]

    def row(self, about: str, query: str, calls: str | None = None) -> tuple[Any, ...]:
        """The only row; empty if the query is refused. ``calls`` as in `value`."""
        if calls is not None and not self._may_call(about, calls):
            return ()
        found = self.rows(about, query)
        return found[0] if found else ()

    def value(self, about: str, query: str, calls: str | None = None) -> Any:
        """The first column of the only row; None if the query is refused.

        ``calls``: a function without arguments that not every role may call."""
        found = self.row(about, query, calls)
        return found[0] if found else None

    def named(self, about: str, query: str) -> dict[str, float]:
        """The only row as name -> number, without nulls."""
        if about in self._refused:
            return {}
        try:
            cursor = self.session.execute(query.encode())
            row = cursor.fetchone()
            names = [column.name for column in cursor.description or ()]
        except psycopg.Error as error:
            if self.session.closed:
                raise ProbeError("the server ended the session", detail=one_line(error)) from error
            self._note(about, error)
            return {}
        return {
            name: float(value) for name, value in zip(names, row or (), strict=False) if value is not None
        }


def text_in(value: Any) -> str | None:
    """A text of an answer; None for NULL."""
    return None if value is None else str(value)


def number_in(value: Any) -> float | None:
    """A number of an answer; None for NULL."""
    return None if value is None else float(value)


def count_in(value: Any) -> int | None:
    """A whole number of an answer; None for NULL."""
    return None if value is None else int(value)
