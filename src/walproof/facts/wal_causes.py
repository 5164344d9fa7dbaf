"""Who writes the WAL that a watched server streams: resource managers and relations, in a window of time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RmgrWal:
    """WAL of one resource manager since watching began, without what came while nothing was streamed."""

    records: int
    record_bytes: int
    image_bytes: int
    image_count: int


@dataclass(frozen=True, slots=True)
class WalCause:
    """One relation."""

    place: tuple[int, int, int]
    """Tablespace, database, file number."""
    name: str
    """``shop: public.orders_pkey``, or its numbers where the role may not read the catalog."""
    kind: str
    """``table``, ``index``, ...; empty where it is not known."""
    bytes_per_s: float
    share: float
    """Share of all WAL of the window."""
    image_share: float
    """Share of page images in its WAL."""
    images_per_record: float
    update_share: float = 0.0
    """Share of row updates in its WAL."""
    updates_per_s: float = 0.0
    updates_per_run: float = 0.0
    """Updates that one transaction makes in succession."""
    freeze_share: float = 0.0
    """Share of freezing in its WAL."""
    begun_s: float | None = None
    """How long it has been writing this much; None if that is longer than the window."""
    key_image_share: float = 0.0
    """Share of its WAL that is images of pages into which a key came; none of pages that are only cleaned, or
    built."""
    images_per_key: float = 0.0


@dataclass(frozen=True, slots=True)
class WalCauses:
    """WAL by cause in the window."""

    seconds: float
    bytes_per_s: float
    image_share: float
    commits_per_s: float
    top: tuple[WalCause, ...]
    """The relations with most WAL, most first."""
    totals: Mapping[str, RmgrWal]
    """Resource manager -> all that was streamed since watching began."""
    recent_s: float = 0.0
    """Length of the newest part of the window."""
    recent: tuple[WalCause, ...] = ()
    """Of that part alone: what happens now, whatever was written a minute ago."""

    @property
    def costliest(self) -> WalCause | None:
        """The relation with most WAL."""
        return self.top[0] if self.top else None
