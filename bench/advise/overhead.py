"""What a look of ``walproof advise`` costs a saturated server, by slices.

    PYTHONPATH=. python bench/advise/overhead.py [--pg 16] [--rounds 12] [--slice 20] [--walinspect]

One server under as many clients of pgbench as keep it busy. A round has three slices in an order drawn from
the seed: with a look, with a pg_receivewal, which is what any receiver of WAL costs, and with neither.
Transactions are those that the server counts. A cost is the mean of the logarithms of the rounds' ratios,
with a 95 % interval of Student's t. With ``--walinspect`` the looker may not stream, and pg_walinspect is
asked. Each round is appended to ``--results`` when it is over; the same command goes on where it was stopped.

Both run on the server's machine and take their CPU from the load; from another machine only what their
sessions (walsender and queries) take would be missing. So the CPU of client and sessions is printed.

Such a figure means something on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import psutil

from bench.advise.servers import LOOKER, Server, laboratory
from bench.rows import read_rows
from walproof.analysis.interval import mean_interval
from walproof.privilege.environment import child_environment

SETTINGS = {
    "shared_buffers": "256MB", "max_wal_size": "1GB", "checkpoint_timeout": "5min", "autovacuum": "off",
    "wal_keep_size": "512MB",
}  # fmt: skip
_SETTLE_S = 2.0
"""Before a slice, for a look to connect and for the last one to be gone."""
_COMMITS = "SELECT sum(xact_commit) FROM pg_stat_database"


def main() -> None:  # noqa: D103
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--pg", default="16")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--slice", type=float, default=20.0, metavar="SECONDS")
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--scale", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--walinspect", action="store_true")
    parser.add_argument("--results", type=Path)
    parser.add_argument("--work", type=Path, default=Path("/tmp/walproof-bench-overhead"))
    given = parser.parse_args()
    rights = (
        ("CREATE EXTENSION pg_walinspect", f"ALTER ROLE {LOOKER} NOREPLICATION",
         f"GRANT pg_read_server_files TO {LOOKER}")
        if given.walinspect else ()
    )  # fmt: skip
    rows = read_rows(given.results) if given.results is not None and given.results.exists() else []
    if len(rows) < given.rounds:
        _run(given, rights, rows)
    for name in BESIDE:
        print(_told(name, rows))


def _run(given: argparse.Namespace, rights: tuple[str, ...], rows: list[dict[str, Any]]) -> None:
    """The rounds that are missing."""
    drawn = random.Random(given.seed + len(rows))
    with laboratory(given.work) as made, made.server(given.pg, SETTINGS, *rights) as server:
        server.fill(given.scale)
        with server.load(
            "-c", str(given.clients), "-j", "2", "-b", "tpcb-like", f"--random-seed={given.seed}"
        ):
            time.sleep(_SETTLE_S)
            while len(rows) < given.rounds:
                order = drawn.sample((ALONE, *BESIDE), 3)
                row = {name: asdict(_slice(server, given.slice, name)) for name in order}
                rows.append(row)
                told = ", ".join(f"{row[name]['tps']:,.0f} {name}" for name in (ALONE, *BESIDE))
                print(f"{len(rows)}: {told}", flush=True)
                if given.results is not None:
                    with given.results.open("a") as file:
                        file.write(json.dumps(row) + "\n")


@dataclass(frozen=True, slots=True)
class Slice:
    """Transactions per second, and the share of a core that a client and its sessions took."""

    tps: float
    client_cpu_share: float
    sessions_cpu_share: float


def _slice(server: Server, seconds: float, name: str) -> Slice:
    with BESIDE[name](server, seconds + 2 * _SETTLE_S) if name in BESIDE else nullcontext() as client:
        time.sleep(_SETTLE_S)
        began_s, before, taken = time.monotonic(), _commits(server), _cpu_s(server, client)
        time.sleep(seconds)
        took_s, left = time.monotonic() - began_s, _cpu_s(server, client)
        tps = (_commits(server) - before) / took_s
    return Slice(tps, (left[0] - taken[0]) / took_s, (left[1] - taken[1]) / took_s)


def _cpu_s(server: Server, client: psutil.Process | None) -> tuple[float, float]:
    """(CPU of a client with its children, of its sessions on the server), in seconds."""
    if client is None:
        return 0.0, 0.0
    with server.cluster.connect() as session:
        pids = session.execute("SELECT pid FROM pg_stat_activity WHERE usename = %s", [LOOKER]).fetchall()
    family = (client, *client.children(recursive=True))
    return _sum_s(family), _sum_s([psutil.Process(int(str(pid))) for (pid,) in pids])


def _sum_s(processes: Iterable[psutil.Process]) -> float:
    return sum(times.user + times.system for times in (process.cpu_times() for process in processes))


@contextmanager
def _look(server: Server, seconds: float) -> Iterator[psutil.Process]:
    """A look that has begun, and goes on until the block is left; the answer is waited for after it."""
    with tempfile.TemporaryDirectory() as folder:
        program = str(Path(sys.executable).with_name("walproof"))
        looking = subprocess.Popen(
            [program, "advise", f"{server.cluster.conninfo} user={LOOKER}", "--for", f"{seconds:g}s",
             "--save", str(Path(folder) / "kept"), "--json"],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=child_environment(),
        )  # fmt: skip
        while looking.poll() is None and _sessions(server) < 2:
            time.sleep(0.1)
        yield psutil.Process(looking.pid)
        said = looking.communicate()[1].decode()
        if looking.returncode != 0:
            raise SystemExit(f"walproof advise failed: {said}")


@contextmanager
def _receive(server: Server, _: float) -> Iterator[psutil.Process]:
    """A pg_receivewal that has begun."""
    with tempfile.TemporaryDirectory() as folder:
        program = str(server.laboratory.pgbench.with_name("pg_receivewal"))
        receiving = subprocess.Popen(
            [program, "-d", f"{server.cluster.conninfo} user={LOOKER}", "-D", folder, "--no-loop"],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=child_environment(),
        )  # fmt: skip
        try:
            while receiving.poll() is None and _sessions(server) < 1:
                time.sleep(0.1)
            yield psutil.Process(receiving.pid)
            if receiving.poll() is not None:
                raise SystemExit(f"pg_receivewal ended: {receiving.communicate()[1].decode()}")
        finally:
            receiving.terminate()
            receiving.communicate()


ALONE = "alone"
BESIDE: Mapping[str, Callable[[Server, float], AbstractContextManager[psutil.Process]]] = {
    "walproof advise": _look, "pg_receivewal": _receive,
}  # fmt: skip


def _sessions(server: Server) -> int:
    with server.cluster.connect() as session:
        query = "SELECT count(*) FROM pg_stat_activity WHERE usename = %s"
        row = session.execute(query, [LOOKER]).fetchone()
    assert row is not None
    return int(str(row[0]))


def _commits(server: Server) -> float:
    with server.cluster.connect() as session:
        row = session.execute(_COMMITS).fetchone()
    assert row is not None
    return float(str(row[0]))


def _told(name: str, rows: list[dict[str, Any]]) -> str:
    logs = [math.log(row[name]["tps"] / row[ALONE]["tps"]) for row in rows]
    text = f"{name}: {1 - math.exp(fmean(logs)):.1%} fewer transactions"
    interval = mean_interval(logs)
    if interval is not None:
        ratio = interval.exp()
        text += f" ({1 - ratio.high:.1%} to {1 - ratio.low:.1%}, 95 %, {len(rows)} rounds)"
    client, sessions = (
        fmean([row[name][share] for row in rows]) for share in ("client_cpu_share", "sessions_cpu_share")
    )
    return f"{text}; of a core: itself {client:.1%}, its sessions on the server {sessions:.1%}"


if __name__ == "__main__":
    main()
