"""Whether a Ray cluster may be given work: Ray runs whatever reaches its ports, as the user who started it.

The checks are those that can be made from outside: the head refuses a client without a token, no node listens
on a public address, and tasks do not run as root.
"""

from __future__ import annotations

import ipaddress
import socket
import subprocess
import sys
from collections.abc import Sequence

from walproof import __version__
from walproof.errors import HostError
from walproof.hosts import knock
from walproof.hosts.task import HostMachine
from walproof.privilege.environment import child_environment

_CONNECT_S = 5.0
_KNOCK_S = 60.0
_ANYWAY = "If nobody else can reach these machines, --insecure continues anyway."


def check_port(address: str, *, insecure: bool) -> None:
    """Check the head from outside, before anything connects to it. Raises HostError."""
    host, port = _parsed(address)
    try:
        with socket.create_connection((host, port), timeout=_CONNECT_S):
            pass
    except OSError as error:
        raise HostError(
            f"could not connect to Ray at {address}: {error.strerror or error}",
            hint='Use the address that "ray start --head" prints: HOST:6379.',
        ) from None
    done = subprocess.run(
        [sys.executable, "-P", "-m", "walproof.hosts.knock", address],
        capture_output=True, text=True, check=False, timeout=_KNOCK_S, env=child_environment(),
    )  # fmt: skip
    if done.returncode == knock.OPEN and not insecure:
        raise HostError(
            f"the Ray cluster at {address} is open: it runs what anybody sends to its port",
            detail="It answered a request without a token.",
            hint='Start it with RAY_AUTH_MODE=token (SECURITY.md, "Many machines"). ' + _ANYWAY,
        )
    if done.returncode not in (knock.OPEN, knock.CLOSED):
        raise HostError(
            f"what listens at {address} is not a Ray head of our version",
            detail=(done.stdout.strip() or done.stderr.strip()).splitlines()[-1:][0]
            if done.stdout.strip() or done.stderr.strip()
            else None,
            hint='All machines need the same Ray: pip install "walproof[hosts]".',
        )


def _parsed(address: str) -> tuple[str, int]:
    host, colon, port = address.rpartition(":")
    if "://" in address or not colon or not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise HostError(
            f'"{address}" is not the address of a Ray head',
            hint="--ray takes HOST:PORT, as in 10.0.0.5:6379; walproof runs on a node of the cluster.",
        )
    return host.strip("[]"), int(port)


def check_hosts(machines: Sequence[HostMachine], *, insecure: bool) -> None:
    """Check versions, addresses and users of all hosts, and name all problems at once. Raises HostError."""
    others = [machine for machine in machines if machine.walproof_version != __version__]
    if others:
        raise HostError(
            f"hosts have another version of walproof than this machine's {__version__}",
            detail="; ".join(
                f"{machine.name} ({machine.address}): {machine.walproof_version}" for machine in others
            ),
            hint="Install the same version everywhere: a run has to mean the same on every host.",
        )
    if insecure:
        return
    unsafe = [
        f"{machine.name} ({machine.address}): {reason}"
        for machine in machines
        for reason in _reasons(machine)
    ]
    if unsafe:
        raise HostError(
            "hosts of the cluster are not safe to use",
            detail="\n".join(unsafe),
            hint='SECURITY.md, "Many machines", says how to start a cluster. ' + _ANYWAY,
        )


def _reasons(machine: HostMachine) -> list[str]:
    reasons = []
    if not ipaddress.ip_address(machine.address).is_private:
        reasons.append("listens on a public address")
    if machine.is_root:
        reasons.append("runs tasks as root")
    return reasons
