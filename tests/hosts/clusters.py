"""Ray clusters of several nodes on this machine, each of which stands for a machine of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from ray._private.node import Node
    from ray.cluster_utils import Cluster

TOKEN = "0123456789abcdef" * 4
ENVIRONMENT = {
    "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": TOKEN, "RAY_USAGE_STATS_ENABLED": "0",
    # A busy machine takes longer than the 30 s that Ray waits for a node.
    "RAY_raylet_start_wait_time_s": "300",
}  # fmt: skip
HOSTS = ("elm", "oak")
_STORE_BYTES = 80 << 20


@contextmanager
def cluster(hosts: Mapping[str, Mapping[str, str]] | None = None) -> Iterator[str]:
    """The address of a cluster that asks for a token; nothing of it is left at the end.

    ``hosts``: name -> what is set in its environment; None: two hosts.
    """
    hosts = {name: {} for name in HOSTS} if hosts is None else hosts
    with nodes(()) as made:
        for name, more in hosts.items():
            made.add(name, more)
        yield made.cluster.address


class Nodes:
    """A cluster on this machine, of nodes that have names of machines."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster, self._folder = cluster, folder

    def add_head(self) -> Node:
        """Start the node of the cluster itself, which is no host; it comes first."""
        node: Node = self.cluster.add_node(
            wait=False, num_cpus=0, object_store_memory=_STORE_BYTES, include_dashboard=False,
            temp_dir=str(self._folder),
        )  # fmt: skip
        return node

    def add(self, name: str, more: Mapping[str, str] | None = None) -> Node:
        """Start a node, which is a host of that name; ``more`` is set in its environment."""
        node: Node = self.cluster.add_node(
            wait=False, num_cpus=1, resources={"walproof_host": 1}, object_store_memory=_STORE_BYTES,
            include_dashboard=False, temp_dir=str(self._folder),
            env_vars={"WALPROOF_MACHINE": name, **(more or {})},
        )  # fmt: skip
        return node


@contextmanager
def nodes(names: Sequence[str]) -> Iterator[Nodes]:
    """A cluster as ``cluster`` makes it, with nodes of these names."""
    # Paths of its sockets must be short.
    folder = Path(tempfile.mkdtemp(prefix="wpray"))
    os.environ.update(ENVIRONMENT)
    # Ray's test cluster writes its address into Ray's default folder, whatever ``temp_dir`` says,
    # and does not make that folder.
    os.environ["RAY_TMPDIR"] = str(folder)
    (folder / "ray").mkdir()
    from ray.cluster_utils import Cluster

    made = Nodes(Cluster(), folder)
    try:
        for name in names:
            made.add(name)
        yield made
    finally:
        made.cluster.shutdown()  # type: ignore[no-untyped-call]
        for process in _processes(folder):  # of a node that did not come up
            process.kill()
        assert processes_of(folder) == []
        shutil.rmtree(folder)
        for name in (*ENVIRONMENT, "RAY_TMPDIR"):
            os.environ.pop(name, None)


def processes_of(folder: Path) -> list[str]:
    """Processes of the cluster that live after a short while."""
    deadline = time.monotonic() + 30
    while (found := _processes(folder)) and time.monotonic() < deadline:
        time.sleep(0.2)
    return [" ".join(process.info["cmdline"])[:120] for process in found]


def _processes(folder: Path) -> list[psutil.Process]:
    return [
        process
        for process in psutil.process_iter(["pid", "cmdline", "status"])
        if any(str(folder) in word for word in process.info["cmdline"] or [])
        and process.info["status"] != psutil.STATUS_ZOMBIE
    ]


@contextmanager
def open_head() -> Iterator[str]:
    """The address of a head, without any node, that lets in whoever comes."""
    import ray
    from ray._private.services import GCS_SERVER_EXECUTABLE

    with tempfile.TemporaryDirectory(prefix="wpgcs") as folder:
        process = subprocess.Popen(
            [
                GCS_SERVER_EXECUTABLE, f"--log_dir={folder}", "--config_list=e30=", "--gcs_server_port=0",
                "--metrics-agent-port=0", "--node-ip-address=127.0.0.1", "--session-name=open",
                f"--ray-commit={ray.__commit__}", f"--session-dir={folder}", f"--node-id={'0' * 56}",
            ],
            env={**os.environ, "RAY_AUTH_MODE": "disabled"},
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            yield f"127.0.0.1:{_port(process)}"
        finally:
            process.kill()
            process.wait()


def _port(process: subprocess.Popen[bytes]) -> int:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        for connection in psutil.Process(process.pid).net_connections("tcp"):
            if connection.status == psutil.CONN_LISTEN:
                return int(connection.laddr.port)
        time.sleep(0.05)
    raise AssertionError(f"no port; exit status {process.poll()}")
