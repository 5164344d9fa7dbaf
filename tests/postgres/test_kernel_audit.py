"""The kernel's audit: refused with a reason, undone however its block ends; the kernel's own where we may."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.postgres.auditctl import UNTOUCHED, StandIn
from walproof.errors import DiskError, StudyError
from walproof.facts import Install, KernelAuditLevel, ReplayConditions
from walproof.lab.replay_recording import ReplayRecording
from walproof.lab.replay_run import ReplayRun
from walproof.postgres.kernel_audit import KernelAudit, audit_refusal
from walproof.postgres.reaper import AUDITED, reap, restore_audit
from walproof.postgres.workspace import Workspace
from walproof.privilege.user import running_as, server_user
from walproof.units import Lsn

THEIRS = "-a always,exit -S execve -F key=theirs"


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StandIn:
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    return StandIn(folder)


def test_one_rule_while_the_block_lasts(workspace: Workspace, stand_in: StandIn) -> None:
    with KernelAudit(workspace, "recording") as audit:
        assert len(stand_in.rules) == 1
        assert "-S lseek" in stand_in.rules[0]
        assert stand_in.rules[0].endswith(f"key={workspace.folder.name}")
        assert stand_in.status["enabled"] == 1
        # Neither waits nor panics, and keeps one record a second.
        assert (stand_in.status["failure"], stand_in.status["rate_limit"]) == (0, 1)
        stand_in.lose(1234)
    assert audit.records == 1234
    assert stand_in.rules == []
    assert stand_in.status == {**UNTOUCHED, "lost": 1234}
    assert not (workspace.folder.with_suffix(AUDITED)).exists()


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


def test_the_rule_goes_when_walproof_is_killed(tmp_path: Path, stand_in: StandIn) -> None:
    """By the watchdog."""
    program = (
        "import os, signal\n"
        "from pathlib import Path\n"
        "from walproof.postgres.kernel_audit import KernelAudit\n"
        "from walproof.postgres.workspace import Workspace\n"
        f"with Workspace(Path({str(tmp_path / 'work')!r}), None) as w, KernelAudit(w, 'quiet'):\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=False)
    deadline = time.monotonic() + 30
    while (stand_in.rules or stand_in.status != UNTOUCHED) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert stand_in.rules == []
    assert stand_in.status == UNTOUCHED
    assert "-e 1" in stand_in.asked


def test_only_the_rule_of_the_workspace_goes(tmp_path: Path, stand_in: StandIn) -> None:
    """After a new start of the machine our rule is gone, and audit is somebody else's."""
    left = tmp_path / "walproof-0123"
    left.mkdir()
    left.with_suffix(AUDITED).write_text("1 0 64")
    stand_in.begin(THEIRS, enabled=1)
    reap(left, None, None)
    assert stand_in.rules == [THEIRS]
    assert stand_in.asked == []
    stand_in.begin(THEIRS, "-a always,exit -S all -F key=walproof-0123", enabled=1)
    left.mkdir()
    left.with_suffix(AUDITED).write_text("1 0 64")
    restore_audit(left)
    assert stand_in.rules == [THEIRS]


@pytest.mark.parametrize(
    ("rules", "enabled", "pid", "says"),
    [
        ((THEIRS,), 0, 0, "audit is in use already"),
        ((), 1, 0, "audit is in use already"),
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
    assert audit_refusal() == "auditctl says: You must be root to run this program."
    monkeypatch.setenv("PATH", "/nonexistent")
    assert audit_refusal() == "auditctl is not installed"


def test_the_kernel_records_what_the_rule_matches(workspace: Workspace) -> None:
    """Where audit may be used; elsewhere its refusal is all there is, and nothing is changed."""
    refusal = audit_refusal()
    if refusal is not None:
        with pytest.raises(StudyError, match="kernel audit cannot be used"):
            KernelAudit(workspace, "quiet").__enter__()
        return
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
