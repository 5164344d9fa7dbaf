"""Advice that is carried out: does the server then write what was printed, and do the undo lines undo?

    PYTHONPATH=. python bench/advise/carried_out.py [--only LOAD ...] [--results FILE]

Each load is a number of transactions with pgbench's seed fixed, run on a server that is made for it. walproof
looks at the first run. For each piece of advice that predicts WAL its own ALTER SYSTEM lines are executed on
a new server of the same settings and data, and the same transactions run again. WAL is compared for the same
work, not for the same time, so that a busy machine does not matter. fsync is off: it changes when WAL reaches
the disk, not what is in it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.advise.servers import LOOKER, Laboratory, Server, laboratory, read_kept

BEFORE = {
    "fsync": "off", "max_wal_size": "64MB", "min_wal_size": "32MB", "checkpoint_timeout": "15min",
    "wal_compression": "off", "shared_buffers": "256MB", "log_checkpoints": "on", "autovacuum": "off",
}  # fmt: skip
SPARE_S = 16.0
"""That is looked beyond the work, which a busy machine may need."""


@dataclass(frozen=True, slots=True)
class Load:
    """Work, fixed in transactions."""

    name: str
    pg: str
    prepare: tuple[str, ...]
    scale: int | None
    work: tuple[str, ...]
    sql: str | None
    transactions: int
    rate: int
    wal_disk: str = "192MB"

    @property
    def seconds(self) -> float:
        """That it takes at its rate."""
        return self.transactions / self.rate


LOADS = (
    Load("random updates", "16", (), 4, ("-b", "simple-update"), None, 48_000, 1000),
    Load(
        "random keys", "16",
        ("CREATE TABLE parcel (id uuid PRIMARY KEY, owner int, note text)",
         "INSERT INTO parcel SELECT md5(i::text)::uuid, i % 9000, repeat('p', 60) "
         "FROM generate_series(1, 1500000) i",
         "CREATE INDEX parcel_owner ON parcel (owner)", "VACUUM ANALYZE parcel"),
        None, (),
        "\\set n random(1, 1000000000)\n"
        "INSERT INTO parcel VALUES (md5(:n || 'new')::uuid, :n % 9000, repeat('p', 60)) "
        "ON CONFLICT DO NOTHING;",
        48_000, 1000,
    ),
    Load("tpcb-like", "15", (), 4, ("-b", "tpcb-like"), None, 40_000, 800),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Outcome:
    """One piece of advice, carried out."""

    load: str
    pg: str
    rule: str
    title: str
    sure: str
    before_bytes: float
    """WAL of the work that was looked at."""
    predicted_bytes: float
    low_bytes: float
    high_bytes: float
    found_bytes: float
    """WAL of the same work with the advice."""
    pg_wal_most: float | None
    pg_wal_found: float
    is_undone: bool

    @property
    def error(self) -> float:
        """Of the prediction."""
        return self.predicted_bytes / self.found_bytes - 1

    @property
    def is_inside(self) -> bool:
        """Whether the printed range holds what was written."""
        return self.low_bytes <= self.found_bytes <= self.high_bytes


def main() -> None:  # noqa: D103
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--only", nargs="*", metavar="LOAD")
    parser.add_argument("--results", type=Path, default=Path(__file__).with_name("carried_out.jsonl"))
    parser.add_argument("--work", type=Path, default=Path("/tmp/walproof-bench-advise"))
    arguments = parser.parse_args()
    outcomes = []
    with laboratory(arguments.work) as made:
        for load in LOADS:
            if arguments.only and load.name not in arguments.only:
                continue
            for outcome in _carried_out(load, made):
                print(_row(outcome), flush=True)
                outcomes.append(outcome)
    arguments.results.write_text("".join(json.dumps(asdict(one)) + "\n" for one in outcomes))
    inside = sum(one.is_inside for one in outcomes)
    print(f"{inside} of {len(outcomes)} inside the printed range")


def _row(one: Outcome) -> str:
    mb = 2.0**20
    most = "-" if one.pg_wal_most is None else f"{one.pg_wal_most / mb:.0f}"
    return (
        f"| {one.load} | {one.pg} | {one.title} | {one.sure} | {one.before_bytes / mb:.1f} | "
        f"{one.predicted_bytes / mb:.1f} ({one.low_bytes / mb:.1f} to {one.high_bytes / mb:.1f}) | "
        f"{one.found_bytes / mb:.1f} | {one.error:+.1%} | {'yes' if one.is_inside else 'no'} | {most} | "
        f"{one.pg_wal_found / mb:.0f} | {'yes' if one.is_undone else 'no'} |"
    )


def _carried_out(load: Load, made: Laboratory) -> Iterator[Outcome]:
    with tempfile.TemporaryDirectory() as parent:
        kept = Path(parent) / "kept"
        with _prepared(load, made) as server:
            before = _looked_at(load, server, kept)
        case = read_kept(kept)
        assert case.whatif is not None
        hours = case.whatif.hours
        assert hours is not None
        for told in _advised(kept, load.wal_disk)["advice"]:
            wal = next((one for one in told["figures"] if one["name"] == "WAL"), None)
            if wal is None:
                continue
            room = next((one["then"] for one in told["figures"] if one["name"] == "pg_wal at most"), None)
            with _prepared(load, made) as server:
                as_it_was = _settings(server)
                server.sql(*told["apply"].splitlines())
                time.sleep(0.5)
                assert _settings(server) != as_it_was, "the lines change something"
                found, pg_wal = _worked(load, server)
                server.sql(*told["undo"].splitlines())
                time.sleep(0.5)
                is_undone = _settings(server) == as_it_was
            yield Outcome(
                load.name, case.window.version, told["rule"], told["title"], told["sure"], before,
                wal["then"] * hours, wal["low"] * hours, wal["high"] * hours, found, room, pg_wal, is_undone,
            )  # fmt: skip


@contextmanager
def _prepared(load: Load, made: Laboratory) -> Iterator[Server]:
    with made.server(load.pg, BEFORE, *load.prepare) as server:
        if load.scale is not None:
            server.fill(load.scale)
        server.sql("CHECKPOINT")
        yield server


def _looked_at(load: Load, server: Server, kept: Path) -> float:
    """WAL of the work while walproof looks at it."""
    program = str(Path(sys.executable).with_name("walproof"))
    command = [program, "advise", f"{server.cluster.conninfo} user={LOOKER}", "--json",
               "--for", f"{load.seconds + SPARE_S:.0f}s", "--save", str(kept)]  # fmt: skip
    looking = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    time.sleep(SPARE_S / 4)
    found, _ = _worked(load, server)
    if looking.poll() is not None:
        raise SystemExit(f"{load.name}: the work took longer than the look")
    said = looking.communicate()[1].decode()
    if looking.returncode != 0:
        raise SystemExit(f"walproof advise failed: {said}")
    return found


def _worked(load: Load, server: Server) -> tuple[float, float]:
    """Do the work; bytes of WAL that it wrote, and of pg_wal at its end."""
    clients = 4
    script = () if load.sql is None else server.script(load.sql)
    began = _number(server, "SELECT pg_current_wal_insert_lsn() - '0/0'")
    server.work(
        "-c", str(clients), "-t", str(load.transactions // clients), "-R", str(load.rate),
        "--random-seed=29", *load.work, *script,
    )  # fmt: skip
    ended = _number(server, "SELECT pg_current_wal_insert_lsn() - '0/0'")
    return ended - began, _number(server, "SELECT sum(size) FROM pg_ls_waldir()")


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
