"""How many 8 kB writes a device can make durable each second, by method: pg_test_fsync's first table.

Its figures bound commits: a client that waits for each commit cannot commit faster than its WAL is flushed.

pg_test_fsync opens its file as PostgreSQL opens WAL but for open_datasync and open_sync, to which it adds
O_DIRECT. A server does so only with wal_level = minimal (13 to 15) or debug_io_direct = wal (16 and newer):
get_sync_bit() in xlog.c.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import stat
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from walproof.errors import DiskError
from walproof.files import is_folder
from walproof.privilege.environment import child_environment
from walproof.units import format_bytes

DEFAULT_METHOD = "fdatasync"
"""wal_sync_method on Linux when nothing is set."""

DIRECT_METHODS = ("open_datasync", "open_sync")
"""Methods that pg_test_fsync measures with direct I/O."""

PASSES = 3
METHODS = 5
"""Lines of the table."""
_TITLE = "Compare file sync methods using one 8kB write"
_PREFIX = "walproof-fsync-"
_NEW_S = 10.0
"""A folder may be made and not locked yet."""
_FILE_BYTES = 16 << 20
"""A WAL segment."""
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
    least_per_s: float | None = None
    """Of the passes, of which ``flushes_per_s`` is the median."""
    most_per_s: float | None = None

    @property
    def flush_us(self) -> float | None:
        """Microseconds per flush."""
        return None if self.flushes_per_s is None else 1e6 / self.flushes_per_s


def measure_flush(program: Path, folder: Path, seconds: int = 2) -> tuple[FlushRate, ...]:
    """Flush rates of the device under ``folder``, from one 8 kB write per flush.

    ``program`` is a pg_test_fsync, which runs its first five tests, ``seconds`` each, ``PASSES`` times, so
    that what a device does for a while does not fall on one method alone. Raises DiskError.
    """
    if not is_folder(folder):
        raise DiskError(f'folder "{folder}" does not exist')
    try:
        _remove_left(folder)
        _require_room(folder)
        # In a folder of its own: pg_test_fsync opens its file by name, where others may write too.
        with tempfile.TemporaryDirectory(prefix=_PREFIX, dir=folder) as ours, _locked(ours):
            passes = [
                read_flush_rates(_first_table(program, Path(ours) / "file", seconds, folder))
                for _ in range(PASSES)
            ]
    except OSError as error:
        raise DiskError(f'could not write in folder "{folder}": {error.strerror}') from error
    return tuple(_together(rates) for rates in zip(*passes, strict=True))


@contextmanager
def _locked(path: str | Path) -> Iterator[None]:
    """Raises BlockingIOError if somebody else has locked the folder. A lock ends with its process."""
    number = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(number)


def _remove_left(folder: Path) -> None:
    """Remove our own folders that a walproof left there which was killed."""
    for left in folder.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            status = left.lstat()
            is_new = time.time() - status.st_mtime < _NEW_S
            if status.st_uid != os.geteuid() or not stat.S_ISDIR(status.st_mode) or is_new:
                continue
            with _locked(left):
                shutil.rmtree(left)


def _require_room(folder: Path) -> None:
    """On a full disk pg_test_fsync says "write failed: Success". Raises DiskError."""
    room = shutil.disk_usage(folder)
    if room.total > 0 and room.free < _FILE_BYTES:
        raise DiskError(
            f'folder "{folder}" has no room for the file of pg_test_fsync',
            detail=f"It writes {format_bytes(_FILE_BYTES)}; {format_bytes(room.free)} are free.",
            hint="Make room, or name another folder on the same device.",
        )


def _first_table(program: Path, file: Path, seconds: int, folder: Path) -> list[str]:
    """What pg_test_fsync prints until its first table ends, where it is stopped. Raises DiskError, OSError.

    It is also stopped when walproof is killed: its next line finds no reader.
    """
    patience_s = 120.0 + 20.0 * seconds
    is_late = threading.Event()
    lines: list[str] = []
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(
            [str(program), "-s", str(seconds), "-f", str(file)],
            stdout=subprocess.PIPE, stderr=errors, text=True, env=child_environment(),
        ) as process,
    ):  # fmt: skip

        def give_up() -> None:
            is_late.set()
            process.kill()

        clock = threading.Timer(patience_s, give_up)
        clock.start()
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if line.startswith("Compare") and not line.startswith(_TITLE):
                    return lines
                lines.append(line)
            status = process.wait()
        finally:
            clock.cancel()
            process.kill()
        if is_late.is_set():
            raise DiskError(f'pg_test_fsync did not end in folder "{folder}"')
        if status != 0:
            errors.seek(0)
            said = (errors.read().strip().splitlines() or [f"exit status {status}"])[-1]
            raise DiskError(
                f'pg_test_fsync failed in folder "{folder}"',
                # So says a write that was cut short: by a full disk, or by a quota, which is not seen before.
                detail=said.replace("write failed: Success", "write failed: no room is left"),
            )
    return lines


def _together(rates: Sequence[FlushRate]) -> FlushRate:
    """One method over all passes."""
    known = [rate.flushes_per_s for rate in rates if rate.flushes_per_s is not None]
    if len(known) < len(rates):
        return replace(rates[0], flushes_per_s=None)
    return replace(rates[0], flushes_per_s=median(known), least_per_s=min(known), most_per_s=max(known))


def read_flush_rates(lines: Iterable[str]) -> tuple[FlushRate, ...]:
    """The table "one 8kB write" of pg_test_fsync's output. Raises DiskError."""
    rates = []
    inside = False
    for line in lines:
        if line.startswith(_TITLE):
            inside = True
        elif inside and line.startswith("Compare"):
            break
        elif inside and (match := _LINE.match(line)):
            rates.append(FlushRate(match[1], float(match[2]) if match[2] else None, bool(match[4])))
    if not rates:
        raise DiskError("pg_test_fsync printed no flush rates")
    return tuple(rates)
