"""A connection to a Ray cluster, opened only after the cluster was found to be safe (``safety.py``)."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from walproof.errors import HostError, first_line
from walproof.hosts.safety import check_hosts, check_port
from walproof.hosts.task import HostMachine, look_around

if TYPE_CHECKING:
    from types import ModuleType

_PATIENCE_S = 180.0
"""Patience with the first task on a node, which starts a process there."""
WITH_SERVERS = {"env_vars": {"RAY_kill_child_processes_on_worker_exit": "false", "RAY_worker_niceness": "0"}}
"""``runtime_env`` of workers that have servers. By default Ray kills the children of a worker that ends,
among them the watchdog, which stops servers in order, frees their shared memory and removes their files. Ray
also raises the nice value of a worker by 15, which servers and pgbench would inherit."""


@dataclass(frozen=True, slots=True)
class Host:
    """A node of the cluster and what a task found there."""

    node_id: str
    address: str
    """IP address of its raylet."""
    cores: int
    """CPUs that Ray may use there; 0 for a node that only does the work of the cluster itself."""
    is_lab: bool
    """Whether it was started with the resource ``walproof_host``."""
    machine: HostMachine


@dataclass(frozen=True, slots=True)
class RayCluster:
    """A connected cluster."""

    hosts: tuple[Host, ...]

    @property
    def cores(self) -> int:
        """CPUs of all hosts."""
        return sum(host.cores for host in self.hosts)


@contextmanager
def connected(address: str, *, insecure: bool = False) -> Iterator[RayCluster]:
    """Connect to the cluster whose head listens at ``address`` (HOST:PORT) from one of its nodes.

    Raises HostError when Ray is missing, no cluster answers, the cluster is not safe (unless ``insecure``),
    or hosts have another version of walproof.
    """
    ray = _library()
    check_port(address, insecure=insecure)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        _connect(ray, address)
        # Ray replaces the driver's signal handlers; ours tell the user what is kept.
        for number, handler in handlers.items():
            signal.signal(number, handler)
        cluster = RayCluster(_hosts(ray))
        check_hosts([host.machine for host in cluster.hosts], insecure=insecure)
        with signals_heard():
            yield cluster
    finally:
        ray.shutdown()


@contextmanager
def signals_heard() -> Iterator[None]:
    """Raise what a signal's handler raised while Ray waited: Ray makes it the cause of a SystemError."""
    try:
        yield
    except SystemError as error:
        if error.__cause__ is None:
            raise
        raise error.__cause__ from None


def _library() -> ModuleType:
    # Ray must not report anything about a run (docs.ray.io, "Usage Stats Collection").
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError as error:
        raise HostError(
            "many machines need Ray, which is not installed",
            detail=str(error),
            hint='pip install "walproof[hosts]", here and on every host.',
        ) from None
    return ray


def _connect(ray: ModuleType, address: str) -> None:
    from ray.exceptions import AuthenticationError

    try:
        ray.init(
            address=address, logging_level=logging.ERROR, log_to_driver=False, configure_logging=False,
            include_dashboard=False, namespace="walproof",
        )  # fmt: skip
    except AuthenticationError:
        raise HostError(
            f"Ray at {address} does not accept our token",
            hint="The cluster's token is in ~/.ray/auth_token, RAY_AUTH_TOKEN or the file that "
            "RAY_AUTH_TOKEN_PATH names; this machine needs it too. "
            "docs/many-machines.md says how to copy it.",
        ) from None
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        raise HostError(
            f"could not join the Ray cluster at {address}",
            detail=first_line(error),
            hint="Start walproof on a node of the cluster: on the head, or after "
            f'"ray start --address={address}" here.',
        ) from None


def _hosts(ray: ModuleType) -> tuple[Host, ...]:
    """All live nodes by address; a task asks each. Raises HostError."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    nodes = [node for node in ray.nodes() if node["Alive"]]
    task = ray.remote(num_cpus=0, max_retries=1)(look_around)
    asked = {
        node["NodeID"]: task.options(
            scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        ).remote(node["NodeManagerAddress"])
        for node in nodes
    }
    _, silent = ray.wait(list(asked.values()), num_returns=len(asked), timeout=_PATIENCE_S)
    found = []
    for node in nodes:
        node_id, at = node["NodeID"], node["NodeManagerAddress"]
        if asked[node_id] in silent:
            raise HostError(
                f"host {at} did not answer within {_PATIENCE_S:.0f} s",
                hint=f'"ray status --address" shows the cluster; logs are in /tmp/ray on {at}.',
            )
        try:
            machine = ray.get(asked[node_id])
        except ray.exceptions.RayError as error:
            raise HostError(
                f"host {at} could not run a task",
                detail=last_line(error),
                hint="It needs the same walproof with the same Python as this machine: "
                'pip install "walproof[hosts]".',
            ) from None
        resources = node["Resources"]
        found.append(
            Host(node_id, at, int(resources.get("CPU", 0)), resources.get("walproof_host", 0) >= 1, machine)
        )
    return tuple(sorted(found, key=lambda host: (host.address, host.node_id)))


def last_line(error: BaseException) -> str:
    """The last line of what Ray says of an error: its reason."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
