"""A bound on how many reads a server may do each second: a slower disk, made by the kernel.

The helper makes a control group with the limit and puts the server's processes into it
(walproof.privilege.helper.read_group). Only root can.
"""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

from walproof.errors import DiskError
from walproof.privilege.helper.client import RootHelper
from walproof.privilege.helper.requests import LiftReadLimit, LimitProcess, LimitReads, Refused, Request


class ReadLimit:
    """Context manager: processes that are added to it may do ``iops`` reads a second on the disk ``device``.

    ``device``: its folder in /sys/block, as ``walproof.probe.device.find_device`` finds it; None where
    there is none. Raises DiskError where the kernel does not offer the limit, or not to this user.
    """

    def __init__(self, helper: RootHelper, device: Path | None, iops: int) -> None:
        self._helper = helper
        self._device = device
        self._iops = iops

    def __enter__(self) -> ReadLimit:
        if self._device is None:
            raise DiskError(
                "reads cannot be limited: the folder is not on a block device",
                hint="Name a folder on a disk with --on.",
            )
        try:
            number = (self._device / "dev").read_text().strip()
        except OSError as error:
            raise DiskError(f"reads cannot be limited: {error.strerror}") from error
        self._ask(LimitReads(number, self._iops), "Run as root, on a machine whose control groups limit I/O.")
        return self

    def add(self, pid: int) -> None:
        """Put a process and what it has started under the limit; what it starts later is under it as well.
        Raises DiskError."""
        self._ask(LimitProcess(pid))

    def _ask(self, request: Request, hint: str | None = None) -> None:
        answer = self._helper.ask(request)
        if isinstance(answer, Refused):
            raise DiskError(f"reads cannot be limited: {answer.reason}", hint=hint)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._helper.ask(LiftReadLimit())
