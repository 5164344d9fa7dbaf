"""Data directories of which no recovery can be followed: each says why, and none makes walproof wait."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from walproof.errors import ClusterError
from walproof.facts.recovering import RecoveryPhase
from walproof.probe import recovering
from walproof.probe.recovering import RecoveringServer


def refusal(data: Path) -> ClusterError:
    with pytest.raises(ClusterError) as raised:
        RecoveringServer(data)
    return raised.value


def test_no_server_was_started(tmp_path: Path) -> None:
    error = refusal(tmp_path)
    assert error.message == f'no server runs in "{tmp_path}"'
    assert error.detail == f'There is no "{tmp_path}/postmaster.pid".'
    assert error.hint is not None


@pytest.mark.parametrize("text", ["", "\n", "postmaster\n", "-1\n", "12 13\n"])
def test_a_file_that_names_no_process(tmp_path: Path, text: str) -> None:
    (tmp_path / "postmaster.pid").write_text(text)
    assert "names no process" in str(refusal(tmp_path).detail)


def test_a_file_that_is_being_written(tmp_path: Path) -> None:
    """A server makes its file, and then writes to it."""
    path = tmp_path / "postmaster.pid"
    path.touch()
    writing = threading.Timer(0.2, path.write_text, [f"{os.getpid()}\n"])
    writing.start()
    assert "is not its server" in str(refusal(tmp_path).detail)
    writing.join()


def test_a_number_that_somebody_else_has(tmp_path: Path) -> None:
    """A file that a crash left, whose number is another process's by now."""
    (tmp_path / "postmaster.pid").write_text(f"{os.getpid()}\n/srv/pg\n1\n5432\n/tmp\n\n1 2\nready\n")
    assert (
        str(refusal(tmp_path).detail)
        == f'Process {os.getpid()} of "{tmp_path}/postmaster.pid" is not its server.'
    )


def test_what_is_no_file_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "postmaster.pid")
    assert refusal(tmp_path).message == f'"{tmp_path}/postmaster.pid" is not a regular file'
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "postmaster.pid").symlink_to("/etc/passwd")
    assert "could not read" in refusal(tmp_path / "linked").message


def test_a_flush_that_takes_minutes_is_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process in the state D; everything else of it stands still."""
    nobody = 2**22 + 1  # beyond the most that Linux gives (proc(5), pid_max)
    (tmp_path / "postmaster.pid").write_text(f"{nobody}\n/srv/pg\n1\n5432\n/tmp\n\n1 2\nstarting\n")
    state = [b"D"]
    files = {
        "comm": b"postgres\n", "cmdline": b"postgres: startup \0",
        "schedstat": b"5000 0 1", "io": b"rchar: 10",
    }  # fmt: skip
    monkeypatch.setattr(recovering, "read_proc", lambda pid, name: files[name])
    monkeypatch.setattr(recovering, "read_stat", lambda pid: [state[0], *[b"1"] * 30])
    monkeypatch.setattr(recovering, "children", lambda pid: [8])
    server = RecoveringServer(tmp_path)
    first, second = server.look(), server.look()
    assert (first.phase, second.phase) == (RecoveryPhase.BEFORE_REDO, RecoveryPhase.BEFORE_REDO)
    assert first.work != second.work
    state[0] = b"S"
    assert server.look().work == server.look().work
