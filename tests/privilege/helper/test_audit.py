"""The kernel's audit: refused with a reason, undone however its block ends; the kernel's own where we may."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.needs import lacking
from tests.privilege.helper.auditctl import UNTOUCHED, StandIn
from walproof.errors import DiskError, StudyError
from walproof.facts import Install, KernelAuditLevel, ReplayConditions
from walproof.lab.kinds.replay.recording import ReplayRecording
from walproof.lab.kinds.replay.run import ReplayRun
from walproof.postgres.kernel_audit import KernelAudit, audit_refusal
from walproof.postgres.workspace import Workspace
from walproof.privilege.helper.audit import Audit
from walproof.privilege.user import running_as, server_user
from walproof.units import Lsn

THEIRS = "-a always,exit -S execve -F key=theirs"


def test_one_rule_while_the_block_lasts(workspace: Workspace, stand_in: StandIn) -> None:
    with KernelAudit(workspace, "recording") as audit:
        assert len(stand_in.rules) == 1
        assert "-S lseek" in stand_in.rules[0]
        assert stand_in.status["enabled"] == 1
        # Neither waits nor panics, and keeps one record a second.
        assert (stand_in.status["failure"], stand_in.status["rate_limit"]) == (0, 1)
        stand_in.lose(1234)
    assert audit.records == 1234
    assert stand_in.rules == []
    assert stand_in.status == {**UNTOUCHED, "lost": 1234}


def test_the_rule_goes_when_the_block_fails(workspace: Workspace, stand_in: StandIn) -> None:
    def fail() -> None:
        with KernelAudit(workspace, "quiet"):
            assert stand_in.rules
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert stand_in.rules == []
    assert stand_in.status == UNTOUCHED


def test_the_rule_goes_when_a_replay_fails(
    embedded: Install, workspace: Workspace, stand_in: StandIn
) -> None:
    recording = ReplayRecording(workspace.folder / "none", Lsn(0), Lsn(0), 1, 1, 0, 0)
    run = ReplayRun(workspace, embedded, recording, {}, ReplayConditions(kernel_audit="quiet"))
    with pytest.raises(DiskError, match="could not clone"):
        run.measure("fails")
    assert "-e 1" in stand_in.asked
    assert stand_in.rules == []
    assert stand_in.status == UNTOUCHED


_KILLED = """
import os, signal, sys
from pathlib import Path
from walproof.postgres.kernel_audit import KernelAudit
from walproof.postgres.workspace import Workspace
from walproof.privilege.helper import client
from walproof.privilege.user import server_user
client.notes_folder = lambda: Path(sys.argv[2])
with Workspace(Path(sys.argv[1]), server_user()) as workspace, KernelAudit(workspace, "quiet"):
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_rule_goes_when_walproof_is_killed(open_place: Path, stand_in: StandIn) -> None:
    words = [str(open_place / "work"), str(open_place / "notes")]
    done = subprocess.run([sys.executable, "-P", "-c", _KILLED, *words], check=False)
    assert done.returncode == -signal.SIGKILL
    deadline = time.monotonic() + 60
    while stand_in.rules or stand_in.status != UNTOUCHED:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert "-e 1" in stand_in.asked
    while list((open_place / "notes").iterdir()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    while list((open_place / "work" / "running").iterdir()):  # the watchdog removes what is in it
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_only_the_rule_of_the_helper_goes(tmp_path: Path, stand_in: StandIn) -> None:
    """After a new start of the machine our rule is gone, and audit is somebody else's."""
    note = tmp_path / "note"
    note.write_text("1 0 64")
    stand_in.begin(THEIRS, enabled=1)
    assert Audit("walproof-0123", 4711, note).undo()
    assert stand_in.rules == [THEIRS]
    assert stand_in.asked == []
    longer = "-a always,exit -S all -F key=walproof-01234"
    stand_in.begin(THEIRS, "-a always,exit -S all -F key=walproof-0123", longer, enabled=1)
    note.write_text("1 0 64")
    assert Audit("walproof-0123", 4711, note).undo()
    assert stand_in.rules == [THEIRS, longer]


@pytest.mark.parametrize("noted", ["", "1 0", "1 0 64 9", "1 0 -D", "1 0 sixty", "\0"])
def test_a_note_that_was_cut_short_undoes_nothing(tmp_path: Path, stand_in: StandIn, noted: str) -> None:
    rule = "-a always,exit -S all -F key=walproof-0123"
    stand_in.begin(rule, enabled=1)
    (tmp_path / "note").write_text(noted)
    assert Audit("walproof-0123", 4711, tmp_path / "note").undo()
    assert stand_in.rules == [rule]
    assert stand_in.asked == []


@pytest.mark.parametrize(
    ("rules", "enabled", "pid", "says"),
    [
        ((THEIRS,), 0, 0, "audit is already in use"),
        ((), 1, 0, "audit is already in use"),
        ((), 1, 4711, r"an audit daemon runs \(process 4711\)"),
    ],
)
def test_somebody_elses_audit_is_left_alone(
    workspace: Workspace, stand_in: StandIn, rules: tuple[str, ...], enabled: int, pid: int, says: str
) -> None:
    stand_in.begin(*rules, enabled=enabled, pid=pid)
    with pytest.raises(StudyError, match=f"kernel audit cannot be used: {says}"):
        KernelAudit(workspace, "quiet").__enter__()
    assert stand_in.rules == list(rules)
    assert stand_in.asked == []


def test_who_may_not_is_told(stand_in: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in.begin(refuses=True)
    told = "auditctl says: You must be root to run this program."
    if server_user() is None:
        told += " (walproof was not started as root)"
    assert audit_refusal() == told
    monkeypatch.setenv("PATH", "/nonexistent")
    assert audit_refusal() == "auditctl is not installed"


def test_the_kernel_records_what_the_rule_matches(workspace: Workspace) -> None:
    """Where audit may be used; elsewhere its refusal is all there is, and nothing is changed."""
    refusal = audit_refusal()
    if refusal is not None:
        with pytest.raises(StudyError, match="kernel audit cannot be used"):
            KernelAudit(workspace, "quiet").__enter__()
        lacking("kernel audit", refusal)
    user = server_user()
    program = "import os; f = os.open('/', 0); [os.lseek(f, 0, 0) for _ in range(1000)]"
    records: dict[KernelAuditLevel, int] = {}
    levels: tuple[KernelAuditLevel, ...] = ("quiet", "recording")
    for level in levels:
        with KernelAudit(workspace, level) as audit:
            command = ["/usr/bin/python3", "-c", program]
            subprocess.run(command, check=True, cwd="/", **running_as(user))
        records[level] = audit.records
    assert records["quiet"] < 500 < 1000 <= records["recording"]
    assert audit_refusal() is None
