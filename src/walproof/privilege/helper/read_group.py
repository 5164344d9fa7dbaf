"""A control group whose processes may do only so many reads a second on one block device.

The kernel holds them while they read (Linux: Documentation/admin-guide/cgroup-v1/blkio-controller.rst
``blkio.throttle.read_iops_device``, and cgroup-v2.rst ``io.max``). Reads that the page cache answers do not
count.
"""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

from walproof.privilege.helper.requests import RequestError
from walproof.privilege.helper.theirs import TheirProcess, descendants

GROUPS = Path("/sys/fs/cgroup")
_DEVICES = Path("/sys/dev/block")
_REMOVAL_PATIENCE_S = 2.0


class ReadGroup:
    """One control group, called ``name``, for processes of user ``uid``. ``groups``, ``devices``: folders of
    the kernel. Methods raise RequestError."""

    def __init__(self, name: str, uid: int, groups: Path = GROUPS, devices: Path = _DEVICES) -> None:
        self._uid = uid
        self._devices = devices
        self._is_made = False
        if (groups / "blkio").is_dir():
            self._folder, self._file = groups / "blkio" / name, "blkio.throttle.read_iops_device"
            self._line = "{} {}"
        else:
            self._folder, self._file, self._line = groups / name, "io.max", "{} riops={}"

    def begin(self, device: str, iops: int) -> None:
        """Make the group."""
        if self._is_made:
            raise RequestError("reads are already limited")
        if not (self._devices / device).is_dir():
            raise RequestError(f"there is no block device {device}")
        try:
            self._folder.mkdir()
            (self._folder / self._file).write_text(self._line.format(device, iops))
        except OSError as error:
            self.undo()
            raise RequestError(
                f'{error.strerror}: no control group with "{self._file}" could be made in '
                f'"{self._folder.parent}"'
            ) from error
        self._is_made = True

    def add(self, pid: int) -> None:
        """Put a process, and what it has started, into the group; what it starts later is in it as well."""
        if not self._is_made:
            raise RequestError("reads are not limited")
        self._add(pid)
        # Started before the process was moved, and so not in the group: recovery begins within milliseconds.
        for child in descendants(pid):
            # It may have ended since.
            with contextlib.suppress(RequestError):
                self._add(child)

    def _add(self, pid: int) -> None:
        with TheirProcess(pid, self._uid) as process:
            try:
                (self._folder / "cgroup.procs").write_text(str(pid))
            except OSError as error:
                raise RequestError(f"process {pid}: {error.strerror}") from error
            if process.is_gone:
                self._put_back(pid)
                raise RequestError(f"there is no process {pid}")

    def undo(self) -> bool:
        """Remove the group, if there is one. Returns whether nothing is left of it."""
        deadline = time.monotonic() + _REMOVAL_PATIENCE_S
        while self._folder.is_dir() and time.monotonic() < deadline:
            # A group is removed only when it is empty, and its processes may live on without a limit.
            with contextlib.suppress(OSError):
                for word in (self._folder / "cgroup.procs").read_text().split():
                    self._put_back(int(word))
            with contextlib.suppress(OSError):
                self._folder.rmdir()
                break
            time.sleep(0.01)
        self._is_made = False
        return not self._folder.is_dir()

    def _put_back(self, pid: int) -> None:
        with contextlib.suppress(OSError):
            (self._folder.parent / "cgroup.procs").write_text(str(pid))
