"""The kernel's audit around servers: the helper switches it on and off (walproof.privilege.helper.audit).

Only a process that was started while audit was on is audited; one that already runs is not.
"""

from __future__ import annotations

from types import TracebackType

from walproof.errors import StudyError
from walproof.facts.kinds import KernelAuditLevel
from walproof.postgres.workspace import Workspace
from walproof.privilege.helper.audit import audit_missing
from walproof.privilege.helper.client import RootHelper
from walproof.privilege.helper.requests import (
    Answer,
    AskAudit,
    Done,
    Refused,
    SwitchAuditOff,
    SwitchAuditOn,
)
from walproof.privilege.user import server_user


def audit_refusal() -> str | None:
    """Why the kernel's audit cannot be used here, in one line; None if it can."""
    missing = audit_missing()
    if missing is not None:
        return missing
    with RootHelper(server_user()) as helper:
        answer = helper.ask(AskAudit())
    return answer.reason if isinstance(answer, Refused) else None


class KernelAudit:
    """Context manager: what is started in its block is audited. ``level``: see ReplayConditions.

    Raises StudyError if audit cannot be used.
    """

    def __init__(self, workspace: Workspace, level: KernelAuditLevel) -> None:
        """``level``: ``quiet`` or ``recording``."""
        assert level != "off", level
        self._workspace = workspace
        self._request = SwitchAuditOn(level)
        self.records = 0
        """Records that the kernel built and dropped, once the block has ended."""

    def __enter__(self) -> KernelAudit:
        _done(self._workspace.helper().ask(self._request))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        answer = self._workspace.helper().ask(SwitchAuditOff())
        if error is None:
            self.records = _done(answer).value or 0


def _done(answer: Answer) -> Done:
    if isinstance(answer, Refused):
        raise StudyError(f"kernel audit cannot be used: {answer.reason}", hint="Leave kernel_audit out.")
    return answer
