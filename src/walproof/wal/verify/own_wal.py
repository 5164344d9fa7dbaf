"""The WAL that a base backup holds itself, as ``pg_basebackup -X stream`` puts it there: recovery reads it in
pg_wal where the archive does not have it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from walproof.errors import WalError
from walproof.units import Lsn
from walproof.wal.places.place import Entry, Place
from walproof.wal.verify.names import WalFile, segment_file

_SIZES = {1 << power for power in range(20, 31)}


@dataclass(frozen=True, slots=True)
class OwnWal:
    """The segments in a backup's pg_wal."""

    segment_size: int = 0
    numbers: frozenset[int] = frozenset()
    is_packed: bool = False
    """Whether pg_wal is a tar file. pg_basebackup fails if it cannot write all of it."""

    def holds(self, start: Lsn, stop: Lsn) -> bool:
        """Whether every segment from ``start`` to ``stop`` is there."""
        if self.is_packed or not self.segment_size:
            return self.is_packed
        needed = range(start // self.segment_size, (stop - 1) // self.segment_size + 1)
        return all(number in self.numbers for number in needed)


NO_WAL = OwnWal()


def read_own_wal(folder: Place, names: Collection[str]) -> OwnWal:
    """The WAL of the backup in a folder; ``names``: what is in the folder."""
    if any(name == "pg_wal.tar" or name.startswith("pg_wal.tar.") for name in names):
        return OwnWal(is_packed=True)
    if "pg_wal" not in names:
        return NO_WAL
    try:
        files = [file for entry in (folder / "pg_wal").entries() if (file := _plain(entry)) is not None]
    except WalError:  # who may read a backup's manifest need not be allowed to see its WAL
        return NO_WAL
    size = max((file.size for file in files), default=0)
    if size not in _SIZES:
        return NO_WAL
    return OwnWal(
        size,
        frozenset(
            file.number(size)
            for file in files
            if file.size == size and _is_written(folder / "pg_wal" / file.name, file.number(size) * size)
        ),
    )


def _plain(entry: Entry) -> WalFile | None:
    """A segment under the name that a server reads in pg_wal; None for anything else."""
    status = entry.status() if len(entry.name) == 24 else None
    return None if status is None else segment_file(entry.path, entry.name, status)


def _is_written(file: Place, start: int) -> bool:
    """Whether a segment's first page belongs where its name says: a file that a server recycled has another
    address (``xlp_pageaddr``)."""
    try:
        first = file.first_bytes(16)
    except (OSError, WalError):
        return False
    return int.from_bytes(first[8:16], "little") == start
