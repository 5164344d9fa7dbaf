"""The helper as a process: it refuses what it should, and undoes everything whoever ends, and however."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.privilege.helper.auditctl import UNTOUCHED, StandIn
from tests.privilege.helper.test_requests import HOSTILE, packet_of
from walproof.privilege.helper import client
from walproof.privilege.helper.client import RootHelper
from walproof.privilege.helper.process import has_left_behind
from walproof.privilege.helper.read_group import GROUPS
from walproof.privilege.helper.requests import (
    AskAudit,
    Done,
    LiftReadLimit,
    LimitProcess,
    LimitReads,
    Refused,
    SwitchAuditOff,
    SwitchAuditOn,
    decode_answer,
)
from walproof.privilege.user import server_user
from walproof.probe.device import find_device


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    return tmp_path / "notes"


@pytest.fixture
def helper(notes: Path, stand_in: StandIn) -> Iterator[RootHelper]:
    with RootHelper(server_user(), notes) as started:
        yield started


def _wait(until: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not until():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _groups(note: str) -> list[Path]:
    """Control groups of the helper that has this note."""
    return list(GROUPS.glob(f"**/{note}*"))


def test_hostile_requests_are_refused_and_change_nothing(
    helper: RootHelper, stand_in: StandIn, notes: Path
) -> None:
    assert helper.ask(AskAudit()) == Done()
    for hostile in HOSTILE:
        packet = packet_of(hostile)
        if not packet:
            continue  # which would be the end
        helper._socket.sendall(packet)
        assert isinstance(decode_answer(helper._socket.recv(4096)), Refused), packet
    assert stand_in.asked == []
    assert stand_in.rules == []
    (note,) = notes.iterdir()
    assert _groups(note.stem) == []
    # And it serves on, one after another.
    assert helper.ask(SwitchAuditOn("quiet")) == Done()
    assert isinstance(helper.ask(SwitchAuditOn("quiet")), Refused)
    assert len(stand_in.rules) == 1
    assert helper.ask(SwitchAuditOff()) == Done(0)
    assert isinstance(helper.ask(SwitchAuditOff()), Refused)


def test_processes_of_others_are_refused(helper: RootHelper) -> None:
    for request in (LimitProcess(os.getpid()), LimitProcess(helper.pid), LimitProcess(2)):
        assert isinstance(helper.ask(request), Refused)
    assert helper.ask(LiftReadLimit()) == Done()


def test_the_rule_is_of_the_servers_user_whatever_is_asked(helper: RootHelper, stand_in: StandIn) -> None:
    assert helper.ask(SwitchAuditOn("recording")) == Done()
    user = server_user()
    assert f"uid={os.geteuid() if user is None else user.uid} " in stand_in.rules[0]
    assert "-S lseek" in stand_in.rules[0]


def test_it_undoes_what_it_did_when_its_parent_leaves(notes: Path, stand_in: StandIn) -> None:
    with RootHelper(server_user(), notes) as started:
        assert started.ask(SwitchAuditOn("quiet")) == Done()
        assert len([*notes.iterdir()]) == 1
        assert not has_left_behind(notes)  # it lives
    assert stand_in.rules == []
    assert stand_in.status == UNTOUCHED
    assert [*notes.iterdir()] == []


def test_one_that_hangs_is_not_waited_for_and_undoes_later(
    notes: Path, stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    with RootHelper(server_user(), notes) as started:
        assert started.ask(SwitchAuditOn("quiet")) == Done()
        os.kill(started.pid, signal.SIGSTOP)
        monkeypatch.setattr(client, "_PATIENCE_S", 0.2)
    assert len(stand_in.rules) == 1
    os.kill(started.pid, signal.SIGCONT)
    assert started._process.wait(30) == 0
    assert stand_in.rules == []


_PARENT = """
import os, signal, sys
from pathlib import Path
from walproof.privilege.helper.client import RootHelper
from walproof.privilege.helper.requests import Done, LimitReads, SwitchAuditOn
from walproof.privilege.user import server_user
with RootHelper(server_user(), Path(sys.argv[1])) as helper:
    assert helper.ask(SwitchAuditOn("recording")) == Done()
    (note,) = Path(sys.argv[1]).iterdir()
    print(helper.pid, note.stem, helper.ask(LimitReads(sys.argv[2], 100)), flush=True)
    os.kill(helper.pid if sys.argv[3] == "helper" else os.getpid(), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def _killed(notes: Path, whom: str) -> tuple[int, str, bool]:
    """A parent that asks for all there is and is killed, and its helper before it if ``whom`` is that.

    (the helper, its name, whether the kernel let it limit reads).
    """
    device = find_device(notes.parent)
    number = "1:1" if device is None else (device / "dev").read_text().strip()
    done = subprocess.run(
        [sys.executable, "-P", "-c", _PARENT, str(notes), number, whom],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL, done.stderr
    pid, name, said = done.stdout.strip().split(" ", 2)
    return int(pid), name, said.startswith("Done")


def test_it_undoes_what_it_did_when_its_parent_is_killed(notes: Path, stand_in: StandIn) -> None:
    pid, name, _ = _killed(notes, "parent")
    _wait(lambda: not Path(f"/proc/{pid}").exists())
    assert "-e 1" in stand_in.asked
    assert stand_in.rules == []
    assert stand_in.status == UNTOUCHED
    assert [*notes.iterdir()] == []
    assert _groups(name) == []


def test_the_next_undoes_what_a_killed_helper_left(notes: Path, stand_in: StandIn) -> None:
    _, name, limited = _killed(notes, "helper")
    assert len(stand_in.rules) == 1
    assert stand_in.status["enabled"] == 1
    (note,) = notes.iterdir()
    _wait(lambda: has_left_behind(notes))  # its end takes a moment
    assert bool(_groups(name)) is limited
    with RootHelper(server_user(), notes) as following:
        assert following.ask(AskAudit()) == Done()
        assert stand_in.rules == []
        assert stand_in.status == UNTOUCHED
        assert _groups(name) == []
        assert not note.exists()


def test_one_helper_leaves_alone_what_another_does(notes: Path, stand_in: StandIn) -> None:
    with RootHelper(server_user(), notes) as helper, RootHelper(server_user(), notes) as other:
        assert helper.ask(SwitchAuditOn("quiet")) == Done()
        refused = other.ask(SwitchAuditOn("quiet"))
        assert isinstance(refused, Refused)
        assert "already in use" in refused.reason
        assert isinstance(other.ask(SwitchAuditOff()), Refused)
        assert len(stand_in.rules) == 1
    assert stand_in.rules == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_does_not_end_it(helper: RootHelper, number: signal.Signals) -> None:
    """Which a terminal or a shutdown sends to all: what walproof does then needs it."""
    assert helper.ask(AskAudit()) == Done()
    os.kill(helper.pid, number)
    assert helper.ask(AskAudit()) == Done()


def test_a_folder_of_notes_that_others_may_change_is_refused(notes: Path, stand_in: StandIn) -> None:
    """What is written there decides what is undone."""
    notes.mkdir()
    notes.chmod(0o777)
    (notes / "walproof-0123456789ab.note").write_text("2 0 64")
    stand_in.begin("-a always,exit -S all -F key=walproof-0123456789ab")
    with RootHelper(server_user(), notes) as started:
        answer = started.ask(SwitchAuditOn("quiet"))
    assert isinstance(answer, Refused)
    assert "others may write to it" in answer.reason
    assert len(stand_in.rules) == 1
    assert stand_in.asked == []


def test_names_that_are_no_notes_are_left_alone(notes: Path, stand_in: StandIn) -> None:
    notes.mkdir(mode=0o700)
    precious = notes.parent / "precious"
    precious.write_text("2 0 64")
    (notes / "walproof-0123456789ab.note").symlink_to(precious)
    (notes / "walproof-..note").write_text("2 0 64")
    stand_in.begin("-a always,exit -S all -F key=walproof-0123456789ab")
    with RootHelper(server_user(), notes) as started:
        assert isinstance(started.ask(AskAudit()), Refused)  # the rule is somebody's
    assert len(stand_in.rules) == 1
    assert precious.read_text() == "2 0 64"
    assert (notes / "walproof-..note").exists()


def test_a_helper_that_was_ended_refuses_everything(notes: Path, stand_in: StandIn) -> None:
    with RootHelper(server_user(), notes) as started:
        assert started.ask(AskAudit()) == Done()
        os.kill(started.pid, signal.SIGKILL)
        _wait(lambda: isinstance(started.ask(AskAudit()), Refused))
        assert isinstance(started.ask(LimitReads("254:16", 5)), Refused)


def test_it_does_not_act_for_root(notes: Path) -> None:
    command = [sys.executable, "-P", "-m", "walproof.privilege.helper.process", "0", str(notes)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "the servers' user is root\n")
    assert not notes.exists()


def test_where_notes_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    is_root = os.geteuid() == 0
    assert (client.notes_folder() == Path("/run/walproof")) is is_root
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    assert client.notes_folder().name == "walproof-helper-4711"
