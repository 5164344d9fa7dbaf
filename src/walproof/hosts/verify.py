"""Files of an archive, verified by the hosts of a cluster: a batch of files for each task.

A task reports what ``wal verify`` finds in each file. As always, the machine that asked finds out how files
join and to which moments they restore. A file that its host could not read is read again here, so that the
answer is that of this machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path as FilePath
from typing import Any, NamedTuple

from walproof._native import wal_verify
from walproof.errors import WalError
from walproof.hosts.in_order import in_order
from walproof.wal.places.opened import attempt, is_address, open_place
from walproof.wal.places.place import FileSource, FileStatus, Place
from walproof.wal.progress import Observe
from walproof.wal.verify.layouts.archive import Archive
from walproof.wal.verify.reading import Verified, Verifier, Wanted, is_unread, verify_here

FILES_MOST = 64
"""The most files of a task, because a lost task is done again."""
_BATCHES_PER_CORE = 8


class File(NamedTuple):
    """One file to verify."""

    path: str
    status: FileStatus
    name: str
    is_partial: bool
    ending: str | None
    wants_sha1: bool


class FileBatch(NamedTuple):
    """What one task verifies."""

    files: tuple[File, ...]
    segment_size: int


def verify_on(cores: int) -> Verifier:
    """A verifier that uses the connected cluster, which has ``cores`` cores."""

    def verify(
        archive: Archive, wanted: Sequence[Wanted], segment_size: int, observe: Observe
    ) -> Iterator[Verified]:
        each = min(FILES_MOST, max(1, len(wanted) // (max(1, cores) * _BATCHES_PER_CORE)))
        batches = [wanted[first : first + each] for first in range(0, len(wanted), each)]
        orders = (FileBatch(tuple(map(_file, batch)), segment_size) for batch in batches)
        here = verify_here(1)
        for batch, (_, plain) in zip(batches, in_order(verify_batch, orders, cores), strict=True):
            if plain is None or any(map(is_unread, plain)):
                yield from here(archive, batch, segment_size, observe)
            else:
                yield batch, plain, None

    return verify


def _file(wanted: Wanted) -> File:
    file, wants_sha1 = wanted
    path = file.path if is_address(file.path) else str(FilePath(file.path).absolute())
    return File(path, file.status, file.name, file.is_partial, file.ending, wants_sha1)


def verify_batch(order: FileBatch) -> list[Mapping[str, Any]] | None:
    """The facts of each file, on one core; None if a store could not be read."""
    with ExitStack() as stack:
        stores: dict[str, Place] = {}
        files: list[tuple[FileSource, str, bool, str | None, bool]] = []
        for file in order.files:
            source: FileSource = file.path
            if is_address(file.path):
                root = "/".join(file.path.split("/")[:3])
                if root not in stores:
                    stores[root] = open_place(root, stack)
                    stores[root].read_by(1)
                reader = stores[root].reader
                assert reader is not None
                reader.expect([(file.path, file.status)])
                source = (file.path, file.status.size, reader)
            files.append((source, file.name, file.is_partial, file.ending, file.wants_sha1))
        try:
            plain, failure = attempt(stores.values(), wal_verify, files, order.segment_size, 1)
        except WalError:
            return None
    return None if failure is not None else list(plain)
