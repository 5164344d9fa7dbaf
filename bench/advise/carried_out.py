"""Advice that is carried out: does the server then write what was printed, and do the undo lines undo?

    PYTHONPATH=. python bench/advise/carried_out.py [--quick] [--only LOAD ...] [--minutes N] [--keep DIR]

A server is filled and worked on until its load is steady, and stopped. On a copy of it the load goes on while
walproof looks; on another copy for each piece of advice that predicts WAL, with that advice's own ALTER
SYSTEM lines executed, the same transactions in the same order (pgbench's seed is fixed). WAL is told by
transaction, so that a busy machine does not matter, and over whole checkpoint cycles, from redo point to redo
point: after a redo point images crowd, so what begins with a checkpoint and ends within a cycle holds too
many. fsync is off: it changes when WAL reaches the disk, not what is in it. Last, the changed server is
crashed under the load: how much WAL recovery reads, and how long it takes, stand beside what was printed.

Each load's outcomes are appended to the results when it is done; a load that is there is not done again.
``--minutes`` begins no other load after that time.
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
from statistics import median
from typing import Any

from scipy.stats import t as student

from bench.advise.carried_loads import LOADS, Load
from bench.advise.servers import LOOKER, Laboratory, Server, laboratory, read_kept
from bench.rows import read_rows
from walproof.facts.recovery_log import RecoveryTimes, read_recovery_log
from walproof.units import Lsn
from walproof.wal import stats
from walproof.wal.whatif import Target, simulate

BEFORE = {
    "fsync": "off", "checkpoint_timeout": "15min",
    "wal_compression": "off", "shared_buffers": "256MB", "log_checkpoints": "on", "autovacuum": "off",
}  # fmt: skip
MB = 2.0**20
_USE_UP_SEGMENTS = """
    DO $$ BEGIN
      FOR i IN 1..(SELECT count(*) FROM pg_ls_waldir()) LOOP
        PERFORM pg_logical_emit_message(false, 'bench', 'x');
        PERFORM pg_switch_wal();
      END LOOP;
    END $$"""


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is looked at and measured."""

    look_mb: int
    """WAL that is recorded: so much, and not for so long, as a busy machine writes slowly."""
    cycles: int
    """Whole ones, that are wanted of the changed server."""
    most_s: float
    """After which fewer must do."""
    segment_mb: int
    max_wal_size_mb: int
    """Before; twice as much fits the disk that is named."""
    share: float
    """Of the rows and of the warming up."""


FULL, QUICK = Effort(512, 8, 400, 16, 64, 1.0), Effort(80, 4, 150, 1, 16, 0.25)


@dataclass(frozen=True, slots=True)
class Measured:
    """Whole cycles of a server: bytes of WAL a transaction, of each cycle and of all."""

    of_cycles: tuple[float, ...]
    all: float

    @property
    def half_width(self) -> float | None:
        """Half-width of a 95 % interval of ``all``, from how cycles differ; None for a single cycle."""
        count = len(self.of_cycles)
        if count < 2:
            return None
        squares = sum((cycle - self.all) ** 2 for cycle in self.of_cycles) / (count - 1)
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
    is_quick: bool
    recovery_most_bytes: float | None
    """WAL that a recovery reads at most, as printed; None where nothing is printed."""
    recovery_most_s: float | None
    """Longest crash recovery, as printed."""
    recovery_band: float
    """By what a time may be longer, in 1 of 20 cases."""
    crashed_bytes: float
    """WAL that the recovery from a crash under the load read."""
    crashed_s: float | None

    @property
    def error(self) -> float:
        """Relative error of the prediction."""
        return self.predicted / self.found - 1

    @property
    def is_inside(self) -> bool:
        """Whether the printed range holds what was written."""
        return self.low <= self.found <= self.high

    @property
    def has_room(self) -> bool | None:
        """Whether pg_wal stayed within a segment, or 5 %, of the printed size; None where none is."""
        if self.pg_wal_most is None:
            return None
        segment = (QUICK if self.is_quick else FULL).segment_mb * MB
        return self.pg_wal_found <= self.pg_wal_most + max(segment, 0.05 * self.pg_wal_most)

    @property
    def is_back_in_time(self) -> bool | None:
        """Whether the recovery read no more WAL and took no longer than the printed figures."""
        if self.recovery_most_bytes is None:
            return None
        is_short = self.crashed_bytes <= self.recovery_most_bytes
        if self.recovery_most_s is None or self.crashed_s is None:
            return is_short
        return is_short and self.crashed_s <= self.recovery_most_s * self.recovery_band


def main() -> None:  # noqa: D103
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--only", nargs="*", metavar="LOAD")
    parser.add_argument("--quick", action="store_true", help="fewer cycles, a coarse answer")
    results = Path(__file__).with_name("carried_out.jsonl")
    parser.add_argument("--minutes", type=float, default=math.inf, help="after which no load is begun")
    parser.add_argument("--results", type=Path, default=results)
    parser.add_argument("--keep", type=Path, help="where to leave what was recorded")
    parser.add_argument("--work", type=Path, default=Path("/tmp/walproof-bench-advise"))
    arguments = parser.parse_args()
    effort = QUICK if arguments.quick else FULL
    until = time.monotonic() + 60 * arguments.minutes
    outcomes = _read(arguments.results)
    with laboratory(arguments.work) as made:
        for load in LOADS:
            is_chosen = not arguments.only or load.name in arguments.only
            is_done = any(
                outcome.load == load.name and outcome.is_quick == arguments.quick for outcome in outcomes
            )
            if not is_chosen or is_done or time.monotonic() > until:
                continue
            found = list(_carried_out(load, made, effort, arguments.keep))
            outcomes += found
            with arguments.results.open("a") as file:
                file.writelines(json.dumps(asdict(outcome)) + "\n" for outcome in found)
    shown = [outcome for outcome in outcomes if outcome.is_quick == arguments.quick]
    for outcome in shown:
        print(_row(outcome))
    print(_summary(shown))


def _read(results: Path) -> list[Outcome]:
    if not results.exists():
        return []
    return [Outcome(**row) for row in read_rows(results)]


def _summary(outcomes: list[Outcome]) -> str:
    if not outcomes:
        return "nothing was carried out"
    errors = [abs(outcome.error) for outcome in outcomes]
    rooms = [outcome.has_room for outcome in outcomes if outcome.has_room is not None]
    backs = [outcome.is_back_in_time for outcome in outcomes if outcome.is_back_in_time is not None]
    return (
        f"WAL: {sum(outcome.is_inside for outcome in outcomes)} of {len(outcomes)} inside the printed range, "
        f"off by {median(errors):.1%} in the median and {max(errors):.1%} at most; pg_wal: {sum(rooms)} of "
        f"{len(rooms)}; "
        f"recovery: {sum(backs)} of {len(backs)}; undone: {sum(outcome.is_undone for outcome in outcomes)}"
    )


def _row(outcome: Outcome) -> str:
    most = "-" if outcome.pg_wal_most is None else f"{outcome.pg_wal_most / MB:.0f}"
    before = "-" if outcome.before is None else f"{outcome.before:,.0f}"
    width = "" if outcome.found_half_width is None else f" ± {outcome.found_half_width:,.0f}"
    return (
        f"| {outcome.load} | {outcome.pg} | {outcome.title} | {outcome.sure} | "
        f"{before} | {outcome.before_simulated:,.0f} | "
        f"{outcome.predicted:,.0f} ({outcome.low:,.0f} to {outcome.high:,.0f}) | "
        f"{outcome.found:,.0f}{width} | {outcome.cycles} | "
        f"{outcome.error:+.1%} | {'yes' if outcome.is_inside else 'no'} | {most} | "
        f"{outcome.pg_wal_found / MB:.0f} | "
        f"{_size(outcome.recovery_most_bytes)} | {_size(outcome.crashed_bytes)} | "
        f"{_time(outcome.recovery_most_s)} | {_time(outcome.crashed_s)} | "
        f"{'yes' if outcome.is_undone else 'no'} |"
    )


def _size(size: float | None) -> str:
    return "-" if size is None else f"{size / MB:.1f}"


def _time(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds:.2f}"


def _carried_out(load: Load, made: Laboratory, effort: Effort, keep: Path | None) -> Iterator[Outcome]:
    with (
        tempfile.TemporaryDirectory() as parent,
        made.server(
            load.pg, {**BEFORE, "max_wal_size": "4GB"},
            *(sized(statement, effort) for statement in load.prepare),
            initdb=(f"--wal-segsize={effort.segment_mb}",),
        ) as base,
    ):  # fmt: skip
        if load.scale is not None:
            base.fill(max(1, round(load.scale * effort.share)))
        warm_up = str(round(load.warm_up * effort.share / 4))
        base.work("-c", "4", "-t", warm_up, "--random-seed=7", *script(load, base, effort))
        base.cluster.stop("fast")
        kept = Path(parent) / "kept"
        before_all = {
            **BEFORE, "max_wal_size": f"{effort.max_wal_size_mb}MB",
            "min_wal_size": f"{2 * effort.segment_mb}MB",
        }  # fmt: skip
        # What the large max_wal_size has recycled for later is kept until WAL has come through it.
        base.cluster.start(before_all)
        base.sql(_USE_UP_SEGMENTS, "CHECKPOINT")
        base.cluster.stop("fast")
        with made.server(load.pg, before_all, like=base) as server:
            looked_at(load, server, kept, effort)
        if keep is not None:
            shutil.copytree(kept, keep / load.name.replace(" ", "-"))
        case = read_kept(kept)
        assert case.whatif is not None
        assert case.wal is not None
        hours = case.whatif.hours
        assert hours is not None
        each = hours / case.wal.commits
        before = measured(kept, case.whatif.found.start)
        for told in advised(kept, f"{3 * effort.max_wal_size_mb}MB")["advice"]:
            wal = next((figure for figure in told["figures"] if figure["name"] == "WAL"), None)
            if wal is None or not told["apply"]:
                # Without lines (new keys in order of time) there is nothing to carry out here.
                continue
            printed = {figure["name"]: figure["then"] for figure in told["figures"]}
            with made.server(load.pg, before_all, like=base) as server:
                as_it_was = _settings(server)
                server.sql(*told["apply"].splitlines())
                time.sleep(0.5)
                assert _settings(server) != as_it_was, "the lines change something"
                found, pg_wal = worked(load, server, effort)
                back = _crashed(load, server, effort)
                server.sql(*told["undo"].splitlines())
                time.sleep(0.5)
                is_undone = _settings(server) == as_it_was
            yield Outcome(
                load.name, case.window.version, told["rule"], told["title"], told["sure"],
                None if before is None else before.all, wal["now"] * each, wal["then"] * each,
                wal["low"] * each, wal["high"] * each, found.all, found.half_width, len(found.of_cycles),
                printed.get("pg_wal at most"), pg_wal, is_undone, effort is QUICK,
                printed.get("WAL that recovery reads at most"), printed.get("longest crash recovery"),
                case.recovery_band, back.wal_bytes, back.redo_elapsed_s,
            )  # fmt: skip


def sized(text: str, effort: Effort) -> str:
    """The text with its number of rows."""
    return text.replace("{rows}", f"{1_500_000 * effort.share:.0f}")


def script(load: Load, server: Server, effort: Effort) -> tuple[str, ...]:
    """Arguments of pgbench for the work."""
    return load.work + (() if load.sql is None else server.script(sized(load.sql, effort)))


def _pace(load: Load, server: Server, effort: Effort) -> tuple[str, ...]:
    return ("-c", "4", "-R", str(load.rate), "--random-seed=29", *script(load, server, effort))


@contextmanager
def _under(load: Load, server: Server, effort: Effort) -> Iterator[None]:
    with server.load(*_pace(load, server, effort)):
        yield


def _crashed(load: Load, server: Server, effort: Effort) -> RecoveryTimes:
    """Crash it under the load, in the second half of a cycle, and let it recover."""
    behind = "SELECT pg_current_wal_insert_lsn() - redo_lsn FROM pg_control_checkpoint()"
    until = time.monotonic() + effort.most_s
    seen: list[float] = []

    def is_late() -> bool:
        seen.append(_number(server, behind))
        # The distance falls when a checkpoint completes: then the longest distance of a cycle is known.
        falls = [at for at, (distance, later) in enumerate(pairwise(seen)) if later < distance]
        longest = max(seen[: falls[0] + 1]) if falls else math.inf
        return seen[-1] > 0.8 * longest or time.monotonic() > until

    server.crash(is_late, *_pace(load, server, effort))
    return read_recovery_log(server.cluster.log_text())


def looked_at(load: Load, server: Server, kept: Path, effort: Effort) -> None:
    """Let walproof look at the load, in the middle of it."""
    program = str(Path(sys.executable).with_name("walproof"))
    command = [program, "advise", f"{server.cluster.conninfo} user={LOOKER}", "--json",
               "--for", f"{effort.most_s:g}s", "--wal-most", f"{effort.look_mb}MB",
               "--save", str(kept)]  # fmt: skip
    with _under(load, server, effort):
        time.sleep(5)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"walproof advise failed: {done.stderr}")


def worked(load: Load, server: Server, effort: Effort) -> tuple[Measured, float]:
    """Go on until whole cycles are over; return what they wrote and the largest pg_wal meanwhile."""
    redo = "SELECT redo_lsn - '0/0' FROM pg_control_checkpoint()"
    size = "SELECT sum(size) FROM pg_ls_waldir()"
    with tempfile.TemporaryDirectory() as folder:
        with server.beside("pg_receivewal", "-D", folder, "--no-sync"):
            time.sleep(1)
            began = time.monotonic()
            redos, sizes = [_number(server, redo)], [0.0]
            with _under(load, server, effort):
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
        found = measured(Path(folder), Lsn(int(redos[0]) + 1))
    assert found is not None
    return found, max(sizes)


def measured(folder: Path, start: Lsn) -> Measured | None:
    """Whole cycles of WAL after ``start``; None if there is no whole cycle."""
    found = simulate(folder, targets=[Target()], start=start)
    redos = [checkpoint.redo for checkpoint in found.recorded.checkpoints if checkpoint.redo > start]
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
    """Every row of pg_settings except those of the session."""
    query = "SELECT name, setting, source, sourcefile, sourceline, pending_restart FROM pg_settings"
    with server.cluster.connect() as session:
        return {str(row[0]): row[1:] for row in session.execute(query.encode())}


def advised(kept: Path, wal_disk: str) -> Any:
    """The advice that ``walproof advise`` gives from the stored facts."""
    program = str(Path(sys.executable).with_name("walproof"))
    command = [program, "advise", str(kept), "--json", "--wal-disk", wal_disk]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


if __name__ == "__main__":
    main()
