"""A bound on how many reads a server may do each second: a slower disk, made by the kernel.

A control group with a limit on one block device holds the server's processes while they read (Linux:
Documentation/admin-guide/cgroup-v1/blkio-controller.rst ``blkio.throttle.read_iops_device``, and
cgroup-v2.rst ``io.max``). Reads that the page cache answers do not count. Only who may make control groups,
as a rule root, can do this.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from types import TracebackType

import psutil

from walproof.errors import DiskError

GROUPS = Path("/sys/fs/cgroup")


class ReadLimit:
    """Context manager: a control group ``name`` that may do ``iops`` reads a second on the disk ``device``.

    ``device``: its folder in /sys/block, as ``walproof.probe.device.find_device`` finds it; None where
    there is none. Raises DiskError where the kernel does not offer the limit, or not to this user. When it
    is left, its processes must have ended; the reaper removes a group that was left behind.
    """

    def __init__(self, device: Path | None, iops: int, name: str, groups: Path = GROUPS) -> None:
        self._device = device
        self._iops = iops
        if (groups / "blkio").is_dir():
            self._folder, self._file = groups / "blkio" / name, "blkio.throttle.read_iops_device"
            self._line = "{} {}"
        else:
            self._folder, self._file, self._line = groups / name, "io.max", "{} riops={}"

    def __enter__(self) -> ReadLimit:
        if self._device is None:
            raise DiskError(
                "reads cannot be limited: the folder is not on a block device",
                hint="Name a folder on a disk with --on.",
            )
        try:
            self._folder.mkdir()
            number = (self._device / "dev").read_text().strip()
            (self._folder / self._file).write_text(self._line.format(number, self._iops))
        except OSError as error:
            self.__exit__(None, None, None)
            raise DiskError(
                f"reads cannot be limited: {error.strerror}",
                detail=f'A control group with "{self._file}" could not be made in "{self._folder.parent}".',
                hint="Run as root, on a machine whose control groups limit I/O.",
            ) from error
        return self

    def add(self, pid: int) -> None:
        """Put a process into the group, and what it has started. Raises DiskError.

        What it starts from now on is in the group as well.
        """
        try:
            (self._folder / "cgroup.procs").write_text(str(pid))
        except OSError as error:
            raise DiskError(f"reads of process {pid} cannot be limited: {error.strerror}") from error
        # Started before the process was moved, and so not in the group: recovery begins within milliseconds.
        with contextlib.suppress(psutil.NoSuchProcess):
            for child in psutil.Process(pid).children(recursive=True):
                with contextlib.suppress(ProcessLookupError):
                    (self._folder / "cgroup.procs").write_text(str(child.pid))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with contextlib.suppress(OSError):
            self._folder.rmdir()
