"""What a look of ``walproof advise`` costs a saturated server, by slices.

    PYTHONPATH=. python bench/advise/overhead.py [--pg 16] [--pairs 20] [--slice 20] [--walinspect]

One server under as many clients of pgbench as keep it busy. Slices come in pairs, one with a look and one
without, in an order drawn from the seed; transactions are those that the server counts. The cost is the mean
of the logarithms of the pairs' ratios, with a 95 % interval of Student's t. With ``--walinspect`` the looker
may not stream, and pg_walinspect is asked. Each pair is appended to ``--results`` when it is over.

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
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import mean, stdev

from scipy.stats import t as student

from bench.advise.servers import LOOKER, Server, laboratory
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
    drawn = random.Random(given.seed)
    rights = (
        ("CREATE EXTENSION pg_walinspect", f"ALTER ROLE {LOOKER} NOREPLICATION",
         f"GRANT pg_read_server_files TO {LOOKER}")
        if given.walinspect else ()
    )  # fmt: skip
    ratios: list[float] = []
    with laboratory(given.work) as made, made.server(given.pg, SETTINGS, *rights) as server:
        server.fill(given.scale)
        with server.load(
            "-c", str(given.clients), "-j", "2", "-b", "tpcb-like", f"--random-seed={given.seed}"
        ):
            time.sleep(_SETTLE_S)
            for number in range(given.pairs):
                rates: dict[bool, float] = {}
                for is_looked_at in drawn.sample((True, False), 2):
                    rates[is_looked_at] = _slice(server, given.slice, is_looked_at=is_looked_at)
                ratios.append(math.log(rates[True] / rates[False]))
                row = {"pair": number, "with": rates[True], "without": rates[False]}
                print(f"{number}: {rates[True]:,.0f} with, {rates[False]:,.0f} without", flush=True)
                if given.results is not None:
                    with given.results.open("a") as file:
                        file.write(json.dumps(row) + "\n")
    print(_told(ratios))


def _slice(server: Server, seconds: float, *, is_looked_at: bool) -> float:
    """Transactions per second of a slice."""
    with _look(server, seconds + 2 * _SETTLE_S) if is_looked_at else _nobody():
        time.sleep(_SETTLE_S)
        began_s, before = time.monotonic(), _commits(server)
        time.sleep(seconds)
        return (_commits(server) - before) / (time.monotonic() - began_s)


@contextmanager
def _nobody() -> Iterator[None]:
    yield


@contextmanager
def _look(server: Server, seconds: float) -> Iterator[None]:
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
        yield
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


def _told(ratios: list[float]) -> str:
    cost = 1 - math.exp(mean(ratios))
    if len(ratios) < 2:
        return f"1 pair: {cost:.1%} fewer transactions, without an interval"
    half = float(student.ppf(0.975, len(ratios) - 1)) * stdev(ratios) / math.sqrt(len(ratios))
    low, high = (1 - math.exp(mean(ratios) + side * half) for side in (1, -1))
    return f"{len(ratios)} pairs: {cost:.1%} fewer transactions ({low:.1%} to {high:.1%})"


if __name__ == "__main__":
    main()
