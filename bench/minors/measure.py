"""What minors of one major version write for the same work: WAL, block references and images by operation.

    walproof pg install 18.4; walproof pg install 18.6
    PYTHONPATH=. python bench/minors/measure.py 18.4 18.6 > results-18.jsonl
    PYTHONPATH=. python bench/minors/measure.py --table results-18.jsonl       or --operations

bench/minors/runs has what was measured.

Every phase is the same statements in the same order on the same rows, on one connection, without autovacuum,
twice: after a checkpoint, and again when every page has been touched since. Before each phase the table
is frozen, so that all of its pages are in the visibility map. Nothing is timed; a quarter of a minute a
version.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg

from bench.rows import read_rows
from tests.wal.server import Server
from walproof.postgres.install import find
from walproof.units import Lsn
from walproof.wal import records

ROWS = 50_000
TRANSACTIONS = 2_000
SETTINGS = {"wal_level": "replica", "shared_buffers": "256MB"}
SETUP = (
    "CREATE TABLE t (id int PRIMARY KEY, grp int NOT NULL, pad text NOT NULL) WITH (fillfactor = 90)",
    f"INSERT INTO t SELECT i, i % 100, repeat('x', 80) FROM generate_series(1, {ROWS}) i",
    "CREATE INDEX ON t (grp)",
    "CREATE TABLE history (id int, delta int, at timestamptz DEFAULT now())",
)
PHASES: dict[str, tuple[str, ...]] = {
    "UPDATE, one row a page, HOT": ("UPDATE t SET pad = reverse(pad) WHERE id % 60 = 0",),
    "UPDATE, one row a page, not HOT": ("UPDATE t SET grp = grp + 1 WHERE id % 60 = 1",),
    "DELETE, one row a page": ("DELETE FROM t WHERE id % 60 = {round}",),
    "SELECT FOR UPDATE, one row a page": (
        "SELECT count(*) FROM (SELECT 1 FROM t WHERE id % 60 = 7 FOR UPDATE) s",
    ),
    "INSERT into pages with room": (
        f"INSERT INTO t SELECT {ROWS} + {{round}} * 10000 + i, 1, repeat('y', 80) "
        "FROM generate_series(1, 1000) i",
    ),
    "UPDATE, then VACUUM": ("UPDATE t SET pad = reverse(pad) WHERE id % 60 = 30", "VACUUM t"),
}
TRANSACTION = (
    "UPDATE t SET pad = reverse(pad) WHERE id = {id}",
    "SELECT pad FROM t WHERE id = {id}",
    "INSERT INTO history (id, delta) VALUES ({id}, 1)",
)
AFTER_CHECKPOINT = "after a checkpoint"
MANY = "a transaction of an UPDATE and an INSERT"


def measure(version: str) -> Iterator[dict[str, Any]]:
    """Yield a row for each phase and operation of a version's WAL."""
    install = find(version)
    with Server(Path(install.bindir), SETTINGS) as server, server.connect() as session:
        session.autocommit = True
        for statement in SETUP:
            session.execute(statement.encode())
        for round_, state in enumerate((AFTER_CHECKPOINT, "touched before"), start=2):
            for phase, statements in PHASES.items():
                _prepare(session, state)
                begin = _position(session)
                for statement in statements:
                    session.execute(statement.format(round=round_).encode())
                yield from _rows(install.version, phase, state, 1, server.wal, begin, _position(session))
            _prepare(session, state)
            begin = _position(session)
            for number in range(TRANSACTIONS):
                with session.transaction():
                    for statement in TRANSACTION:
                        session.execute(statement.format(id=1 + number * 7919 % ROWS).encode())
            end = _position(session)
            yield from _rows(install.version, MANY, state, TRANSACTIONS, server.wal, begin, end)


def _prepare(session: psycopg.Connection[Any], state: str) -> None:
    """Put every page into the visibility map; in the first state, checkpoint, so that no page is touched."""
    session.execute("VACUUM (FREEZE) t")
    if state == AFTER_CHECKPOINT:
        session.execute("CHECKPOINT")


def _position(session: psycopg.Connection[Any]) -> Lsn:
    # What this session wrote is flushed, so that it can be read.
    session.execute("SELECT pg_switch_wal()")
    row = session.execute("SELECT pg_current_wal_flush_lsn()::text").fetchone()
    assert row is not None
    return Lsn.parse(str(row[0]))


def _rows(
    version: str, phase: str, state: str, transactions: int, wal: Path, begin: Lsn, end: Lsn
) -> Iterator[dict[str, Any]]:
    """Sum the records of each operation, without those that the measuring itself writes."""
    sums: dict[str, Counter[str]] = {}
    for record in records(wal, start=begin, end=end):
        operation = f"{record.rmgr}/{record.operation}"
        if operation in ("XLOG/SWITCH", "Standby/RUNNING_XACTS"):
            continue
        found = sums.setdefault(operation, Counter())
        found["records"] += 1
        found["bytes"] += record.total_length
        for block in record.blocks:
            found[f"refs.{block.fork}"] += 1
            if block.image is not None:
                found[f"images.{block.fork}"] += 1
                found["image_bytes"] += block.image.length
    for operation, found in sorted(sums.items()):
        yield {
            "version": version, "phase": phase, "state": state, "transactions": transactions,
            "operation": operation, **found,
        }  # fmt: skip


def table(rows: list[dict[str, Any]]) -> str:
    """Markdown: bytes, references to the map and images of it; a line per phase, a column per version."""
    versions = list(dict.fromkeys(row["version"] for row in rows))
    lines = [
        "| work | state | " + " | ".join(f"{v}: bytes" for v in versions) + " | ratio | "
        + " | ".join(f"{v}: map refs" for v in versions) + " | "
        + " | ".join(f"{v}: map images" for v in versions) + " |",
        "|---|---|" + "---:|" * (3 * len(versions) + 1),
    ]  # fmt: skip
    for phase, state in dict.fromkeys((row["phase"], row["state"]) for row in rows):
        sums = {version: Counter[str]() for version in versions}
        for row in rows:
            if (row["phase"], row["state"]) == (phase, state):
                counts = {key: value for key, value in row.items() if isinstance(value, int)}
                sums[row["version"]].update(counts)
        each = [sums[version]["bytes"] for version in versions]
        cells = [f"{count:,}" for count in each] + [f"{each[-1] / each[0]:.4f}"]
        cells += [f"{sums[version]['refs.vm']:,}" for version in versions]
        cells += [f"{sums[version]['images.vm']:,}" for version in versions]
        lines.append(f"| {phase} | {state} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def operations(rows: list[dict[str, Any]]) -> str:
    """Markdown: each operation that refers to the map in one of the versions, over all phases."""
    versions = list(dict.fromkeys(row["version"] for row in rows))
    sums: dict[tuple[str, str], Counter[str]] = {}
    for row in rows:
        counts = {key: value for key, value in row.items() if isinstance(value, int)}
        sums.setdefault((row["operation"], row["version"]), Counter()).update(counts)
    lines = [
        "| operation | " + " | ".join(f"{v}: records, with the map, bytes each" for v in versions) + " |",
        "|---|" + "---|" * len(versions),
    ]
    for operation in sorted({name for name, _ in sums}):
        found = [sums.get((operation, version), Counter()) for version in versions]
        if any(counts["refs.vm"] for counts in found):
            cells = [
                f"{counts['records']:,}, {counts['refs.vm']:,}, "
                f"{(counts['bytes'] - counts['image_bytes']) / counts['records']:.1f}"
                if counts["records"]
                else "none"
                for counts in found
            ]
            lines.append(f"| {operation} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, or print the table of what was measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("versions", nargs="*")
    parser.add_argument("--table", type=Path)
    parser.add_argument("--operations", type=Path)
    arguments = parser.parse_args()
    for path, show in ((arguments.table, table), (arguments.operations, operations)):
        if path is not None:
            sys.stdout.write(show(read_rows(path)))
    for version in arguments.versions:
        for row in measure(version):
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
