"""When an outage began, if the session learns of it late."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from io import BytesIO

import pytest

from tests.watching import Server
from walproof.errors import ProbeError
from walproof.facts.watch import NoAnswer, WatchLook
from walproof.observe import watcher
from walproof.observe.watcher import Watcher

_SILENT_S = 0.5


class _Looker:
    """One answer, then a network that is cut, which the kernel notices late."""

    def __init__(self, _: object) -> None:
        self._has_answered = False

    def look(self) -> WatchLook:
        if self._has_answered:
            time.sleep(_SILENT_S)
            raise ProbeError("Connection timed out")
        self._has_answered = True
        return replace(Server().look(0), seen_s=time.monotonic())


@contextmanager
def _watched(monkeypatch: pytest.MonkeyPatch) -> Iterator[Watcher]:
    monkeypatch.setattr(watcher, "connect_foreign", lambda _: BytesIO())
    monkeypatch.setattr(watcher, "Looker", _Looker)
    with Watcher("host=elsewhere", 0.01) as made:
        yield made


def test_an_outage_begins_after_the_last_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    with _watched(monkeypatch) as watched:
        (look,) = watched.take(5.0)
        answered = time.time()
        assert isinstance(look, WatchLook)
        (gone,) = watched.take(5.0)
    assert isinstance(gone, NoAnswer)
    assert gone.since == pytest.approx(answered, abs=0.2)
    assert time.time() - gone.since >= _SILENT_S
