"""The Rust half of walproof (crates/walproof-python). Use it through ``walproof.wal``."""

from collections.abc import Sequence
from typing import Literal, TypedDict

__all__ = ["WalRecords", "wal_stats"]

_Columns = tuple[int, int, int, int]
"""Records, bytes of them without images, bytes of images, images."""

class _Images(TypedDict):
    count: int
    bytes: int
    uncompressed_bytes: int
    hint_count: int
    hint_bytes: int
    not_applied_count: int
    compressed: dict[str, tuple[int, int, int]]
    """``pglz``, ``lz4``, ``zstd`` -> images, their bytes, bytes that they would take uncompressed."""

class _Accounting(TypedDict):
    record_bytes: int
    padding_bytes: int
    page_header_bytes: int
    segment_header_bytes: int
    switch_bytes: int
    overwritten_bytes: int

class _Stats(TypedDict):
    version: int
    system_identifier: int
    segment_size: int
    timeline: int
    start: int
    end: int
    finish: Literal["requested", "last segment", "end of WAL", "error"]
    finish_reason: str | None
    error: tuple[str, str | None, str | None] | None
    """Message, detail, hint of what ended reading early."""
    gaps: list[tuple[int, int]]
    """End of the last record before a gap, first record behind it."""
    rmgrs: list[tuple[str, _Columns]]
    operations: list[tuple[str, _Columns]]
    images: _Images
    commits: int
    aborts: int
    first_commit_unix_us: int | None
    last_commit_unix_us: int | None
    checkpoints: list[tuple[int, int, Literal["online", "shutdown"], int, int]]
    relations: list[tuple[tuple[int, int, int, int], str | None, _Columns, int]]
    """(tablespace, database, relation, fork), access method of an index, totals, distinct blocks."""
    no_relation: _Columns
    minutes: list[tuple[int, _Columns, int]]
    """When it began (Unix time), totals, commits."""
    untimed: _Columns
    accounting: _Accounting

_Image = tuple[int, int, int, str | None, bool]
"""Length, hole offset, hole length, compression, applied."""
_Block = tuple[tuple[int, int, int, int, int, int], int, bool, _Image | None]
"""(id, tablespace, database, relation, fork, block), length of its data, initialised by replay, image."""
_Record = tuple[tuple[int, int, int], str, int, int, int, int | None, int | None, list[_Block]]
"""(LSN, previous LSN, end), resource manager/operation, total length, length of main data, transaction,
top-level transaction, origin, blocks."""

def wal_stats(
    paths: Sequence[str],
    start: int | None,
    end: int | None,
    timeline: int | None,
    *,
    allow_gaps: bool,
    partial: bool,
    threads: int,
) -> _Stats:
    """Totals of the records between two locations.

    Each byte of a record counts for one relation and fork: that of the block it is there for, else that of
    the record's first block; records without blocks are ``no_relation``. Raises WalError; with ``partial``,
    an error behind the first record is in the result, with the totals of what comes before it.
    """

class WalRecords:
    """Records in order. Each method goes on where the last one ended, and gives nothing at the end."""

    def __init__(
        self,
        paths: Sequence[str],
        start: int | None,
        end: int | None,
        timeline: int | None,
        *,
        allow_gaps: bool,
    ) -> None:
        """Raises WalError."""
    def rows(self, count: int) -> list[_Record]:
        """Up to ``count`` more records. Raises WalError after the last record that is in order."""
    def text(self, count: int, style: Literal["line", "blocks", "json"]) -> str:
        """Up to ``count`` more records as lines of text: ``line`` and ``blocks`` as pg_waldump without and
        with --bkp-details, ``json`` an object a line. Raises WalError after the last record in order."""
