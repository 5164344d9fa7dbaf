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


class _SlowLooker:
    """An answer to the first question of a look, and to the others later."""

    def __init__(self, _: object) -> None:
        self.answered_s: float | None = None

    def look(self) -> WatchLook:
        self.answered_s = time.monotonic()
        time.sleep(_SILENT_S)
        return replace(Server().look(0), seen_s=self.answered_s)


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


def test_a_look_that_is_under_way_is_known_to_be_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watcher, "connect_foreign", lambda _: BytesIO())
    monkeypatch.setattr(watcher, "Looker", _SlowLooker)
    made = Watcher("host=elsewhere", 0.01)
    assert made.answered_s is None
    with made:
        (look,) = made.take(5.0)
        assert isinstance(look, WatchLook)
        assert made.answered_s is not None
        assert made.answered_s >= look.seen_s


def test_a_fault_of_ours_ends_the_wait_for_a_look(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: str) -> object:
        raise ZeroDivisionError

    monkeypatch.setattr(watcher, "connect_foreign", fail)
    begun_s = time.monotonic()
    with Watcher("host=elsewhere", 0.01) as made, pytest.raises(ZeroDivisionError):
        made.take(300.0)
    assert time.monotonic() - begun_s < 60
