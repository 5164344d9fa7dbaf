"""Which records are wanted."""

from __future__ import annotations

import re
from dataclasses import dataclass

from walproof._native import operation_names
from walproof.errors import WalError
from walproof.wal.totals import FORKS

RawFilter = tuple[list[str], list[int], list[tuple[int, int, int]], int | None, int | None, bool]


@dataclass(frozen=True, slots=True)
class RecordFilter:
    """Conditions, all of which a record has to meet. Of a tuple any member will do, and an empty one is met
    by every record. One and the same block has to be of the relation and the fork and have the number.
    """

    operations: tuple[str, ...] = ()
    """``Heap``, or ``Heap/INSERT``, which stands for INSERT+INIT as well."""
    xids: tuple[int, ...] = ()
    """Also the ends of transactions with such subtransactions, and of such prepared ones."""
    relations: tuple[tuple[int, int, int], ...] = ()
    """Tablespace, database and file number."""
    fork: str | None = None
    block: int | None = None
    only_images: bool = False
    """Records with a full-page image, of whichever block."""

    def __post_init__(self) -> None:
        """Raises WalError for names that no record has."""
        for operation in self.operations:
            _require_known(operation)
        if self.fork is not None and self.fork not in FORKS:
            raise WalError(f'no fork is called "{self.fork}"', hint=f"Choose one of {', '.join(FORKS)}.")

    def raw(self) -> RawFilter:
        """As ``WalRecords`` takes it."""
        fork = None if self.fork is None else FORKS.index(self.fork)
        return (
            list(self.operations), list(self.xids), list(self.relations), fork, self.block, self.only_images,
        )  # fmt: skip


def _require_known(wanted: str) -> None:
    """Raises WalError unless it is a resource manager or an operation, with its ``+INIT`` or without."""
    names = operation_names()
    rmgrs = [name for name in names if "/" not in name]
    given, _, _operation = wanted.partition("/")
    custom = re.fullmatch(r"custom(\d{3})", given.lower())
    if custom is not None and 128 <= int(custom[1]) <= 255:
        return  # walproof knows no names of an extension's operations
    if given.lower() not in map(str.lower, rmgrs):
        raise WalError(
            f'no resource manager is called "{given}"',
            hint=f"There are {', '.join(rmgrs)}; those of extensions are custom128 to custom255.",
        )
    known = {part.lower() for name in names for part in (name, name.partition("+")[0])}
    if wanted.lower() not in known and "unknown (" not in wanted.lower():
        own = [name for name in names if name.lower().startswith(f"{given.lower()}/")]
        raise WalError(f'no operation is called "{wanted}"', hint=f"There are {', '.join(own)}.")
