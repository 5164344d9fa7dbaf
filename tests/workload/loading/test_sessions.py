"""Client processes of a load: none is left behind, and one that ended is told."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from walproof.errors import WorkloadError
from walproof.workload.loading.client import Order
from walproof.workload.loading.load_target import LoadTarget
from walproof.workload.loading.sessions import LoadSessions


def order(table: str = "t") -> Order:
    return Order("", "/nowhere", "copy", None, 0, 1, False, LoadTarget(table, (), (), ()))


def sessions_run(program: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let each session run these lines of sh in place of walproof's client."""
    file = tmp_path / "client"
    file.write_text(f"#!/bin/sh\n{program}")
    file.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(file))


def test_an_interrupt_before_they_are_ready_ends_all(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    sessions_run("read order\nread go\n", monkeypatch, tmp_path)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(LoadSessions, "_each", interrupted)
    sessions = LoadSessions([order(), order()])
    with pytest.raises(KeyboardInterrupt), sessions:
        pass
    assert len(sessions.pids) == 2
    assert not [pid for pid in sessions.pids if Path(f"/proc/{pid}").exists()]


def test_a_client_that_ends_before_it_has_its_order_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sessions_run("exit 7\n", monkeypatch, tmp_path)
    longer_than_a_pipe = order("t" * 2**20)
    with pytest.raises(WorkloadError, match="ended with status 7"), LoadSessions([longer_than_a_pipe]):
        pass


def test_a_session_that_ends_before_its_middle_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sessions_run("read order\necho ready\nread go\necho over\n", monkeypatch, tmp_path)
    with LoadSessions([order()]) as sessions:
        sessions.go()
        with pytest.raises(WorkloadError, match="a loading session did not reach its middle: it ended"):
            sessions.wait_for_half(30)
