"""What a task sees of the machine that it runs on: a plain function, which Ray calls on every node."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from pathlib import Path

from walproof import __version__

MACHINE_VARIABLE = "WALPROOF_MACHINE"
"""Names the machine in place of its boot id: where a boot id is hidden, or several nodes stand for machines
of their own."""


@dataclass(frozen=True, slots=True)
class HostMachine:
    """What has to be known before a machine is given work."""

    name: str
    address: str
    """IP address at which the cluster reaches it."""
    boot_id: str
    """The same for all raylets and containers of one machine, until it starts again."""
    walproof_version: str
    is_root: bool


def boot_id() -> str:
    """Which machine this is: the kernel's random number of this start (``random(4)``)."""
    if named := os.environ.get(MACHINE_VARIABLE):
        return named
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return socket.gethostname()


def look_around(address: str) -> HostMachine:
    """This machine, which the cluster knows by ``address``."""
    return HostMachine(
        name=os.environ.get(MACHINE_VARIABLE) or socket.gethostname(),
        address=address,
        boot_id=boot_id(),
        walproof_version=__version__,
        is_root=os.geteuid() == 0,
    )
