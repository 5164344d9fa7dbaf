"""The block device under a folder, and the mount that it is reached by."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from walproof.wal.recovery import READ_AHEAD_KB

_OCTAL = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class Mount:
    """The mount that holds a folder."""

    point: Path
    filesystem: str
    options: str
    """Options of the mount and of the filesystem, separated by commas."""
    source: str
    """What is mounted, for instance ``/dev/vda1``; it means something only to the filesystem."""


def find_mount(folder: Path, mountinfo: Path = Path("/proc/self/mountinfo")) -> Mount | None:
    """The mount that holds the folder (proc(5), mountinfo); None when it is not listed."""
    target = folder.resolve()
    found: Mount | None = None
    for line in mountinfo.read_text().splitlines():
        left, _, right = line.partition(" - ")
        fields, (filesystem, source, filesystem_options) = left.split(), right.split(" ", 2)
        point = Path(_unescape(fields[4]))
        # The deepest mount wins, and of two on one folder the later one, which hides the other.
        if target.is_relative_to(point) and (found is None or len(point.parts) >= len(found.point.parts)):
            options = ",".join(dict.fromkeys([*fields[5].split(","), *filesystem_options.split(",")]))
            found = Mount(point, filesystem, options, _unescape(source))
    return found


def find_device(folder: Path) -> Path | None:
    """Folder in /sys/block of the disk under a folder; None if there is none, as on tmpfs, overlay or NFS.

    Partitions lead to their disk, and mapped devices (LVM, dm-crypt) to the disk below, when it is one disk.
    """
    try:
        number = folder.stat().st_dev
    except OSError:
        return None
    device = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")
    if not device.exists():
        # btrfs and others give each subvolume a number of its own; their mount still names a device.
        mount = find_mount(folder)
        if mount is None or not mount.source.startswith("/dev/"):
            return None
        try:
            number = Path(mount.source).stat().st_rdev
        except OSError:
            return None
        device = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")
        if not device.exists():
            return None
    device = device.resolve()
    while True:
        if (device / "partition").exists():
            device = device.parent
        slaves = list((device / "slaves").iterdir()) if (device / "slaves").is_dir() else []
        if len(slaves) != 1:
            return device
        device = slaves[0].resolve()


def find_read_ahead_kb(folder: Path) -> int:
    """How much the kernel reads at once from the disk under a folder, at most; its default if unknown."""
    device = find_device(folder)
    try:
        return READ_AHEAD_KB if device is None else int((device / "queue" / "read_ahead_kb").read_text())
    except (OSError, ValueError):
        return READ_AHEAD_KB


def _unescape(text: str) -> str:
    r"""Decode spaces and the like, which mountinfo writes as ``\040``."""
    return _OCTAL.sub(lambda match: chr(int(match[1], 8)), text)
