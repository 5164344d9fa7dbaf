"""Which records are wanted."""

from __future__ import annotations

from dataclasses import dataclass

from walproof._native import rmgr_names
from walproof.errors import WalError
from walproof.wal.totals import FORKS

RawFilter = tuple[list[str], list[int], list[tuple[int, int, int]], int | None, int | None, bool]


@dataclass(frozen=True, slots=True)
class RecordFilter:
    """Conditions, all of which a record has to meet. Of a tuple any member will do, and an empty one is met
    by every record. One and the same block has to meet all conditions about blocks.
    """

    operations: tuple[str, ...] = ()
    """``Heap``, or ``Heap/INSERT``, which stands for INSERT+INIT as well."""
    xids: tuple[int, ...] = ()
    relations: tuple[tuple[int, int, int], ...] = ()
    """Tablespace, database and file number."""
    fork: str | None = None
    block: int | None = None
    only_images: bool = False
    """Records with a full-page image at least."""

    def __post_init__(self) -> None:
        """Raises WalError for names that no record has."""
        known = {name.lower() for name in rmgr_names()}
        for operation in self.operations:
            rmgr = operation.partition("/")[0].lower()
            is_custom = rmgr.startswith("custom") and rmgr[6:].isdecimal()
            if rmgr not in known and not is_custom:
                raise WalError(
                    f'no resource manager is called "{operation.partition("/")[0]}"',
                    hint=f"There are {', '.join(rmgr_names())}; an extension's is custom128 to custom255.",
                )
        if self.fork is not None and self.fork not in FORKS:
            raise WalError(f'no fork is called "{self.fork}"', hint=f"Choose one of {', '.join(FORKS)}.")

    def raw(self) -> RawFilter:
        """As ``WalRecords`` takes it."""
        fork = None if self.fork is None else FORKS.index(self.fork)
        return (
            list(self.operations), list(self.xids), list(self.relations), fork, self.block, self.only_images,
        )  # fmt: skip
