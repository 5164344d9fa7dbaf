"""A server on a slower disk than this machine's: its flushes take the time of a device (``--device``)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from walproof.disk.device import parse_device
from walproof.disk.simulated import STATE_FOLDER, DiskModel, SimulatedDisk
from walproof.postgres.workspace import Workspace


@contextmanager
def emulated_disk(workspace: Workspace, folder: Path, device: str | None) -> Iterator[dict[str, str]]:
    """The environment that a server on ``folder``'s data needs; empty without a device. Raises DiskError."""
    if device is None:
        yield {}
        return
    model = DiskModel(device=parse_device(device), tracking=False)
    state = STATE_FOLDER / f"{workspace.folder.name}-{folder.name}"
    with SimulatedDisk([folder / "data"], model, state, owner=workspace.owner) as disk:
        yield disk.environment
