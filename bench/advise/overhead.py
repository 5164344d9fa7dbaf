"""What a look of ``walproof advise`` costs a saturated server, by slices.

    PYTHONPATH=. python bench/advise/overhead.py [--pg 16] [--pairs 20] [--slice 20] [--walinspect]

One server under as many clients of pgbench as keep it busy. Slices come in pairs, one with a look and one
without, in an order drawn from the seed; transactions are those that the server counts. The cost is the mean
of the logarithms of the pairs' ratios, with a 95 % interval of Student's t. With ``--walinspect`` the looker
may not stream, and pg_walinspect is asked. Each pair is appended to ``--results`` when it is over; the same
command goes on where it was stopped.

The look runs on the server's machine and takes its CPU from the load; from another machine only what its
sessions (walsender and queries) take would be missing. So the CPU of both is printed.

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
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
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
    parser.add_argument("--pairs", type=int, default=20)
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
    if len(rows) < given.pairs:
        _run(given, rights, rows)
    print(_told(rows))


def _run(given: argparse.Namespace, rights: tuple[str, ...], rows: list[dict[str, Any]]) -> None:
    """The pairs that are missing."""
    drawn = random.Random(given.seed + len(rows))
    with laboratory(given.work) as made, made.server(given.pg, SETTINGS, *rights) as server:
        server.fill(given.scale)
        with server.load(
            "-c", str(given.clients), "-j", "2", "-b", "tpcb-like", f"--random-seed={given.seed}"
        ):
            time.sleep(_SETTLE_S)
            while len(rows) < given.pairs:
                found: dict[bool, Slice] = {}
                for is_looked_at in drawn.sample((True, False), 2):
                    found[is_looked_at] = _slice(server, given.slice, is_looked_at=is_looked_at)
                looked_at, alone = found[True], found[False]
                row = {
                    "pair": len(rows), "with": looked_at.tps, "without": alone.tps,
                    "look_cpu_share": looked_at.look_cpu_share,
                    "sessions_cpu_share": looked_at.sessions_cpu_share,
                }  # fmt: skip
                rows.append(row)
                print(f"{row['pair']}: {looked_at.tps:,.0f} with, {alone.tps:,.0f} without", flush=True)
                if given.results is not None:
                    with given.results.open("a") as file:
                        file.write(json.dumps(row) + "\n")


@dataclass(frozen=True, slots=True)
class Slice:
    """Transactions per second, and the share of a core that the look and its sessions took."""

    tps: float
    look_cpu_share: float
    sessions_cpu_share: float


def _slice(server: Server, seconds: float, *, is_looked_at: bool) -> Slice:
    with _look(server, seconds + 2 * _SETTLE_S) if is_looked_at else nullcontext() as looking:
        time.sleep(_SETTLE_S)
        began_s, before, taken = time.monotonic(), _commits(server), _cpu_s(server, looking)
        time.sleep(seconds)
        took_s, left = time.monotonic() - began_s, _cpu_s(server, looking)
        tps = (_commits(server) - before) / took_s
    return Slice(tps, (left[0] - taken[0]) / took_s, (left[1] - taken[1]) / took_s)


def _cpu_s(server: Server, looking: psutil.Process | None) -> tuple[float, float]:
    """(CPU of the look with its children, of its sessions on the server), in seconds."""
    if looking is None:
        return 0.0, 0.0
    with server.cluster.connect() as session:
        pids = session.execute("SELECT pid FROM pg_stat_activity WHERE usename = %s", [LOOKER]).fetchall()
    look = (looking, *looking.children(recursive=True))
    return _sum_s(look), _sum_s([psutil.Process(int(str(pid))) for (pid,) in pids])


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
        while looking.poll() is None and not _is_looked_at(server):
            time.sleep(0.1)
        yield psutil.Process(looking.pid)
        said = looking.communicate()[1].decode()
        if looking.returncode != 0:
            raise SystemExit(f"walproof advise failed: {said}")


def _is_looked_at(server: Server) -> bool:
    with server.cluster.connect() as session:
        query = "SELECT count(*) FROM pg_stat_activity WHERE usename = %s"
        row = session.execute(query, [LOOKER]).fetchone()
    assert row is not None
    return int(str(row[0])) > 1


def _commits(server: Server) -> float:
    with server.cluster.connect() as session:
        row = session.execute(_COMMITS).fetchone()
    assert row is not None
    return float(str(row[0]))


def _told(rows: list[dict[str, Any]]) -> str:
    logs = [math.log(row["with"] / row["without"]) for row in rows]
    text = f"{len(rows)} pairs: {1 - math.exp(fmean(logs)):.1%} fewer transactions"
    interval = mean_interval(logs)
    if interval is not None:
        ratio = interval.exp()
        text += f" ({1 - ratio.high:.1%} to {1 - ratio.low:.1%}, 95 %)"
    look, sessions = (fmean([row[name] for row in rows]) for name in ("look_cpu_share", "sessions_cpu_share"))
    return f"{text}; of a core: the look {look:.1%}, its sessions on the server {sessions:.1%}"


if __name__ == "__main__":
    main()
