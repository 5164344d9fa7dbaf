"""What a replay does with a session that lets it down."""

from __future__ import annotations

import psycopg
import pytest

from walproof.lab.kinds.replay import run


class Session:
    """A session whose server has just gone away."""

    is_closed = False

    def execute(self, _query: str) -> None:
        """Fail."""
        raise psycopg.OperationalError("server closed the connection")

    def close(self) -> None:
        """Note it."""
        self.is_closed = True


def test_a_session_that_failed_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session()
    monkeypatch.setattr(psycopg, "connect", lambda *_, **__: session)
    with run._Positions("") as positions:
        assert positions.replayed() is None
        assert session.is_closed
