"""What ``walproof watch`` costs a saturated primary: throughput of slices with it over slices without.

    PYTHONPATH=. python bench/watch/cost.py [--pairs 30] [--seconds 20] [--pg 18] [--minutes N]

One load runs all the time on one server, with as many clients as the machine has processors twice over and
synchronous_commit=off, so that processors are what it lacks. Slices come in pairs, one with the watch and one
without, in a drawn order; each begins after a checkpoint, so that its page images are alike, and after the
watch has come to the end of WAL. The watch runs on the same machine: what it computes is taken from the load,
too, where a watch on another machine would take only its walsender and its questions. So the CPU of both is
counted and printed. A pair is a line of JSON in --out when it is over; the same command goes on where it was
stopped, and sums up all that are there.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import psutil

from bench.recovery.workloads import WORKLOADS
from bench.rows import read_rows
from bench.watch.loaded import LoadedServer, loaded_server
from walproof.analysis.interval import mean_interval
from walproof.postgres.install import find
from walproof.postgres.reach import reachable_install
from walproof.postgres.workspace import Workspace
from walproof.privilege.user import server_user

SETTINGS = {
    "fsync": "on", "synchronous_commit": "off", "max_wal_size": "20GB", "checkpoint_timeout": "1h",
    "shared_buffers": "256MB", "max_wal_senders": "10", "autovacuum_naptime": "10s",
}  # fmt: skip
_PATIENCE_S = 120.0
_OWN_SLOT = "SELECT active_pid FROM pg_replication_slots WHERE slot_name LIKE 'walproof%' AND active"


@dataclass(frozen=True, slots=True)
class Slice:
    """What the server did in a slice, and what the watch took."""

    seconds: float
    transactions: int
    wal_bytes: int
    watch_cpu_s: float = 0.0
    walsender_cpu_s: float = 0.0

    @property
    def tps(self) -> float:
        """Transactions a second."""
        return self.transactions / self.seconds


class Watch:
    """The command in a process of its own, from which lines are read."""

    def __init__(self, server: LoadedServer) -> None:
        self._server = server
        self._process = subprocess.Popen(
            [sys.executable, "-m", "walproof", "watch", server.conninfo, "--json"],
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self._live = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        if not self._live.wait(_PATIENCE_S):
            self.stop()
            raise SystemExit("the watch did not come to the end of WAL")
        with server.cluster.connect() as session:
            row = session.execute(_OWN_SLOT).fetchone()
        assert row is not None
        self._own = psutil.Process(self._process.pid)
        self._walsender = psutil.Process(int(str(row[0])))

    def cpu_s(self) -> tuple[float, float]:
        """(its own, its walsender's)."""
        watcher, walsender = self._own.cpu_times(), self._walsender.cpu_times()
        return watcher.user + watcher.system, walsender.user + walsender.system

    def stop(self) -> None:
        """As Ctrl-C."""
        self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if json.loads(line)["stream"]["phase"] == "live":
                self._live.set()


def main() -> None:
    """Run the pairs that are asked for, or those for which there is time, and print what they say."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pg", default="18")
    parser.add_argument("--pairs", type=int, default=30)
    parser.add_argument("--seconds", type=float, default=20.0, help="length of a slice")
    parser.add_argument("--minutes", type=float, help="begin no pair after so long")
    parser.add_argument("--on", type=Path, default=Path("/var/tmp/walproof-watch"))
    parser.add_argument("--out", type=Path, default=Path("bench/watch/cost.jsonl"))
    given = parser.parse_args()
    rows = read_rows(given.out) if given.out.exists() else []
    if len(rows) < given.pairs:
        _run(given, rows)
    _summarise(rows)


def _run(given: argparse.Namespace, rows: list[dict[str, Any]]) -> None:
    """The pairs that are missing."""
    until_s = math.inf if given.minutes is None else time.monotonic() + 60 * given.minutes
    user = server_user()
    install = reachable_install(find(given.pg), user)
    tpcb = next(workload for workload in WORKLOADS if workload.name == "tpcb")
    load = replace(tpcb, clients=2 * (os.cpu_count() or 1))
    chance = random.Random(int(time.time()))
    with (
        Workspace(given.on, user) as workspace,
        loaded_server(install, workspace, load, SETTINGS) as server,
        _running(server),
    ):
        _slice(server, given.seconds, None)  # caches fill
        while len(rows) < given.pairs and time.monotonic() < until_s:
            order = [True, False]
            chance.shuffle(order)
            found = {}
            for is_watched in order:
                with _watch(server) if is_watched else nullcontext() as watch:
                    found[is_watched] = _slice(server, given.seconds, watch)
            rows.append(_row(install.version, order, found[True], found[False]))
            with given.out.open("a") as file:
                file.write(json.dumps(rows[-1]) + "\n")
            print(f"pair {len(rows)}: {found[True].tps:,.0f} / {found[False].tps:,.0f} tps", flush=True)


@contextmanager
def _running(server: LoadedServer) -> Iterator[None]:
    """The load, again and again."""
    stopping = threading.Event()

    def run() -> None:
        while not stopping.is_set():
            server.burst(5)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join(30.0)


@contextmanager
def _watch(server: LoadedServer) -> Iterator[Watch]:
    with server.cluster.connect() as session:
        session.execute("CHECKPOINT")
    watch = Watch(server)
    try:
        yield watch
    finally:
        watch.stop()


def _slice(server: LoadedServer, seconds: float, watch: Watch | None) -> Slice:
    with server.cluster.connect() as session:
        session.execute("CHECKPOINT")
        before, taken = _counted(session), (0.0, 0.0) if watch is None else watch.cpu_s()
        time.sleep(seconds)
        after, left = _counted(session), (0.0, 0.0) if watch is None else watch.cpu_s()
    return Slice(
        after[0] - before[0], round(after[1] - before[1]), round(after[2] - before[2]),
        left[0] - taken[0], left[1] - taken[1],
    )  # fmt: skip


def _counted(session: Any) -> tuple[float, float, float]:
    """(observer's clock, transactions that were committed, position in the WAL): of pgbench's own table."""
    row = session.execute(
        "SELECT (SELECT n_tup_ins FROM pg_stat_user_tables WHERE relname = 'pgbench_history'),"
        " (pg_current_wal_lsn() - '0/0')::int8"
    ).fetchone()
    return time.monotonic(), float(row[0]), float(row[1])


def _row(version: str, order: list[bool], watched: Slice, alone: Slice) -> dict[str, Any]:
    return {
        "version": version, "watched_first": order[0], "tps": watched.tps, "tps_without": alone.tps,
        "wal_bytes_per_s": watched.wal_bytes / watched.seconds,
        "watch_cpu_share": watched.watch_cpu_s / watched.seconds,
        "walsender_cpu_share": watched.walsender_cpu_s / watched.seconds, "seconds": watched.seconds,
    }  # fmt: skip


def _summarise(rows: list[dict[str, Any]]) -> None:
    if not rows:
        return
    logs = [math.log(row["tps"] / row["tps_without"]) for row in rows]
    interval = mean_interval(logs)
    text = f"{len(rows)} pairs: with / without {math.exp(fmean(logs)):.4f}x"
    if interval is not None:
        ratio = interval.exp()
        text += f" ({ratio.low:.4f} to {ratio.high:.4f}, 95 %)"
    wal, watch, walsender = (
        fmean([row[name] for row in rows])
        for name in ("wal_bytes_per_s", "watch_cpu_share", "walsender_cpu_share")
    )
    text += f"; {wal / 1e6:.1f} MB/s of WAL; of a core: the watch {watch:.1%}, its walsender {walsender:.1%}"
    print(text)


if __name__ == "__main__":
    main()
