"""What a replay does with a session or a strace that lets it down."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

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


@pytest.mark.parametrize(
    ("does", "first", "has_ended"),
    [
        ("print('attached', file=sys.stderr, flush=True); time.sleep(600)", "attached\n", True),
        ("", "", True),
        ("signal.signal(signal.SIGINT, signal.SIG_IGN); time.sleep(600)", "", False),
    ],
    ids=["attaches", "ends at once", "hangs"],
)
def test_a_strace_that_hangs_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, does: str, first: str, has_ended: bool
) -> None:
    monkeypatch.setattr(run, "_STRACE_PATIENCE_S", 60.0 if has_ended else 1.0)
    # Where the tests themselves run in the background, SIGINT is ignored.
    heeds = "import signal, sys, time; signal.signal(signal.SIGINT, signal.default_int_handler)"
    words: list[Any] = [sys.executable, "-c", f"{heeds}; {does}"]
    tracer = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    try:
        assert run._first_line(tracer) == first
        assert run._end(tracer) is has_ended
        assert tracer.returncode is not None
    finally:
        tracer.kill()
        tracer.wait()
