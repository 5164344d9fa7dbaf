"""Windows of a pair that is watched, one after the other."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import cast

import pytest

from walproof.facts.replication import ReplicationWindow
from walproof.observe.pair_watcher import PairWatcher


def test_the_first_window_shows_whether_a_standby_keeps_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """With half a second any lag was "at least 500 ms", which passed for keeping up."""
    lengths: list[float] = []
    done = threading.Event()

    class Observer:
        def __init__(self, *_: object) -> None:
            pass

        def __enter__(self) -> Observer:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def observe(self, seconds: float) -> None:
            lengths.append(seconds)
            if len(lengths) == 3:
                watcher.stop()
                done.set()

    monkeypatch.setattr("walproof.observe.pair_watcher.PairObserver", Observer)
    watcher = PairWatcher("a", "b", 0.5)
    with watcher:
        assert done.wait(10)
    assert lengths == [1.0, 0.5, 0.5]


def test_a_fault_of_ours_ends_the_wait_for_a_window(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> object:
        raise ZeroDivisionError

    monkeypatch.setattr("walproof.observe.pair_watcher.PairObserver", fail)
    begun_s = time.monotonic()
    with PairWatcher("a", "b", 0.5) as watcher:
        watcher.wait(None, 300.0)
        with pytest.raises(ZeroDivisionError):
            _ = watcher.window
    assert time.monotonic() - begun_s < 60


def test_a_window_that_is_old_is_none() -> None:
    """Of a standby that is frozen: it said "keeps up" for as long as that took."""
    watcher = PairWatcher("a", "b", 2.0)
    window = cast(ReplicationWindow, SimpleNamespace(last=SimpleNamespace(at_s=100.0)))
    watcher._tell(window, None)
    assert watcher.fresh_window(110.0) is window
    assert watcher.fresh_window(111.0) is None
