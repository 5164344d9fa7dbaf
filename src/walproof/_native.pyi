"""The Rust half of walproof (crates/walproof-python). Use it through ``walproof.wal``."""

from typing import Literal, TypedDict

__all__ = ["wal_records", "wal_summary"]

class _Images(TypedDict):
    count: int
    bytes: int
    uncompressed_bytes: int
    hint_count: int
    hint_bytes: int
    not_applied_count: int
    compressed_count: dict[str, int]

class _Accounting(TypedDict):
    record_bytes: int
    padding_bytes: int
    page_header_bytes: int
    segment_header_bytes: int
    switch_bytes: int
    overwritten_bytes: int

class _Summary(TypedDict):
    version: int
    system_identifier: int
    segment_size: int
    timeline: int
    start: int
    end: int
    finish: Literal["requested", "last segment", "end of WAL"]
    finish_reason: str | None
    rmgrs: list[tuple[str, int, int, int]]
    operations: list[tuple[str, int, int, int]]
    images: _Images
    commits: int
    aborts: int
    first_commit_unix_us: int | None
    last_commit_unix_us: int | None
    checkpoints: list[tuple[int, int, Literal["online", "shutdown"], int, int]]
    accounting: _Accounting

_Image = tuple[int, int, int, str | None, bool]
_Block = tuple[int, int, int, int, int, int, _Image | None]
_Record = tuple[int, int, str, int, int, int, list[_Block]]

def wal_summary(
    path: str, start: int | None = None, end: int | None = None, timeline: int | None = None
) -> _Summary:
    """Totals of the records between two locations. Raises WalError."""

def wal_records(
    path: str, start: int | None = None, end: int | None = None, timeline: int | None = None
) -> list[_Record]:
    """Every record: LSN, previous LSN, operation, length, image bytes, xid, blocks. Raises WalError.

    A block is id, tablespace, database, relation, fork, block number, image; an image is length, hole
    offset, hole length, compression, applied. All in memory at once: for ranges of a few segments.
    """
