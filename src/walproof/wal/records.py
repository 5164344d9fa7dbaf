"""Records one by one, as values, as text, and as a frame."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from walproof._native import WalRecords
from walproof.errors import WalError
from walproof.units import Lsn
from walproof.wal.places.opened import OpenPlaces, Path, reading
from walproof.wal.progress import Observe
from walproof.wal.totals import FORKS

if TYPE_CHECKING:
    import polars

    from walproof._native import _Record as RecordRow
    from walproof.wal.filter import RecordFilter

_BATCH = 4096
"""How many records are in memory at a time."""
_FRAME_BATCH = 65536


@dataclass(frozen=True, slots=True)
class Image:
    """A full-page image's header."""

    length: int
    """The image's bytes in the record."""
    hole_offset: int
    hole_length: int
    compression: str | None
    """``pglz``, ``lz4`` or ``zstd``."""
    apply: bool
    """Whether recovery restores it; otherwise it is there for wal_consistency_checking."""


@dataclass(frozen=True, slots=True)
class BlockRef:
    """A block that a record changes."""

    id: int
    tablespace: int
    database: int
    relation: int
    fork: str
    block: int
    data_length: int
    will_init: bool
    """Whether replay builds the block from nothing."""
    image: Image | None


@dataclass(frozen=True, slots=True)
class Record:
    """A sound record: it is linked to the one before, its checksum is right, and its parts add up."""

    lsn: Lsn
    prev: Lsn
    end: Lsn
    """Where the next one may begin."""
    rmgr: str
    operation: str
    """The operation as pg_waldump prints it: ``INSERT+INIT``."""
    total_length: int
    main_data_length: int
    xid: int
    toplevel_xid: int | None
    origin: int | None
    blocks: tuple[BlockRef, ...]

    @property
    def image_bytes(self) -> int:
        """Bytes of its full-page images."""
        return sum(block.image.length for block in self.blocks if block.image)


def records(
    *paths: Path,
    start: Lsn | None = None,
    end: Lsn | None = None,
    timeline: int | None = None,
    allow_gaps: bool = False,
    only: RecordFilter | None = None,
) -> Iterator[Record]:
    """Yield records in order, with a bounded number of them in memory. Arguments are as for ``stats``;
    ``only`` is what records have to meet. Raises WalError during iteration, after the last sound record."""
    with reading(paths) as wal:
        reader = _reader(wal, start, end, timeline, allow_gaps, only)
        while rows := wal.call(reader.rows, _BATCH):
            yield from map(_record, rows)


def lines(
    *paths: Path,
    style: Literal["line", "blocks", "json"] = "line",
    start: Lsn | None = None,
    end: Lsn | None = None,
    timeline: int | None = None,
    allow_gaps: bool = False,
    limit: int | None = None,
    only: RecordFilter | None = None,
    observe: Observe | None = None,
) -> Generator[str, None, int]:
    """Text of many records at a time: ``line`` and ``blocks`` are as pg_waldump prints them without and with
    --bkp-details (but without the inside of operations); ``json`` is an object on each line. ``only`` is what
    they have to meet, and ``limit`` how many there are at most. ``observe`` is told how far it has come.

    Returns how many records were read. Raises WalError during iteration, after the last sound record.
    """
    with reading(paths) as wal:
        reader = _reader(wal, start, end, timeline, allow_gaps, only)
        left = limit
        while left is None or left > 0:
            count = _BATCH if left is None else min(_BATCH, left)
            text, found = wal.call(reader.text, count, style, wal.observed(observe))
            if not found:
                break
            yield text
            left = None if left is None else left - found
        return reader.records_read()


def frame(
    *paths: Path,
    start: Lsn | None = None,
    end: Lsn | None = None,
    timeline: int | None = None,
    allow_gaps: bool = False,
    only: RecordFilter | None = None,
) -> polars.DataFrame:
    """A frame with a row for each block reference, and one for each record without any; ``.to_arrow()`` gives
    a table. ``only`` is what records have to meet.

    Columns: ``lsn``, ``prev`` (u64), ``rmgr``, ``operation`` (categorical), ``xid``, ``total_length``,
    ``main_data_length`` (u32), ``toplevel_xid``, ``origin``; and, null without a block: ``block_id``,
    ``tablespace``, ``database``, ``relation``, ``fork`` (categorical), ``block``, ``data_length``,
    ``will_init``, ``image_length``, ``hole_length``, ``compression`` (categorical), ``apply``.
    What belongs to the record is repeated in each of its rows, so count records by ``lsn``.

    Needs polars (``pip install walproof[frame]``). Raises WalError.
    """
    try:
        import polars as pl
    except ImportError as error:
        raise WalError(
            "a frame of records needs polars", hint='Install it: pip install "walproof[frame]".'
        ) from error
    schema = {
        "lsn": pl.UInt64, "prev": pl.UInt64, "rmgr": pl.Categorical, "operation": pl.Categorical,
        "xid": pl.UInt32, "total_length": pl.UInt32, "main_data_length": pl.UInt32,
        "toplevel_xid": pl.UInt32, "origin": pl.UInt16, "block_id": pl.UInt8, "tablespace": pl.UInt32,
        "database": pl.UInt32, "relation": pl.UInt32, "fork": pl.Categorical, "block": pl.UInt32,
        "data_length": pl.UInt16, "will_init": pl.Boolean, "image_length": pl.UInt16,
        "hole_length": pl.UInt16, "compression": pl.Categorical, "apply": pl.Boolean,
    }  # fmt: skip
    parts = [pl.DataFrame(schema=schema)]
    with reading(paths) as wal:
        reader = _reader(wal, start, end, timeline, allow_gaps, only)
        while rows := wal.call(reader.rows, _FRAME_BATCH):
            cells = [cell for row in rows for cell in _cells(row)]
            parts.append(pl.DataFrame(cells, schema=schema, orient="row"))
    return pl.concat(parts)


def _record(row: RecordRow) -> Record:
    (lsn, prev, behind), operation, total, main, xid, toplevel, origin, blocks = row
    rmgr, _, name = operation.partition("/")
    return Record(
        Lsn(lsn), Lsn(prev), Lsn(behind), rmgr, name, total, main, xid, toplevel, origin,
        tuple(
            BlockRef(
                *place[:4], _fork(place[4]), place[5], length, will_init,
                None if image is None else Image(*image),
            )
            for place, length, will_init, image in blocks
        ),
    )  # fmt: skip


def _cells(row: RecordRow) -> Iterator[tuple[object, ...]]:
    """The rows of a frame for one record."""
    (lsn, prev, _), operation, total, main, xid, toplevel, origin, blocks = row
    rmgr, _, name = operation.partition("/")
    record = (lsn, prev, rmgr, name, xid, total, main, toplevel, origin)
    for (block_id, *at, fork, block), length, will_init, image in blocks:
        shown = (None,) * 4 if image is None else (image[0], image[2], image[3], image[4])
        yield (*record, block_id, *at, _fork(fork), block, length, will_init, *shown)
    if not blocks:
        yield (*record, *(None,) * 12)


def _reader(
    wal: OpenPlaces,
    start: Lsn | None,
    end: Lsn | None,
    timeline: int | None,
    allow_gaps: bool,
    only: RecordFilter | None,
) -> WalRecords:
    return wal.call(
        WalRecords, wal.sources, start, end, timeline,
        allow_gaps=allow_gaps, filter=None if only is None else only.raw(),
    )  # fmt: skip


def _fork(number: int) -> str:
    return FORKS[number] if number < len(FORKS) else str(number)
