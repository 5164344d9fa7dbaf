"""``walproof wal capture`` and the signals that end it; recordings themselves are in tests/lab."""

from __future__ import annotations

import signal
import threading
from typing import Any

import pytest

from walproof.cli.capture import _end_on_signals


def test_a_signal_that_was_ignored_ends_no_recording(monkeypatch: pytest.MonkeyPatch) -> None:
    """nohup ignores SIGHUP, and a script's shell SIGINT of what it starts in the background."""
    handlers: dict[int, Any] = {
        signal.SIGINT: signal.SIG_IGN, signal.SIGTERM: signal.SIG_DFL, signal.SIGHUP: signal.SIG_IGN,
    }  # fmt: skip
    monkeypatch.setattr(signal, "getsignal", handlers.__getitem__)
    monkeypatch.setattr(signal, "signal", handlers.__setitem__)
    asked = threading.Event()
    _end_on_signals(asked)
    assert handlers[signal.SIGINT] is handlers[signal.SIGHUP] is signal.SIG_IGN
    assert not asked.is_set()
    handlers[signal.SIGTERM](signal.SIGTERM, None)
    assert asked.is_set()
