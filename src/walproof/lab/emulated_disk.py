"""The disk under a throw-away server: a slower one than this machine's (``--device``), or one that can lose
power while the server runs."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from walproof.disk.device import parse_device
from walproof.disk.simulated import STATE_FOLDER, DiskModel, SimulatedDisk
from walproof.postgres.workspace import Workspace

_UNDO_BYTES_MOST = 4 << 30


@contextmanager
def emulated_disk(
    workspace: Workspace, folder: Path, device: str | None, *, can_lose_power: bool = False
) -> Iterator[SimulatedDisk | None]:
    """The disk under ``folder``'s data, whose environment the server needs; None if it is this machine's.

    Raises DiskError.
    """
    if device is None and not can_lose_power:
        yield None
        return
    model = DiskModel(
        device=None if device is None else parse_device(device),
        tracking=can_lose_power,
        undo_bytes=_undo_bytes(),
    )
    state = STATE_FOLDER / f"{workspace.folder.name}-{folder.name}"
    with SimulatedDisk([folder / "data"], model, state, user=workspace.user) as disk:
        yield disk


def _undo_bytes() -> int:
    """More than by default if half of the memory file system has room for it.

    A server with small shared_buffers writes gigabytes between two flushes; of the log, only what is used
    takes memory.
    """
    room = shutil.disk_usage(STATE_FOLDER).free // 2
    return max(DiskModel().undo_bytes, min(room, _UNDO_BYTES_MOST))
