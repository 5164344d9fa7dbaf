"""The kernel's audit, switched on around servers with one rule of walproof's own, and off again.

    off --add rule, bound what is recorded, enable--> [ servers start, run, stop ] --restore--> off

Audit is a matter of the whole machine: whoever else starts a process meanwhile pays for its system calls too.
So it is refused where audit is in use already, each record is dropped but one a second, and whatever ends
walproof, the rule goes and the kernel gets its values back: in ``__exit__``, else by the watchdog, else by
the sweep of the next start (:func:`walproof.postgres.reaper.restore_audit`). One thing stays until the
machine is started anew: once audit has been on, the kernel gives each new process an audit context
(kernel/auditsc.c, ``audit_alloc``), which adds some 15 ns to each of its system calls. ``auditctl -a
task,never`` keeps it from that, and is the administrator's to decide.

A process is audited that was started while audit was on; one that runs already is not.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from types import TracebackType

from walproof.errors import StudyError
from walproof.facts.model import KernelAuditLevel
from walproof.postgres.reaper import AUDITCTL, AUDITED, restore_audit
from walproof.postgres.workspace import Workspace

_NOBODY = 2**32 - 2
"""A user who has no processes: the rule is compared with each call, and never matches."""
_CALLS = {"quiet": "all", "recording": "lseek"}
"""The calls that the rule of each level is about."""
_STATUS = re.compile(r"^(\w+) (\d+)$", re.MULTILINE)
_PATIENCE_S = 10.0


def audit_refusal() -> str | None:
    """Why the kernel's audit cannot be used here, in one line; None where it can."""
    if shutil.which(AUDITCTL) is None:
        return "auditctl is not installed"
    if not os.path.exists("/proc/self/loginuid"):  # noqa: PTH110 - one file of the kernel
        return "the kernel is built without audit"
    try:
        status = _status()
        rules = _auditctl("-l")
    except StudyError as error:
        return error.message
    if status.get("pid"):
        return f"an audit daemon runs (process {status['pid']}): its log would fill"
    if status.get("enabled") or "No rules" not in rules:
        return "audit is in use already: its rules would be measured, and its log would fill"
    return None


class KernelAudit:
    """Context manager: what is started in its block is audited. ``level``: see ReplayConditions.

    Raises StudyError where audit cannot be used.
    """

    def __init__(self, workspace: Workspace, level: KernelAuditLevel) -> None:
        """``level``: ``quiet`` or ``recording``."""
        self._workspace = workspace
        self._level = level
        self._lost_before = 0
        self.records = 0
        """Records that the kernel built and dropped, once the block has ended."""

    def __enter__(self) -> KernelAudit:
        refusal = audit_refusal()
        if refusal is not None:
            raise StudyError(f"kernel audit cannot be used: {refusal}", hint="Leave kernel_audit out.")
        status = _status()
        self._lost_before = status["lost"]
        note = self._workspace.folder.with_suffix(AUDITED)
        note.write_text(f"{status['failure']} {status['rate_limit']} {status['backlog_limit']}")
        user = self._workspace.user
        uid = _NOBODY if self._level == "quiet" else os.getuid() if user is None else user.uid
        try:
            # The rule first: where it is, the rest may have been changed.
            _auditctl("-a", "always,exit", "-F", "arch=b64", "-S", _CALLS[self._level], "-F", f"uid={uid}",
                      "-k", self._workspace.folder.name)  # fmt: skip
            # Nothing may wait or fail for the sake of a record: one a second is kept, the others are counted.
            _auditctl("-f", "0", "-r", "1", "-b", "64", "-e", "1")
        except BaseException:
            restore_audit(self._workspace.folder)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.records = _status()["lost"] - self._lost_before
        finally:
            restore_audit(self._workspace.folder)


def _status() -> dict[str, int]:
    found = {match[1]: int(match[2]) for match in _STATUS.finditer(_auditctl("-s"))}
    if not {"enabled", "failure", "rate_limit", "backlog_limit", "lost"} <= found.keys():
        raise StudyError("auditctl does not show the state of audit")
    return found


def _auditctl(*arguments: str) -> str:
    """What it prints. Raises StudyError when it fails."""
    try:
        done = subprocess.run(
            [AUDITCTL, *arguments],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=_PATIENCE_S,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        raise StudyError(f"auditctl could not be run: {error}") from error
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise StudyError(f"auditctl says: {said[-1] if said else f'exit status {done.returncode}'}")
    return done.stdout
