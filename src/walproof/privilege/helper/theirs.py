"""A process that a request names: it has to be the servers' user's, and to stay the same meanwhile."""

from __future__ import annotations

import os
import select
from pathlib import Path
from types import TracebackType

from walproof.privilege.helper.requests import RequestError


class TheirProcess:
    """Context manager: a process of that user alone. Raises RequestError for all others.

    ``is_gone`` says whether it has ended: then another process may have its number, and what was done to that
    number has to be taken back.
    """

    def __init__(self, pid: int, uid: int) -> None:
        self.pid = pid
        self._uid = uid

    def __enter__(self) -> TheirProcess:
        try:
            # First a handle (pidfd_open(2)), then the look at its user: so both are of the same process.
            self._handle = os.pidfd_open(self.pid)
        except OSError as error:
            raise RequestError(f"there is no process {self.pid}") from error
        is_theirs, is_gone = users_of(self.pid) == {self._uid}, self.is_gone
        if is_theirs and not is_gone:
            return self
        os.close(self._handle)
        if is_gone:
            raise RequestError(f"there is no process {self.pid}")
        raise RequestError(f"process {self.pid} is not of user {self._uid} alone")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._handle)

    @property
    def is_gone(self) -> bool:
        """Whether it has ended (from then on a handle can be read)."""
        return bool(select.select([self._handle], [], [], 0)[0])


def users_of(pid: int) -> set[int]:
    """Its real, effective, saved and filesystem user; none when it is gone."""
    return set(_numbers(pid, "Uid"))


def descendants(pid: int) -> list[int]:
    """The processes that a process has started, and those that they have."""
    parents = {
        int(entry.name): next(iter(_numbers(int(entry.name), "PPid")), 0)
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit()
    }
    found = [pid]
    for process in found:
        found += [child for child, parent in parents.items() if parent == process and child not in found]
    return found[1:]


def _numbers(pid: int, name: str) -> list[int]:
    try:
        lines = Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines()
    except OSError:
        return []
    return [int(word) for line in lines if line.startswith(f"{name}:") for word in line.split()[1:]]
