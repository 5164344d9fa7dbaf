"""How many 8 kB writes a device can make durable each second, by method: pg_test_fsync's first table.

Its figures bound commits: a client that waits for each commit cannot commit faster than its WAL is flushed.

pg_test_fsync opens its file as PostgreSQL opens WAL but for open_datasync and open_sync, to which it adds
O_DIRECT. A server does so only with wal_level = minimal (13 to 15) or debug_io_direct = wal (16 and newer):
get_sync_bit() in xlog.c.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from walproof.errors import DiskError
from walproof.privilege.environment import child_environment

DEFAULT_METHOD = "fdatasync"
"""wal_sync_method on Linux when nothing is set."""

DIRECT_METHODS = ("open_datasync", "open_sync")
"""Methods that pg_test_fsync measures with direct I/O."""

_LINE = re.compile(r"\s*(\w+)\s+(?:([\d.]+) ops/sec\s+(\d+) usecs/op|n/a(\*?))\*?\s*$")


@dataclass(frozen=True, slots=True)
class FlushRate:
    """One method of wal_sync_method on one device."""

    method: str
    flushes_per_s: float | None
    """None if the platform does not have the method, or as ``lacks_direct``."""
    lacks_direct: bool = False
    """Whether the file system has no direct I/O, so that the method could not be measured; a server may use
    it."""

    @property
    def flush_us(self) -> float | None:
        """Microseconds per flush."""
        return None if self.flushes_per_s is None else 1e6 / self.flushes_per_s


def measure_flush(program: Path, folder: Path, seconds: int = 2) -> tuple[FlushRate, ...]:
    """Flush rates of the device under ``folder``, from one 8 kB write per flush.

    ``program`` is a pg_test_fsync; it runs all its tests, ``seconds`` each (17 of them). Raises DiskError.
    """
    if not folder.is_dir():
        raise DiskError(f'folder "{folder}" does not exist')
    try:
        # In a folder of its own: pg_test_fsync opens its file by name, where others may write too.
        with tempfile.TemporaryDirectory(prefix="walproof-fsync-", dir=folder) as ours:
            done = subprocess.run(
                [str(program), "-s", str(seconds), "-f", str(Path(ours) / "file")],
                capture_output=True, text=True, check=False, timeout=120 + 60 * seconds,
                env=child_environment(),
            )  # fmt: skip
    except OSError as error:
        raise DiskError(f'could not write in folder "{folder}": {error.strerror}') from error
    except subprocess.TimeoutExpired:
        raise DiskError(f'pg_test_fsync did not end in folder "{folder}"') from None
    if done.returncode != 0:
        raise DiskError(
            f'pg_test_fsync failed in folder "{folder}"',
            detail=(done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1],
        )
    return read_flush_rates(done.stdout.splitlines())


def read_flush_rates(lines: Iterable[str]) -> tuple[FlushRate, ...]:
    """The table "one 8kB write" of pg_test_fsync's output. Raises DiskError."""
    rates = []
    inside = False
    for line in lines:
        if line.startswith("Compare file sync methods using one 8kB write"):
            inside = True
        elif inside and line.startswith("Compare"):
            break
        elif inside and (match := _LINE.match(line)):
            rates.append(FlushRate(match[1], float(match[2]) if match[2] else None, bool(match[4])))
    if not rates:
        raise DiskError("pg_test_fsync printed no flush rates")
    return tuple(rates)
