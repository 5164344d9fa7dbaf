"""Names of WAL segments: timeline and number of the segment (src/include/access/xlog_internal.h)."""

from __future__ import annotations

from walproof.units import Lsn


def segment_name(lsn: Lsn, timeline: int, segment_size: int) -> str:
    """The name of the segment with that location (``XLogFileName``)."""
    return f"{timeline:08X}{lsn >> 32:08X}{(lsn & 0xFFFFFFFF) // segment_size:08X}"


def segment_number(name: str, segment_size: int) -> int:
    """Place of the segment of that name in the WAL, counted in segments (``XLogFromFileName``)."""
    return (int(name[8:16], 16) << 32) // segment_size + int(name[16:24], 16)


def segment_start(name: str, segment_size: int) -> Lsn:
    """Where the segment of that name begins."""
    return Lsn(segment_number(name, segment_size) * segment_size)


def segment_holding(lsn: int, segment_size: int) -> Lsn:
    """Where the segment that holds ``lsn`` begins."""
    return Lsn(lsn - lsn % segment_size)
