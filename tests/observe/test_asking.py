"""Questions that a role may not ask are asked once, or not at all: each refusal is an ERROR in a log."""

from __future__ import annotations

from decimal import Decimal
from types import SimpleNamespace
from typing import Any, cast

import psycopg
from psycopg import errors

from walproof.observe.asking import Asking, count_in, number_in, text_in


class _Server:
    """A session of a role that may read nothing but what everybody may."""

    closed = False
    info = SimpleNamespace(server_version=180004)

    def __init__(self, *, may_call: bool) -> None:
        self.may_call = may_call
        self.refusals: list[str] = []

    def execute(self, query: Any, values: object = None) -> Any:
        text = query.decode() if isinstance(query, bytes) else query.as_string(None)
        if "has_function_privilege" in text:
            return SimpleNamespace(fetchall=lambda: [(self.may_call,)])
        if "pg_ls_" in text and self.may_call:
            return SimpleNamespace(fetchall=lambda: [(7,)])
        self.refusals.append(text)
        raise errors.InsufficientPrivilege("permission denied for view secret")


def _asking(server: _Server) -> Asking:
    return Asking(cast("psycopg.Connection[Any]", server))


def test_a_function_that_the_role_may_not_call_is_never_called() -> None:
    server = _Server(may_call=False)
    ask = _asking(server)
    for _ in range(3):
        assert ask.value("the size of pg_wal", "SELECT sum(size) FROM pg_ls_waldir()", "pg_ls_waldir") is None
    assert server.refusals == []
    assert ask.lacks == ("the size of pg_wal: permission denied for function pg_ls_waldir",)
    allowed = _asking(_Server(may_call=True))
    assert allowed.value("the size of pg_wal", "SELECT sum(size) FROM pg_ls_waldir()", "pg_ls_waldir") == 7
    assert allowed.lacks == ()


def test_what_was_refused_once_is_not_asked_again() -> None:
    server = _Server(may_call=False)
    ask = _asking(server)
    for _ in range(3):
        assert ask.rows("secrets", "SELECT * FROM secret") == []
        assert ask.named("numbers", "SELECT * FROM secret") == {}
    assert len(server.refusals) == 2
    assert len(ask.lacks) == 2


def test_null_stays_none_and_everything_else_has_its_type() -> None:
    assert (text_in(None), number_in(None), count_in(None)) == (None, None, None)
    assert (text_in("a"), number_in(Decimal("1.5")), count_in(Decimal(7))) == ("a", 1.5, 7)
    assert (text_in(""), number_in(0), count_in(0)) == ("", 0.0, 0)
