"""The kernel's audit, switched on with one rule of the helper's own, and off again.

    off --note, add rule, bound what is recorded, enable--> [ servers start, run, stop ] --restore--> off

Audit concerns the whole machine: whoever else starts a process meanwhile pays for its system calls too. So it
is refused if audit is already in use, and all records but one a second are dropped. The earlier values are
noted first, and the rule is removed last: where it is, there is something to undo. One thing stays until the
machine is restarted: once audit has been on, the kernel gives each new process an audit context
(kernel/auditsc.c, ``audit_alloc``), which adds some 15 ns to each of its system calls. ``auditctl -a
task,never`` keeps it from that, and is the administrator's to decide."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
from pathlib import Path

from walproof.privilege.environment import child_environment
from walproof.privilege.helper.requests import AuditLevel, RequestError

_AUDITCTL = "auditctl"
_NOBODY = 2**32 - 2
"""A user who has no processes: the rule is compared with each call, and never matches."""
_CALLS: dict[AuditLevel, str] = {"quiet": "all", "recording": "lseek"}
"""The calls that the rule of each level is about."""
_STATUS = re.compile(r"^(\w+) (\d+)$", re.MULTILINE)
_PATIENCE_S = 10.0


def audit_missing() -> str | None:
    """What audit lacks on this machine, whoever asks, in one line."""
    if shutil.which(_AUDITCTL) is None:
        return "auditctl is not installed"
    if not os.path.exists("/proc/self/loginuid"):  # noqa: PTH110 - one file of the kernel
        return "the kernel is built without audit"
    return None


class Audit:
    """Audit of the processes of user ``uid``; the rule's key is ``key``, and ``note`` a file for the earlier
    values. All methods raise RequestError with what auditctl says."""

    def __init__(self, key: str, uid: int, note: Path) -> None:
        self._key = key
        self._uid = uid
        self._note = note
        self._lost_before: int | None = None

    def check(self) -> None:
        """Raises RequestError if audit cannot be used."""
        missing = audit_missing()
        if missing is not None:
            raise RequestError(missing)
        status = _status()
        rules = _auditctl("-l")
        if status.get("pid"):
            raise RequestError(f"an audit daemon runs (process {status['pid']}): its log would fill")
        if status.get("enabled") or "No rules" not in rules:
            raise RequestError("audit is already in use: its rules would be measured, and its log would fill")

    def switch_on(self, level: AuditLevel) -> None:
        """Audit what starts from now on."""
        self.check()
        status = _status()
        uid = _NOBODY if level == "quiet" else self._uid
        self._note.write_text(f"{status['failure']} {status['rate_limit']} {status['backlog_limit']}")
        try:
            # The rule first: where it is, the rest may have been changed.
            _auditctl("-a", "always,exit", "-F", "arch=b64", "-S", _CALLS[level], "-F", f"uid={uid}",
                      "-k", self._key)  # fmt: skip
            # Nothing may wait or fail for the sake of a record: one a second is kept, the others are counted.
            _auditctl("-f", "0", "-r", "1", "-b", "64", "-e", "1")
        except BaseException:
            self.undo()
            raise
        self._lost_before = status["lost"]

    def switch_off(self) -> int:
        """Restore what was before. Returns the number of records that the kernel built and dropped
        meanwhile."""
        if self._lost_before is None:
            raise RequestError("audit was not switched on")
        try:
            return _status()["lost"] - self._lost_before
        finally:
            self.undo()

    def undo(self) -> bool:
        """Remove the rule and restore the earlier values, if there is something to undo.

        After a restart of the machine the rule is gone, and audit belongs to whoever uses it then. Returns
        whether nothing is left to undo."""
        self._lost_before = None
        try:
            before = [str(int(word)) for word in self._note.read_text().split()]
            failure, rate_limit, backlog_limit = before
        except (OSError, ValueError):
            return True  # nothing was noted, so nothing was changed
        with contextlib.suppress(RequestError, OSError):
            if self._is_there():
                _auditctl("-e", "0", "-f", failure, "-r", rate_limit, "-b", backlog_limit)
                _auditctl("-D", "-k", self._key)
            if not self._is_there():
                self._note.write_text("")
                return True
        return False

    def _is_there(self) -> bool:
        words = re.split(r"\s+", _auditctl("-l"))
        return f"key={self._key}" in words


def _status() -> dict[str, int]:
    found = {match[1]: int(match[2]) for match in _STATUS.finditer(_auditctl("-s"))}
    if not {"enabled", "failure", "rate_limit", "backlog_limit", "lost"} <= found.keys():
        raise RequestError("auditctl does not show the state of audit")
    return found


def _auditctl(*arguments: str) -> str:
    """What auditctl prints. Raises RequestError when it fails."""
    try:
        done = subprocess.run(
            [_AUDITCTL, *arguments],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=_PATIENCE_S,
            env=child_environment(),
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        raise RequestError(f"auditctl could not be run: {error}") from error
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise RequestError(f"auditctl says: {said[-1] if said else f'exit status {done.returncode}'}")
    return done.stdout
