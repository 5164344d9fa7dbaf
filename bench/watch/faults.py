"""What ``walproof watch`` survives: each fault at random moments, while the server is under load.

    PYTHONPATH=. python bench/watch/faults.py [--times 20] [--only restart,cut] [--pg 18] [--seed N]

The command runs with a history and looks at a server through a link. A fault begins at a random moment and
lasts a random time; then the watch has to be back within a minute: the server answers, WAL is streamed to its
end, and the crash clock is known. At the end it has left no slot, and its memory has not grown.

    restart    the server is stopped and started          crash     every process of it is killed
    cut        the connection is cut                      silence   what is sent does not arrive
    kill       the watch itself is killed with -9         full      its history's disk takes no more
    rights     pg_monitor is revoked and granted again    failover  a standby of it is promoted
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil
import psycopg

from tests.postgres.replication import query, run, running_primary
from walproof.postgres.cluster import Cluster
from walproof.postgres.install import find
from walproof.postgres.link import Link
from walproof.postgres.reach import reachable_install
from walproof.postgres.standby import Standby
from walproof.postgres.workspace import Workspace
from walproof.privilege.user import server_user

BACK_S = 60.0
GROWTH_BYTES = 40 << 20
"""What memory may grow by after the first fault: caches of the interpreter and of libraries."""
SETTINGS = {
    "fsync": "off", "max_wal_senders": "10", "max_replication_slots": "10", "wal_keep_size": "256MB",
    "max_wal_size": "128MB",
}  # fmt: skip
WATCHER = "watcher"
OWN_SLOTS = "SELECT count(*) FROM pg_replication_slots WHERE slot_name LIKE 'walproof%'"


class Watched:
    """The command, and the last line that it wrote."""

    def __init__(self, conninfo: str, history: Path) -> None:
        self._arguments = [sys.executable, "-m", "walproof", "watch", conninfo, "--json", "--every", "500ms",
                           "--history", str(history)]  # fmt: skip
        self.start()

    def start(self) -> None:
        """Start the command again, as systemd would."""
        self.process = subprocess.Popen(
            self._arguments, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self.last: dict[str, Any] = {}
        threading.Thread(target=self._read, args=(self.process,), daemon=True).start()

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self.last = json.loads(line)

    @property
    def is_well(self) -> bool:
        """Whether the watch sees everything."""
        last = self.last
        return bool(last) and last["no_answer"] is None and last["crash"] is not None and (
            last["stream"]["phase"] == "live" and not last["lacks"]
        )  # fmt: skip

    def resident_bytes(self) -> int:
        """Resident memory of the command."""
        return int(psutil.Process(self.process.pid).memory_info().rss)


class Scene:
    """Run a pair, its load, and the watch on it."""

    def __init__(self, stack: ExitStack, pg: str, on: Path) -> None:
        user = server_user()
        install = reachable_install(find(pg), user)
        self.workspace = stack.enter_context(Workspace(on, user))
        self.primary: Cluster = stack.enter_context(running_primary(install, self.workspace, SETTINGS))
        self.link = stack.enter_context(Link(self.workspace, self.primary))
        run(self.primary, f"CREATE ROLE {WATCHER} LOGIN REPLICATION IN ROLE pg_monitor",
            "CREATE TABLE t (i int, filler text)")  # fmt: skip
        self._stopping = threading.Event()
        self._writer = threading.Thread(target=self._write, daemon=True)
        self._writer.start()
        stack.callback(self._stop_writing)
        route = f"{self.link.route} user={WATCHER} dbname=postgres"
        self.watched = Watched(route, self.workspace.make_folder("history") / "h.sqlite")
        stack.callback(self._stop_watch)

    def _write(self) -> None:
        while not self._stopping.wait(0.1):
            try:
                with psycopg.connect(self.primary.conninfo, autocommit=True) as session:
                    while not self._stopping.wait(0.1):
                        session.execute(
                            "INSERT INTO t SELECT i, repeat('x', 900) FROM generate_series(1, 150) i"
                        )
            except psycopg.Error:
                continue

    def _stop_writing(self) -> None:
        self._stopping.set()
        self._writer.join()

    def _stop_watch(self) -> None:
        self.watched.process.kill()
        self.watched.process.wait()


def restart(scene: Scene, seconds: float) -> None:
    """Restart the server, as for a new minor version."""
    scene.primary.stop("fast")
    time.sleep(seconds)
    scene.primary.start(SETTINGS)


def crash(scene: Scene, seconds: float) -> None:
    """Kill a process of the server, as the kernel does when memory runs out."""
    scene.primary.kill()
    scene.primary.forget_postmaster()
    time.sleep(seconds)
    scene.primary.start(SETTINGS)


def cut(scene: Scene, seconds: float) -> None:
    """Cut the connection, as an unplugged cable does."""
    scene.link.sever()
    time.sleep(seconds)
    scene.link.mend()


def silence(scene: Scene, seconds: float) -> None:
    """Let nothing arrive, as behind a firewall that forgets connections."""
    scene.link.shape(delay_s=3600.0)
    time.sleep(seconds + 5.0)
    scene.link.shape()
    scene.link.sever()
    scene.link.mend()


def kill(scene: Scene, seconds: float) -> None:
    """Kill the watch; its slot goes with its session."""
    scene.watched.process.kill()
    scene.watched.process.wait()
    _wait(lambda: query(scene.primary, OWN_SLOTS) == "0", "its slot was not dropped")
    time.sleep(seconds)
    scene.watched.start()


def full(scene: Scene, seconds: float) -> None:
    """Let no byte be added to the history's file."""
    pid, before = (
        scene.watched.process.pid,
        resource.prlimit(scene.watched.process.pid, resource.RLIMIT_FSIZE),
    )
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        _wait(lambda: "cannot be written" in str(scene.watched.last.get("notes")), "it was not said")
        time.sleep(seconds)
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, before)
    _wait(
        lambda: "cannot be written" not in str(scene.watched.last.get("notes")),
        "it was not written again",
    )


def rights(scene: Scene, seconds: float) -> None:
    """Revoke pg_monitor; the watch has to name what is missing."""
    run(scene.primary, f"REVOKE pg_monitor FROM {WATCHER}")
    _wait(lambda: bool(scene.watched.last.get("lacks")), "nothing was said to be missing")
    time.sleep(seconds)
    run(scene.primary, f"GRANT pg_monitor TO {WATCHER}")


def failover(scene: Scene, seconds: float) -> None:
    """Promote the standby; a watch of both hosts follows the server that accepts writes."""
    with ExitStack() as stack:
        standby = Standby(scene.primary, scene.workspace, f"standby_{time.monotonic_ns()}")
        standby.build()
        standby.start(SETTINGS)
        stack.callback(standby.stop, "immediate")
        servers = (scene.primary, standby)
        both = (
            f"host={','.join(str(server.sockets) for server in servers)} "
            f"port={','.join(str(server.port) for server in servers)} "
            f"user={WATCHER} dbname=postgres target_session_attrs=read-write"
        )
        watched = Watched(both, scene.workspace.make_folder(f"history-{time.monotonic_ns()}") / "h.sqlite")
        stack.callback(watched.process.wait)
        stack.callback(watched.process.kill)
        _wait(lambda: watched.is_well, "the watch of both did not begin")
        time.sleep(seconds)
        scene.primary.stop("immediate")
        standby.promote()
        _wait(
            lambda: watched.is_well and not watched.last["is_in_recovery"], "it did not follow the failover"
        )
        run(standby, "CHECKPOINT")
        _wait(lambda: watched.is_well, "it was not well after the failover's checkpoint")
    # The one before goes on as it was: nobody but this bench knew of the other.
    scene.primary.start(SETTINGS)
    run(scene.primary, f"SELECT pg_drop_replication_slot('{standby.name}')")
    scene.workspace.remove_folder(standby.folder)


FAULTS: tuple[Callable[[Scene, float], None], ...] = (
    restart, crash, cut, silence, kill, full, rights, failover,
)  # fmt: skip


def _wait(is_so: Callable[[], bool], otherwise: str) -> float:
    """Wait for a condition; return the seconds that it took. Ends the bench if it does not come true."""
    begun_s = time.monotonic()
    while not is_so():
        if time.monotonic() - begun_s > BACK_S:
            raise SystemExit(otherwise)
        time.sleep(0.05)
    return time.monotonic() - begun_s


def main() -> None:
    """A line for each fault; status 1 and what went wrong when one was not survived."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )  # fmt: skip
    parser.add_argument("--pg", default="18")
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--only", default="", help="faults, with commas between them")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--on", type=Path, default=Path("/var/tmp/walproof-watch"))
    given = parser.parse_args()
    chance = random.Random(given.seed)
    chosen = [fault for fault in FAULTS if not given.only or fault.__name__ in given.only.split(",")]
    order = [fault for fault in chosen for _ in range(given.times)]
    chance.shuffle(order)
    print(f"seed {given.seed}")
    with ExitStack() as stack:
        scene = Scene(stack, given.pg, given.on)
        _wait(lambda: scene.watched.is_well, "the watch did not begin")
        first: dict[int, int] = {}
        for number, fault in enumerate(order, start=1):
            time.sleep(chance.uniform(0.0, 3.0))
            fault(scene, chance.uniform(0.0, 4.0))
            took_s = _wait(lambda: scene.watched.is_well, f"{fault.__name__}: the watch is not back")
            pid, resident = scene.watched.process.pid, scene.watched.resident_bytes()
            first.setdefault(pid, resident)
            print(f"{number} of {len(order)}: {fault.__name__}: back after {took_s:.1f} s, "
                  f"{resident / 1e6:.0f} MB", flush=True)  # fmt: skip
            if resident > first[pid] + GROWTH_BYTES:
                raise SystemExit(f"its memory grew from {first[pid] / 1e6:.0f} to {resident / 1e6:.0f} MB")
        scene.watched.process.kill()
        _wait(lambda: query(scene.primary, OWN_SLOTS) == "0", "a slot was left")
    print(f"all of {len(order)} were survived")


if __name__ == "__main__":
    main()
