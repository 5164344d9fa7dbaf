"""A line of progress on terminals that can write over it, on those that cannot, and in a log."""

from __future__ import annotations

import io
import sys

import pytest

from walproof.cli.status_line import StatusLine


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def told(monkeypatch: pytest.MonkeyPatch, stderr: io.StringIO, term: str, *, in_logs: bool = False) -> str:
    """What stands on stderr after 25 s with a state each second, and a sentence."""
    monkeypatch.setattr(sys, "stderr", stderr)
    monkeypatch.setenv("TERM", term)
    now = [100.0]
    line = StatusLine(in_logs=in_logs, clock=lambda: now[0])
    for second in range(1, 26):
        now[0] += 1
        line.show(f"{second} s")
    line.say("The WAL is not recorded.")
    line.clear()
    return stderr.getvalue()


def test_a_terminal_has_one_line_that_is_written_over(monkeypatch: pytest.MonkeyPatch) -> None:
    said = told(monkeypatch, _Terminal(), "xterm")
    assert said.startswith("\r\x1b[K1 s\r\x1b[K2 s")
    assert said.endswith("\r\x1b[K25 s\r\x1b[KThe WAL is not recorded.\n\r\x1b[K")


@pytest.mark.parametrize("term", ["dumb", "unknown"])
def test_a_terminal_whose_cursor_stays_has_a_line_now_and_then(
    monkeypatch: pytest.MonkeyPatch, term: str
) -> None:
    """Each look left its codes there."""
    assert told(monkeypatch, _Terminal(), term) == "10 s\n20 s\nThe WAL is not recorded.\n"


def test_a_log_has_lines_only_where_they_are_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert told(monkeypatch, io.StringIO(), "xterm") == "The WAL is not recorded.\n"
    lines = told(monkeypatch, io.StringIO(), "xterm", in_logs=True)
    assert lines == "10 s\n20 s\nThe WAL is not recorded.\n"


def test_a_servers_reason_is_said_without_what_a_terminal_obeys(monkeypatch: pytest.MonkeyPatch) -> None:
    stderr = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stderr)
    StatusLine(in_logs=False).say("the WAL is not recorded: no\n\x1b]0;title\x07")
    assert stderr.getvalue() == "the WAL is not recorded: no ?]0;title?\n"
