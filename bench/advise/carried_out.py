"""Advice that is carried out: does the server then write what was printed, and do the undo lines undo?

    PYTHONPATH=. python bench/advise/carried_out.py [--quick] [--only LOAD ...] [--results FILE] [--keep DIR]

A server is filled and worked on until its load is steady, and stopped. On a copy of it the load goes on while
walproof looks; on another copy for each piece of advice that predicts WAL, with that advice's own ALTER
SYSTEM lines executed, the same transactions in the same order (pgbench's seed is fixed). WAL is told by
transaction, so that a busy machine does not matter, and over whole checkpoint cycles, from redo point to redo
point: after a redo point images crowd, so what begins with a checkpoint and ends within a cycle holds too
many. fsync is off: it changes when WAL reaches the disk, not what is in it.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from scipy.stats import t as student

from bench.advise.servers import LOOKER, Laboratory, Server, laboratory, read_kept
from walproof.units import Lsn
from walproof.wal import stats
from walproof.wal.whatif import Target, simulate

BEFORE = {
    "fsync": "off", "checkpoint_timeout": "15min",
    "wal_compression": "off", "shared_buffers": "256MB", "log_checkpoints": "on", "autovacuum": "off",
}  # fmt: skip
MB = 2.0**20


@dataclass(frozen=True, slots=True)
class Load:
    """Work whose every part is like any other, once it is warm."""

    name: str
    pg: str
    prepare: tuple[str, ...]
    scale: int | None
    work: tuple[str, ...]
    sql: str | None
    rate: int
    warm_up: int
    """Transactions before anything is measured: updates become cheaper while pages get room."""


LOADS = (
    Load("random updates", "16", (), 4, ("-b", "simple-update"), None, 1000, 80_000),
    Load(
        "random keys", "16",
        ("CREATE TABLE parcel (id uuid PRIMARY KEY, owner int, note text)",
         "INSERT INTO parcel SELECT md5(i::text)::uuid, i % 9000, repeat('p', 60) "
         "FROM generate_series(1, {rows}) i",
         "CREATE INDEX parcel_owner ON parcel (owner)", "VACUUM ANALYZE parcel"),
        None, (),
        "\\set n random(1, 1000000000)\n"
        "INSERT INTO parcel VALUES (md5(:n || 'new')::uuid, :n % 9000, repeat('p', 60)) "
        "ON CONFLICT DO NOTHING;",
        1000, 40_000,
    ),
    Load("tpcb-like", "15", (), 4, ("-b", "tpcb-like"), None, 800, 80_000),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Effort:
    """How long is looked and measured."""

    look_s: float
    cycles: int
    """Whole ones, that are wanted of the changed server."""
    most_s: float
    """After which fewer must do."""
    segment_mb: int
    max_wal_size_mb: int
    """Before; twice as much fits the disk that is named."""
    share: float
    """Of the rows and of the warming up."""


FULL, QUICK = Effort(60, 8, 400, 16, 64, 1.0), Effort(20, 4, 150, 1, 16, 0.25)


@dataclass(frozen=True, slots=True)
class Measured:
    """Whole cycles of a server: bytes of WAL a transaction, of each cycle and of all."""

    of_cycles: tuple[float, ...]
    all: float

    @property
    def half_width(self) -> float | None:
        """Of a 95 % interval of ``all``, from how cycles differ; None of a single one."""
        count = len(self.of_cycles)
        if count < 2:
            return None
        squares = sum((one - self.all) ** 2 for one in self.of_cycles) / (count - 1)
        return float(student.ppf(0.975, count - 1)) * math.sqrt(squares / count)


@dataclass(frozen=True, slots=True)
class Outcome:
    """One piece of advice, carried out. WAL in bytes a transaction."""

    load: str
    pg: str
    rule: str
    title: str
    sure: str
    before: float | None
    """Whole cycles of the recording itself; None where it has none."""
    before_simulated: float
    """What the simulation says of the present settings."""
    predicted: float
    low: float
    high: float
    found: float
    found_half_width: float | None
    cycles: int
    pg_wal_most: float | None
    pg_wal_found: float
    is_undone: bool

    @property
    def error(self) -> float:
        """Of the prediction."""
        return self.predicted / self.found - 1

    @property
    def is_inside(self) -> bool:
        """Whether the printed range holds what was written."""
        return self.low <= self.found <= self.high


def main() -> None:  # noqa: D103
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--only", nargs="*", metavar="LOAD")
    parser.add_argument("--quick", action="store_true", help="fewer cycles, a coarse answer")
    results = Path(__file__).with_name("carried_out.jsonl")
    parser.add_argument("--results", type=Path, default=results)
    parser.add_argument("--keep", type=Path, help="where to leave what was recorded")
    parser.add_argument("--work", type=Path, default=Path("/tmp/walproof-bench-advise"))
    arguments = parser.parse_args()
    effort = QUICK if arguments.quick else FULL
    outcomes = []
    with laboratory(arguments.work) as made:
        for load in LOADS:
            if arguments.only and load.name not in arguments.only:
                continue
            for outcome in _carried_out(load, made, effort, arguments.keep):
                print(_row(outcome), flush=True)
                outcomes.append(outcome)
    arguments.results.write_text("".join(json.dumps(asdict(one)) + "\n" for one in outcomes))
    inside = sum(one.is_inside for one in outcomes)
    print(f"{inside} of {len(outcomes)} inside the printed range")


def _row(one: Outcome) -> str:
    most = "-" if one.pg_wal_most is None else f"{one.pg_wal_most / MB:.0f}"
    before = "-" if one.before is None else f"{one.before:,.0f}"
    width = "" if one.found_half_width is None else f" ± {one.found_half_width:,.0f}"
    return (
        f"| {one.load} | {one.pg} | {one.title} | {one.sure} | {before} | {one.before_simulated:,.0f} | "
        f"{one.predicted:,.0f} ({one.low:,.0f} to {one.high:,.0f}) | "
        f"{one.found:,.0f}{width} | {one.cycles} | "
        f"{one.error:+.1%} | {'yes' if one.is_inside else 'no'} | {most} | "
        f"{one.pg_wal_found / MB:.0f} | {'yes' if one.is_undone else 'no'} |"
    )


def _carried_out(load: Load, made: Laboratory, effort: Effort, keep: Path | None) -> Iterator[Outcome]:
    with (
        tempfile.TemporaryDirectory() as parent,
        made.server(
            load.pg, {**BEFORE, "max_wal_size": "4GB"},
            *(one.replace("{rows}", f"{1_500_000 * effort.share:.0f}") for one in load.prepare),
            initdb=(f"--wal-segsize={effort.segment_mb}",),
        ) as base,
    ):  # fmt: skip
        if load.scale is not None:
            base.fill(max(1, round(load.scale * effort.share)))
        warm_up = str(round(load.warm_up * effort.share / 4))
        base.work("-c", "4", "-t", warm_up, "--random-seed=7", *script(load, base))
        base.cluster.stop("fast")
        kept = Path(parent) / "kept"
        before_all = {
            **BEFORE, "max_wal_size": f"{effort.max_wal_size_mb}MB",
            "min_wal_size": f"{2 * effort.segment_mb}MB",
        }  # fmt: skip
        with made.server(load.pg, before_all, like=base) as server:
            _looked_at(load, server, kept, effort)
        if keep is not None:
            shutil.copytree(kept, keep / load.name.replace(" ", "-"))
        case = read_kept(kept)
        assert case.whatif is not None
        assert case.wal is not None
        hours = case.whatif.hours
        assert hours is not None
        each = hours / case.wal.commits
        before = _measured(kept, case.whatif.found.start)
        for told in _advised(kept, f"{3 * effort.max_wal_size_mb}MB")["advice"]:
            wal = next((one for one in told["figures"] if one["name"] == "WAL"), None)
            if wal is None:
                continue
            room = next((one["then"] for one in told["figures"] if one["name"] == "pg_wal at most"), None)
            with made.server(load.pg, before_all, like=base) as server:
                as_it_was = _settings(server)
                server.sql(*told["apply"].splitlines())
                time.sleep(0.5)
                assert _settings(server) != as_it_was, "the lines change something"
                found, pg_wal = _worked(load, server, effort)
                server.sql(*told["undo"].splitlines())
                time.sleep(0.5)
                is_undone = _settings(server) == as_it_was
            yield Outcome(
                load.name, case.window.version, told["rule"], told["title"], told["sure"],
                None if before is None else before.all, wal["now"] * each, wal["then"] * each,
                wal["low"] * each, wal["high"] * each, found.all, found.half_width, len(found.of_cycles),
                room, pg_wal, is_undone,
            )  # fmt: skip


def script(load: Load, server: Server) -> tuple[str, ...]:
    """What pgbench is told to do."""
    return load.work + (() if load.sql is None else server.script(load.sql))


@contextmanager
def _under(load: Load, server: Server) -> Iterator[None]:
    with server.load("-c", "4", "-R", str(load.rate), "--random-seed=29", *script(load, server)):
        yield


def _looked_at(load: Load, server: Server, kept: Path, effort: Effort) -> None:
    """Let walproof look at the load, in the middle of it."""
    program = str(Path(sys.executable).with_name("walproof"))
    command = [program, "advise", f"{server.cluster.conninfo} user={LOOKER}", "--json",
               "--for", f"{effort.look_s:g}s", "--save", str(kept)]  # fmt: skip
    with _under(load, server):
        time.sleep(5)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"walproof advise failed: {done.stderr}")


def _worked(load: Load, server: Server, effort: Effort) -> tuple[Measured, float]:
    """Go on until whole cycles are over; what they wrote, and the most that pg_wal took meanwhile."""
    redo = "SELECT redo_lsn - '0/0' FROM pg_control_checkpoint()"
    size = "SELECT sum(size) FROM pg_ls_waldir()"
    with tempfile.TemporaryDirectory() as folder:
        with server.beside("pg_receivewal", "-D", folder, "--no-sync"):
            time.sleep(1)
            began = time.monotonic()
            redos, sizes = [_number(server, redo)], [0.0]
            with _under(load, server):
                # The first redo point begins the first whole cycle; the last one is seen when it is complete.
                while len(redos) < effort.cycles + 2:
                    time.sleep(1)
                    now = _number(server, redo)
                    if now != redos[-1]:
                        redos.append(now)
                    if len(redos) > 2:
                        # Segments that filling the tables left are gone by then.
                        sizes.append(_number(server, size))
                    if time.monotonic() - began > effort.most_s and len(redos) > 3:
                        break
                    if time.monotonic() - began > 3 * effort.most_s:
                        raise SystemExit(f"{load.name}: {len(redos)} redo points in {3 * effort.most_s:g} s")
            server.sql("SELECT pg_switch_wal()")
            time.sleep(2)
        found = _measured(Path(folder), Lsn(int(redos[0]) + 1))
    assert found is not None
    return found, max(sizes)


def _measured(folder: Path, start: Lsn) -> Measured | None:
    """Whole cycles of WAL after ``start``; None where there is none."""
    found = simulate(folder, targets=[Target()], start=start)
    redos = [one.redo for one in found.recorded.checkpoints if one.redo > start]
    cycles = [(last - first, stats(folder, start=first, end=last).commits) for first, last in pairwise(redos)]
    if not cycles:
        return None
    return Measured(
        tuple(size / commits for size, commits in cycles),
        sum(size for size, _ in cycles) / sum(commits for _, commits in cycles),
    )


def _number(server: Server, query: str) -> float:
    with server.cluster.connect() as session:
        row = session.execute(query.encode()).fetchone()
    assert row is not None
    return float(str(row[0]))


def _settings(server: Server) -> Mapping[str, tuple[object, ...]]:
    """Every row of pg_settings, but for what is of the session."""
    query = "SELECT name, setting, source, sourcefile, sourceline, pending_restart FROM pg_settings"
    with server.cluster.connect() as session:
        return {str(row[0]): row[1:] for row in session.execute(query.encode())}


def _advised(kept: Path, wal_disk: str) -> Any:
    """What ``walproof advise`` says of what was kept."""
    program = str(Path(sys.executable).with_name("walproof"))
    command = [program, "advise", str(kept), "--json", "--wal-disk", wal_disk]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


if __name__ == "__main__":
    main()
