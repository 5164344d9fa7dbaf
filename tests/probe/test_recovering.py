"""Data directories of which no recovery can be followed: each says why, and none makes walproof wait."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from walproof.errors import ClusterError
from walproof.facts.recovering import RecoveryPhase
from walproof.probe import processes, recovering
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
    show(monkeypatch, lambda pid, name: files[name])
    monkeypatch.setattr(recovering, "read_stat", lambda pid: [state[0], *[b"1"] * 30])
    monkeypatch.setattr(recovering, "children", lambda pid: [8])
    server = RecoveringServer(tmp_path)
    first, second = server.look(), server.look()
    assert (first.phase, second.phase) == (RecoveryPhase.BEFORE_REDO, RecoveryPhase.BEFORE_REDO)
    assert first.work != second.work
    state[0] = b"S"
    assert server.look().work == server.look().work


@pytest.mark.parametrize(
    ("status", "files", "has_startup", "phase"),
    [
        ("ready", ["standby.signal"], True, RecoveryPhase.HOT_STANDBY),
        ("ready", ["standby.signal", "recovery.signal"], True, RecoveryPhase.HOT_STANDBY),
        ("standby", ["standby.signal"], True, RecoveryPhase.WARM_STANDBY),
        ("starting", ["standby.signal"], True, RecoveryPhase.REDO),
        ("ready", ["recovery.signal"], True, RecoveryPhase.READ_ONLY),
        ("standby", ["recovery.signal"], True, RecoveryPhase.REDO),
        ("ready", [], True, RecoveryPhase.REDO),  # after the crash of a session
        ("ready", [], False, RecoveryPhase.OVER),
        ("ready", ["standby.signal"], False, RecoveryPhase.OVER),  # made for the next start
        ("ready", ["recovery.signal"], False, RecoveryPhase.OVER),
    ],
)
def test_what_a_server_that_replays_is_told_as(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    status: str,
    files: list[str],
    has_startup: bool,
    phase: RecoveryPhase,
) -> None:
    server = made_server(tmp_path, monkeypatch, status=status, has_startup=has_startup)
    for name in files:
        (tmp_path / name).touch()
    assert server.look().phase is phase
    assert phase.is_up == (phase not in (RecoveryPhase.REDO, RecoveryPhase.BEFORE_REDO))


def test_a_hot_standby_whose_session_crashed_takes_no_connections_until_it_says_so_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The status stays "ready", and is written again when sessions may connect."""
    server = made_server(tmp_path, monkeypatch, status="ready")
    (tmp_path / "standby.signal").touch()
    assert server.look().phase is RecoveryPhase.HOT_STANDBY
    # Longer ago than the startup process began, which is when this machine did.
    os.utime(tmp_path / "postmaster.pid", (0, 0))
    assert server.look().phase is RecoveryPhase.REDO


def test_a_paused_recovery_that_only_wakes_does_not_advance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "recovery.signal").touch()
    files = dict(MADE)
    server = made_server(tmp_path, monkeypatch, status="ready", files=files)
    paused = server.look().work
    files["schedstat"] = b"900000 0 1"
    files["io"] = b"rchar: 20512\nwchar: 10"
    assert server.look().work == paused
    files["io"] = b"rchar: 28704\nwchar: 10"
    assert server.look().work != paused


def test_a_recovery_that_waits_for_its_archive_is_not_at_its_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "recovery.signal").touch()
    files = dict(MADE)
    server = made_server(tmp_path, monkeypatch, status="starting", files=files)
    assert server.look().phase is RecoveryPhase.REDO
    files["cmdline"] = b"postgres: startup waiting for 000000010000000000000004\0"
    assert (server.look().phase, server.look().segment) == (RecoveryPhase.REDO, None)
    assert server.look().awaited == "000000010000000000000004"
    (tmp_path / "postmaster.pid").write_text(PID_FILE.format("ready   "))
    assert server.look().phase is RecoveryPhase.READ_ONLY
    files["cmdline"] = b"postgres: startup \0"
    assert server.look().phase is RecoveryPhase.CHECKPOINT


def test_a_recovery_that_was_only_seen_to_wait_is_past_its_sync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slow restore_command: nobody may ever see a segment replayed."""
    (tmp_path / "recovery.signal").touch()
    files = {**MADE, "cmdline": b"postgres: startup waiting for 000000010000000000000004\0"}
    server = made_server(tmp_path, monkeypatch, status="starting", files=files)
    assert (server.look().phase, server.look().sync) == (RecoveryPhase.REDO, None)


def test_a_restore_command_that_fetches_is_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "recovery.signal").touch()
    files = {**MADE, "cmdline": b"postgres: startup waiting for 000000010000000000000004\0"}
    server = made_server(tmp_path, monkeypatch, status="starting", files=files)
    # The startup process has a shell, and that a program.
    monkeypatch.setattr(recovering, "children", lambda pid: {NOBODY: [8], 8: [9], 9: [10]}.get(pid, []))
    fetched = [b"1 0 1"]

    def read(pid: int, name: str) -> bytes:
        return fetched[0] if (pid, name) == (10, "schedstat") else files[name]

    show(monkeypatch, read)
    before = server.look().work
    assert server.look().work == before
    fetched[0] = b"2000 0 1"
    assert server.look().work != before


NOBODY = 2**22 + 1  # beyond the most that Linux gives (proc(5), pid_max)
PID_FILE = f"{NOBODY}\n/srv/pg\n1\n5432\n/tmp\n\n1 2\n{{}}\n"
MADE = {
    "comm": b"postgres\n", "cmdline": b"postgres: startup recovering 000000010000000000000003\0",
    "schedstat": b"5000 0 1", "io": b"rchar: 20000\nwchar: 10",
}  # fmt: skip


def show(monkeypatch: pytest.MonkeyPatch, read: Callable[[int, str], bytes]) -> None:
    """Files of /proc as ``read`` gives them."""
    for module in (processes, recovering):
        monkeypatch.setattr(module, "read_proc", read)


def made_server(
    data: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    status: str,
    has_startup: bool = True,
    files: dict[str, bytes] = MADE,
) -> RecoveringServer:
    """A postmaster of that status; ``files``: of /proc, for it and its startup process."""
    (data / "postmaster.pid").write_text(PID_FILE.format(status.ljust(8)))
    show(monkeypatch, lambda pid, name: files[name])
    monkeypatch.setattr(recovering, "read_stat", lambda pid: [b"S", *[b"1"] * 30])
    monkeypatch.setattr(recovering, "children", lambda pid: [8] if has_startup else [])
    monkeypatch.setattr(recovering, "read_sync_place", lambda pid: None)
    return RecoveringServer(data)
