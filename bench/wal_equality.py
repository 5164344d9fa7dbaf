"""The decoder against pg_waldump, record for record, on a million records of every version and more.

    python bench/wal_equality.py [--records N] [--install MAJOR=BINDIR ...]

Servers of each version write WAL of every kind (tests/wal/load.py) under several configurations until N
records (1,000,000) have been compared: LSN, previous LSN, resource manager, operation, lengths, transaction,
block references, images. The oracle is the pg_waldump beside the server. A version without one (14 from
``walproof pg install``) is compared with pg_stat_wal and with LSN arithmetic instead. Exit status 1 on any
difference.

Debian has 13 in bullseye, 15 in bookworm, 17 in trixie, 18 in sid: ``apt-get download postgresql-17`` with
that suite in a sources.list of its own, then ``dpkg-deb -x``; ``--install 17=DIR/usr/lib/postgresql/17/bin``.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator
from itertools import cycle, zip_longest
from pathlib import Path

from tests.wal.load import run_load
from tests.wal.server import BINDIRS, Server
from tests.wal.waldump import Record, record_of, rows_of
from walproof.units import Lsn
from walproof.wal import stats

CONFIGURATIONS: list[tuple[list[str], dict[str, str]]] = [
    (["--wal-segsize=1"], {"wal_compression": "on"}),
    (["--wal-segsize=16", "-k"], {}),
    (["--wal-segsize=64"], {"wal_log_hints": "on", "wal_consistency_checking": "all"}),
    (["--wal-segsize=4"], {"wal_level": "replica", "full_page_writes": "off"}),
]
COMPRESSION = [{"wal_compression": "lz4"}, {"wal_compression": "zstd"}]
"""From 15, where the build has it."""
ROWS = 9000


def main() -> None:
    """Compare every version; print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--install", action="append", default=[], metavar="MAJOR=BINDIR")
    arguments = parser.parse_args()
    installs = dict(BINDIRS)
    for text in arguments.install:
        major, _, bindir = text.partition("=")
        installs[major] = Path(bindir)
    print(f"{'version':<8}{'records':>12}{'operations':>12}{'servers':>9}{'differences':>13}  oracle")
    failed = False
    for major in sorted(installs, key=int):
        failed |= compare_version(installs[major], arguments.records) > 0
    sys.exit(1 if failed else 0)


def compare_version(bindir: Path, wanted: int) -> int:
    """Differences on so many records of one version."""
    compared = servers = differences = 0
    operations: set[str] = set()
    has_oracle = (bindir / "pg_waldump").exists()
    configurations = list(CONFIGURATIONS)
    if (bindir / "pg_config").exists() or "usr/lib/postgresql" in str(bindir):
        with Server(bindir) as server:
            major = server.major
        configurations += [(["--wal-segsize=1"], one) for one in COMPRESSION] if major >= 15 else []
    for initdb, settings in cycle(configurations):
        # What parallel workers write is counted twice by pg_stat_wal: by them, and by their leader.
        alone = {} if has_oracle else {"max_parallel_maintenance_workers": "0"}
        with Server(bindir, initdb, {**settings, **alone}) as server:
            major = server.major
            if has_oracle:
                start = server.insert_lsn()
                run_load(server, ROWS)
                end = server.insert_lsn()
                count, bad = compare_records(server, start, end, operations)
            else:
                start, *before = server.quiet_reading()
                run_load(server, ROWS)
                end, *after = server.quiet_reading()
                count, bad = compare_totals(server, start, end, before, after, operations)
        compared, servers, differences = compared + count, servers + 1, differences + bad
        if compared >= wanted:
            break
    oracle = "pg_waldump" if has_oracle else "pg_stat_wal, LSN arithmetic"
    print(
        f"{major:<8}{compared:>12,}{len(operations):>12}{servers:>9}{differences:>13}  {oracle}", flush=True
    )
    return differences


def compare_records(server: Server, start: Lsn, end: Lsn, operations: set[str]) -> tuple[int, int]:
    """(records, differences), a few thousand of them in memory."""
    count = differences = 0
    expected = waldump_records(server, start, end)
    for one, other in zip_longest(expected, rows_of(str(server.wal), start, end)):
        count += 1
        if one != other:
            differences += 1
            if differences <= 3:
                print(f"expected {one}\n     got {other}")
        elif one is not None:
            operations.add(one[2])
    wal = stats(server.wal, start=start, end=end)
    if wal.accounting.total_bytes != wal.end - wal.start:
        differences += 1
        print(f"{wal.accounting} is not {wal.end - wal.start} bytes")
    return count, differences


def waldump_records(server: Server, start: Lsn, end: Lsn) -> Iterator[Record]:
    """What pg_waldump prints, record by record."""
    command = [str(server.bindir / "pg_waldump"), "-p", str(server.wal), "-s", str(start), "-e", str(end)]
    process = subprocess.Popen([*command, "--bkp-details"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    part: list[str] = []
    for line in process.stdout:
        if line.startswith("rmgr: ") and part:
            yield record_of("".join(part))
            part = []
        part.append(line)
    if part:
        yield record_of("".join(part))
    process.wait()


def compare_totals(
    server: Server, start: Lsn, end: Lsn, before: list[int], after: list[int], operations: set[str]
) -> tuple[int, int]:
    """(records, differences) by pg_stat_wal and by arithmetic."""
    wal = stats(server.wal, start=start, end=end)
    operations.update(f"{name}/{one}" for name, own in wal.rmgrs.items() for one in own.operations)
    expected = [new - old for old, new in zip(before, after, strict=True)]
    counted = [wal.totals.records, wal.images.count, wal.totals.combined_bytes]
    differences = int(counted != expected)
    if differences:
        print(f"expected {expected}, got {counted} (records, images, bytes)")
    return wal.totals.records, differences + int(wal.accounting.total_bytes != wal.end - wal.start)


if __name__ == "__main__":
    main()
