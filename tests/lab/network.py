"""A network that a test may cut: a namespace and a pair of virtual devices, which need root and iproute2."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest


@dataclass(frozen=True, slots=True)
class Network:
    """A namespace that is reached at ``address``."""

    namespace: str
    address: str
    device: str
    """This side's end."""

    def cut(self) -> None:
        """Drop all packets from now on; neither side is told."""
        _ip("link", "set", self.device, "down")


@contextmanager
def network() -> Iterator[Network]:
    """Make a namespace, and remove it and its devices afterwards."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("a network namespace needs root and iproute2")
    token = secrets.token_hex(4)
    name, here, there = f"walproof-{token}", f"wp{token}", f"wq{token}"
    # Of the addresses that are set aside for measurements (RFC 2544).
    subnet = f"198.18.{secrets.randbelow(256)}.{4 * secrets.randbelow(64)}".rsplit(".", 1)
    mine, yours = (f"{subnet[0]}.{int(subnet[1]) + offset}" for offset in (1, 2))
    _ip("netns", "add", name)
    try:
        _ip("link", "add", here, "type", "veth", "peer", "name", there, "netns", name)
        try:
            _ip("addr", "add", f"{mine}/30", "dev", here)
            _ip("link", "set", here, "up")
            _ip("-n", name, "addr", "add", f"{yours}/30", "dev", there)
            _ip("-n", name, "link", "set", there, "up")
            _ip("-n", name, "link", "set", "lo", "up")
            yield Network(name, yours, here)
        finally:
            # Both ends go with one; the namespace's own would live as long as a socket in it.
            _ip("link", "del", here)
    finally:
        _ip("netns", "del", name)


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"ip {' '.join(words)}: {done.stderr}"
