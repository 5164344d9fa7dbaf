"""The disk under a throw-away server: a slower one than this machine's (``--device``), or one that can lose
power while the server runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from walproof.disk.device import parse_device
from walproof.disk.simulated import STATE_FOLDER, DiskModel, SimulatedDisk
from walproof.postgres.workspace import Workspace


@contextmanager
def emulated_disk(
    workspace: Workspace, folder: Path, device: str | None, *, can_lose_power: bool = False
) -> Iterator[SimulatedDisk | None]:
    """The disk under ``folder``'s data, whose environment the server needs; None where it is this machine's.

    Raises DiskError.
    """
    if device is None and not can_lose_power:
        yield None
        return
    model = DiskModel(device=None if device is None else parse_device(device), tracking=can_lose_power)
    state = STATE_FOLDER / f"{workspace.folder.name}-{folder.name}"
    with SimulatedDisk([folder / "data"], model, state, owner=workspace.owner) as disk:
        yield disk
