"""Whether walproof reads WAL as pg_waldump does: a million records and more of every version, one by one.

    PYTHONPATH=. python bench/wal_equality.py --install 13=DIR --install 14=DIR --install 17=DIR
    PYTHONPATH=. python bench/wal_equality.py --only 19 --install 19=DIR
    PYTHONPATH=. python bench/wal_equality.py --damage 300

For each version a real server runs the load of tests/wal/load.py under each of tests/wal/configurations.py,
and its own pg_waldump says what every record is: location, previous location, resource manager, operation,
length, bytes of images, transaction, and each block with its image. What the server itself counted
(pg_stat_wal, from 14) and the distance of the locations are checked as well. Prints a line and more for each
version; exits with 1 on a difference. All of it takes about a quarter of an hour, and 10 GB of disk at most.

With --damage the golden WAL is damaged in a random way, again and again, and both must stop at the same place
with the same words (tests/wal/damage.py).

Installs at hand are found: Debian's 15, and the embedded 16 and 18, which lack lz4, zstd and contrib. For
others give the folder with postgres, initdb and pg_waldump. pg_waldump of 14 is in no current suite; that of
13 reads 14's WAL below wal_level=logical when pages are relabelled (tests/wal/borrowed.py); the rest of 14 is
checked by its own counts. `walproof pg install 14` gives the server.

bench/distribution_install.py makes installs of other Debian suites beside the system's: 18 from sid, 19~rc1
from experimental. Programs of a suite as old as bullseye, which has postgresql-13, are started by a script
instead:

    exec ROOT/lib64/ld-linux-x86-64.so.2 --library-path ROOT/usr/lib/x86_64-linux-gnu PROGRAM "$@"
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.wal.borrowed import READ_BY, WRITTEN_BY, borrow
from tests.wal.configurations import CONFIGURATIONS, GIGABYTE, Configuration
from tests.wal.damage import compare_damages
from tests.wal.equality import Comparison, account, compare, compare_counts
from tests.wal.load import run_load
from tests.wal.operations import operations_of
from tests.wal.rare import truncate_logs_of_transactions
from tests.wal.restarts import (
    change_settings,
    lose_a_continuation,
    promote,
    switch_timeline,
    timeline_switches,
)
from tests.wal.server import BINDIRS, Server
from tests.wal.waldump import Oracle
from walproof.units import Lsn
from walproof.wal import stats

MAJORS = range(13, 20)
MB = 1024 * 1024


@dataclass
class Installs:
    """The folder of the binaries, by major version."""

    bindirs: dict[int, Path] = field(default_factory=lambda: {int(v): path for v, path in BINDIRS.items()})
    waldumps: dict[int, list[str]] = field(default_factory=dict)

    def waldump(self, major: int) -> list[str] | None:
        """The command of that version's own pg_waldump."""
        beside = self.bindirs.get(major, Path()) / "pg_waldump"
        return self.waldumps.get(major) or ([str(beside)] if beside.exists() else None)


@dataclass
class Row:
    """A line of the table."""

    major: int
    binaries: str
    configurations: list[str] = field(default_factory=list)
    found: Comparison = field(default_factory=Comparison)
    totals_only: int = 0
    """Records of which only totals were compared."""


def run_version(major: int, installs: Installs, chosen: Sequence[Configuration]) -> Row:
    """Check all configurations of one version."""
    bindir = installs.bindirs[major]
    said = subprocess.run([bindir / "postgres", "--version"], capture_output=True, text=True, check=True)
    row = Row(major, said.stdout.split()[2])
    command = installs.waldump(major)
    borrowed = None if command or major != WRITTEN_BY else installs.waldump(READ_BY)
    for configuration in chosen:
        if borrowed and configuration.wal_level == "logical":
            # What 13 cannot read is run once more below, so that only what logical adds goes without it.
            run_configuration(row, configuration, bindir, None, None)
        run_configuration(
            row, configuration.below_logical() if borrowed else configuration, bindir, command, borrowed
        )
    return row


def run_configuration(
    row: Row,
    configuration: Configuration,
    bindir: Path,
    command: list[str] | None,
    borrowed: list[str] | None,
) -> None:
    """Run one load on one server, and compare each stretch of WAL."""
    with configuration.server(bindir) as server:
        stretches = write(server, configuration, row.found)
        oracle = Oracle(command, server.wal) if command else None
        if borrowed:
            oracle = borrow(borrowed, server)
        method = server.setting("wal_compression")
        records = 0
        for start, end, timeline in stretches:
            if oracle:
                found = compare(oracle, server.wal, start, end, timeline)
                records += found.records
                row.found += found
            summary = stats(server.wal, start=start, end=end, timeline=timeline)
            row.found += account(summary, end)
            if not oracle:
                row.totals_only += summary.totals.records
                row.found.operations.update(
                    f"{name}/{operation}"
                    for name, rmgr in summary.rmgrs.items()
                    for operation in rmgr.operations
                )
        whole = stats(server.wal, start=stretches[0][0], end=stretches[-1][1])
        if oracle and whole.totals.records != records:
            row.found.differ(f"{whole.totals.records} records over all timelines, {records} one by one")
    name = f"{configuration.name} ({configuration.segment_mb} MB, {configuration.wal_level}, {method})"
    row.configurations.append(name if oracle else f"{name}, totals")
    progress(f"{row.major}: {row.configurations[-1]}: {records or whole.totals.records} records")


def write(server: Server, configuration: Configuration, found: Comparison) -> list[tuple[Lsn, Lsn, int]]:
    """Run the load; return the stretches that it wrote: start, end, timeline."""
    start = server.insert_lsn()
    counted = server.major >= 14
    before = server.quiet_reading() if counted else None
    run_load(server, configuration.size)
    if before:
        quiet, *counts = server.quiet_reading()
        server.insert_lsn()  # flushes
        summary = stats(server.wal, start=before[0], end=quiet)
        records, images, wal_bytes = (new - old for new, old in zip(counts, before[1:], strict=True))
        found += compare_counts(server.major, summary, records, images, wal_bytes)
    if not configuration.restarts:
        return [(start, server.insert_lsn(), 1)]
    truncate_logs_of_transactions(server)
    change_settings(server)
    lose_a_continuation(server, configuration.segment_mb * MB)
    switch_timeline(server)
    promote(server)
    ends = [*timeline_switches(server), server.insert_lsn()]
    return list(zip([start, *ends], ends, range(1, len(ends) + 1), strict=False))


def progress(text: str) -> None:
    """Tell people on stderr."""
    print(text, file=sys.stderr, flush=True)


def print_head() -> None:
    """Print the head of the table."""
    heads = f"{'records':>10} {'blocks':>10} {'images':>9} {'differences':>12} {'operations':>11}"
    print(f"{'':>4} {'binaries':<9} {heads}", flush=True)


def print_row(row: Row) -> None:
    """Print a line, then the configurations, what was not reached and what differed."""
    known = operations_of(row.major)
    found, reached = row.found, row.found.operations.keys() & known
    print(
        f"{row.major:>4} {row.binaries:<9} {found.records:>10,} {found.blocks:>10,} {found.images:>9,}"
        f" {found.differences:>12,} {f'{len(reached)} of {len(known)}':>11}"
    )
    if row.totals_only:
        print(f"     and {row.totals_only:,} records by totals and locations alone")
    for name in row.configurations:
        print(f"     {name}")
    for what, names in (("not reached", known - reached), ("unknown", found.operations.keys() - known)):
        if names:
            print(f"     {what}: {', '.join(sorted(names))}")
    for difference in found.shown:
        print(f"     DIFFERENT: {difference}")
    sys.stdout.flush()


def main() -> int:
    """Run what the command line asks for; return 1 on a difference."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--install", action="append", default=[], metavar="MAJOR=BINDIR")
    parser.add_argument("--waldump", action="append", default=[], metavar="MAJOR='COMMAND'")
    parser.add_argument("--only", type=lambda text: [int(part) for part in text.split(",")], default=MAJORS,
                        metavar="MAJOR,...")  # fmt: skip
    parser.add_argument(
        "--configuration", action="append", metavar="NAME", help="of tests/wal/configurations.py"
    )
    parser.add_argument("--damage", type=int, metavar="N", help="compare N damages of each version instead")
    parser.add_argument("--seed", type=int, default=1, help="of the damages")
    arguments = parser.parse_args()
    installs = Installs()
    installs.bindirs.update({int(major): Path(path) for major, path in map(_pair, arguments.install)})
    installs.waldumps.update({int(major): shlex.split(text) for major, text in map(_pair, arguments.waldump)})
    if arguments.damage:
        reports = [
            compare_damages(major, command, arguments.damage, arguments.seed, threads)
            for major in arguments.only
            if (command := installs.waldump(major))
            for threads in (1, 3)
        ]
        for report in reports:
            print(report)
        return int(any(report.differences for report in reports))
    print_head()
    differences = 0
    for major in arguments.only:
        if major not in installs.bindirs:
            progress(f"{major}: no binaries; --install {major}=BINDIR names them")
            continue
        chosen = [*CONFIGURATIONS, *([GIGABYTE] if major == max(installs.bindirs) else [])]
        if arguments.configuration:
            chosen = [
                configuration
                for configuration in [*CONFIGURATIONS, GIGABYTE]
                if configuration.name in arguments.configuration
            ]
        row = run_version(major, installs, chosen)
        print_row(row)
        differences += row.found.differences
    return int(differences > 0)


def _pair(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return name, value


if __name__ == "__main__":
    sys.exit(main())
