"""What a task sees of the machine it runs on: a plain function, which Ray calls on every node."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from pathlib import Path

from walproof import __version__

MACHINE_VARIABLE = "WALPROOF_MACHINE"
"""Names the machine in place of its boot id, where the boot id is hidden or several nodes stand for separate
machines."""


@dataclass(frozen=True, slots=True)
class HostMachine:
    """What has to be known about a machine before it is given work."""

    name: str
    address: str
    """IP address at which the cluster reaches it."""
    boot_id: str
    """Identifies the machine until it reboots; the same for all its raylets and containers."""
    walproof_version: str
    is_root: bool


def boot_id() -> str:
    """Which machine this is: the random number that the kernel made at this boot (``random(4)``)."""
    if named := os.environ.get(MACHINE_VARIABLE):
        return named
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return socket.gethostname()


def look_around(address: str) -> HostMachine:
    """Describe this machine, which the cluster knows by ``address``."""
    return HostMachine(
        name=os.environ.get(MACHINE_VARIABLE) or socket.gethostname(),
        address=address,
        boot_id=boot_id(),
        walproof_version=__version__,
        is_root=os.geteuid() == 0,
    )
