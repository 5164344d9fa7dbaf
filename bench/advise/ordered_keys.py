"""What keys in order of time would save, predicted from random ones, beside a server whose keys are in order.

    PYTHONPATH=. python bench/advise/ordered_keys.py [--quick] [--only LOAD ...]

Rows are inserted into a table whose primary key is a uuid, once with random keys (gen_random_uuid) and once
with keys in order (uuidv7, so PostgreSQL 18). walproof looks at the first server and predicts; the second has
the same rows, settings and load but for the keys. Bytes of WAL a transaction, over whole checkpoint cycles of
both, so that a busy machine does not matter. A load is over in about 6 minutes with --quick, in 20 without.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.advise.carried_loads import Load
from bench.advise.carried_out import BEFORE, FULL, QUICK, Effort, advised, looked_at, measured, sized, worked
from bench.advise.servers import Laboratory, Server, laboratory, read_kept

KEYS = {"random": "gen_random_uuid()", "ordered": "uuidv7()"}
_TABLE = "CREATE TABLE parcel (id uuid PRIMARY KEY DEFAULT {key}, owner int, note text)"
_FILL = "INSERT INTO parcel (owner, note) SELECT i % 9000, repeat('p', 60) FROM generate_series(1, {rows}) i"
_INSERT = (
    "\\set n random(1, 1000000000)\nINSERT INTO parcel (owner, note) VALUES (:n % 9000, repeat('p', 60));"
)
LOADS = {
    "key alone": (_INSERT, ()),
    "another index": (_INSERT, ("CREATE INDEX parcel_owner ON parcel (owner)",)),
    "updates, too": (
        _INSERT + "\nUPDATE item SET count = count + 1 WHERE id = :n % 200000;",
        ("CREATE TABLE item (id int PRIMARY KEY, count int) WITH (fillfactor = 70)",
         "INSERT INTO item SELECT i, 0 FROM generate_series(0, 200000) i"),
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Outcome:
    """Bytes of WAL per transaction."""

    load: str
    random: float
    """Written with random keys."""
    simulated: float
    """What the simulation says of the same."""
    predicted: float
    low: float
    high: float
    ordered: float
    """Written with keys in order."""
    half_width: float | None
    cycles: int
    is_quick: bool


def main() -> None:  # noqa: D103
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--only", nargs="*", metavar="LOAD", default=list(LOADS))
    parser.add_argument("--quick", action="store_true", help="fewer cycles, a coarse answer")
    parser.add_argument("--results", type=Path, default=Path(__file__).with_name("ordered_keys.jsonl"))
    parser.add_argument("--work", type=Path, default=Path("/tmp/walproof-bench-ordered"))
    given = parser.parse_args()
    is_bad = False
    with laboratory(given.work) as made:
        for name in given.only:
            outcome = _compared(name, made, QUICK if given.quick else FULL)
            with given.results.open("a") as file:
                file.write(json.dumps(asdict(outcome)) + "\n")
            width = "" if outcome.half_width is None else f" ± {outcome.half_width:,.0f}"
            print(
                f"{name}: {outcome.random:,.0f} with random keys ({outcome.simulated:,.0f} simulated); "
                f"in order {outcome.predicted:,.0f} predicted ({outcome.low:,.0f} to {outcome.high:,.0f}), "
                f"{outcome.ordered:,.0f}{width} written in {outcome.cycles} cycles: "
                f"{outcome.predicted / outcome.ordered - 1:+.1%}",
                flush=True,
            )
            is_bad |= not outcome.low <= outcome.ordered <= outcome.high
    if is_bad:
        sys.exit(1)


def _compared(name: str, made: Laboratory, effort: Effort) -> Outcome:
    with tempfile.TemporaryDirectory() as parent:
        kept = Path(parent) / "kept"
        with _server(name, "random", made, effort) as (load, server):
            looked_at(load, server, kept, effort)
        case = read_kept(kept)
        assert case.wal is not None
        assert case.whatif is not None
        assert case.whatif.hours is not None
        each = case.whatif.hours / case.wal.commits
        (told,) = (
            told
            for told in advised(kept, f"{3 * effort.max_wal_size_mb}MB")["advice"]
            if told["rule"] == "random keys"
        )
        (wal,) = told["figures"]
        random = measured(kept, case.whatif.found.start)
        assert random is not None, "the recording has whole cycles"
    with _server(name, "ordered", made, effort) as (load, server):
        # What is received from here on begins before the next redo point.
        server.sql("SELECT pg_switch_wal()", "CHECKPOINT")
        ordered, _ = worked(load, server, effort)
    return Outcome(
        name, random.all, wal["now"] * each, wal["then"] * each, wal["low"] * each, wal["high"] * each,
        ordered.all, ordered.half_width, len(ordered.of_cycles), effort is QUICK,
    )  # fmt: skip


@contextmanager
def _server(name: str, keys: str, made: Laboratory, effort: Effort) -> Iterator[tuple[Load, Server]]:
    """The load, and a filled server whose new rows have keys of this kind."""
    sql, more = LOADS[name]
    prepare = (_TABLE.format(key=KEYS[keys]), _FILL, *more, "VACUUM ANALYZE")
    load = Load(name, "18", prepare, None, (), sql, 1000, 0)
    settings = {
        **BEFORE, "max_wal_size": f"{effort.max_wal_size_mb}MB", "min_wal_size": f"{2 * effort.segment_mb}MB",
    }  # fmt: skip
    with made.server(
        load.pg, settings, *(sized(statement, effort) for statement in prepare),
        initdb=(f"--wal-segsize={effort.segment_mb}",),
    ) as server:  # fmt: skip
        yield load, server


if __name__ == "__main__":
    main()
