"""What rules of advice are given: a server's window, its WAL if it was recorded, its owner's limits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from walproof.analysis.server_limits import ServerLimits, may_slots_fill, wal_keepers
from walproof.analysis.whatif import Study
from walproof.facts.server import ServerWindow
from walproof.settings.durability import DurabilityClass
from walproof.wal.totals import RelationTotals, WalStats, WalTotals

LEAST_WAL_BYTES = 16 << 20
"""With less WAL than this, a window says nothing about what the server writes."""
_NEARLY_ALL = 0.95
"""A recording ends a little before or after the last look."""


@dataclass(frozen=True, slots=True)
class ServerCase:
    """Everything that a rule may look at."""

    window: ServerWindow
    wal: WalStats | None = None
    """Totals of the window's WAL, if it was recorded."""
    whatif: Study | None = None
    """What that WAL would be with other settings."""
    limits: ServerLimits = field(default_factory=ServerLimits)
    """As the owner named them; ``sized_limits`` adds what else keeps WAL on this server."""
    may_lose: DurabilityClass = DurabilityClass.NONE
    """What the owner allows a crash to cost."""
    startup_budget_s: float | None = None
    """The time after which an orchestrator ends a server that is starting."""
    recovery_band: float = 1.0
    """How many times longer a recovery may be than ``whatif`` says, in 1 of 20 cases."""
    is_hosted: bool = False
    """Whether a provider has the server's machine, and rolls out its minor releases."""

    @property
    def major(self) -> int:
        """Major version."""
        return self.window.version_num // 10000

    @property
    def sized_limits(self) -> ServerLimits:
        """The owner's limits, less what others than checkpoints keep in pg_wal on this server."""
        slots = [slot for slot in self.window.slots if not slot.is_temporary]
        keepers = wal_keepers(
            int(self.window.base("wal_keep_size") or 0) << 20,
            has_slots=bool(slots),
            archives=self.window.value("archive_mode") not in (None, "off"),
            may_fill=self.may_slots_fill_room,
        )
        return replace(self.limits, keepers=keepers)

    @property
    def may_slots_fill_room(self) -> bool:
        """Whether max_slot_wal_keep_size lets a slot fill the room for pg_wal: it is -1, or no less than that
        room."""
        limit_mb = self.window.base("max_slot_wal_keep_size")
        return may_slots_fill(None if limit_mb is None else int(limit_mb) << 20, self.limits.wal_disk_bytes)

    @property
    def hours(self) -> float:
        """Length of the window."""
        return self.window.seconds / 3600

    @property
    def wal_bytes(self) -> float | None:
        """Bytes of WAL written in the window; None for a standby, or without looks."""
        if self.wal is not None:
            return self.wal.accounting.total_bytes / self._recorded_share
        return self._advance

    @property
    def _advance(self) -> float | None:
        """Bytes between the server's positions at the first and at the last look."""
        looks = self.window.looks
        if len(looks) < 2 or self.window.is_in_recovery:
            return None
        first, last = looks[0].lsn, looks[-1].lsn
        return None if first is None or last is None else float(last - first)

    @property
    def _recorded_share(self) -> float:
        """Share of the window's WAL that was recorded: less than all where pg_walinspect did not keep up, or
        where the stream was given up for what the server retained."""
        written = self._advance
        if self.wal is None or not written:
            return 1.0
        share = self.wal.accounting.total_bytes / written
        return share if 0 < share < _NEARLY_ALL else 1.0

    @property
    def wal_per_hour(self) -> float | None:
        """Bytes of WAL per hour; None if the window has no length."""
        written = self.wal_bytes
        return None if written is None or self.hours <= 0 else written / self.hours

    @property
    def image_share(self) -> float | None:
        """Share of full-page images in the window's WAL: read from it, else estimated from their number.

        The estimate assumes 8 kB for an image, which is too much if wal_compression is on.
        """
        if self.wal is not None:
            return self.wal.images.bytes / max(1, self.wal.accounting.total_bytes)
        images, written = self.window.grown("wal_fpi"), self.window.grown("wal_bytes")
        stored = self.window.grown("wal_fpi_bytes")
        if not written or images is None:
            return None
        return min(1.0, (images * 8192 if stored is None else stored) / written)

    @property
    def commits(self) -> tuple[float | None, bool]:
        """(Commits in the window, whether they are an upper bound). Recorded WAL has those that wrote, and
        what was not recorded is taken to have as many in proportion; the counters have transactions that only
        read as well (pg_stat_database.xact_commit)."""
        if self.wal is not None:
            return self.wal.commits / self._recorded_share, False
        return self.window.grown("commits"), True

    @property
    def writes(self) -> bool:
        """Whether enough was written for the window's rates to mean something."""
        return (self.wal_bytes or 0.0) >= LEAST_WAL_BYTES

    @property
    def why_no_wal(self) -> str:
        """Why rules cannot read the WAL."""
        if self.is_wal_unread:
            return "the WAL was not recorded"
        return "too little WAL was written in the window"

    @property
    def is_wal_unread(self) -> bool:
        """Whether there was WAL to read, or may have been, and nobody read it."""
        if self.wal is not None:
            return False
        return self.window.is_wal_refused or self.wal_bytes is None or self.writes

    def relation_wal(self, filenode: int) -> float | None:
        """WAL bytes of a relation in the window; None if the WAL was not recorded."""
        return self._of_relation(filenode, lambda totals: totals.combined_bytes)

    def relation_images(self, filenode: int) -> float | None:
        """Bytes of its full-page images in the window; None if the WAL was not recorded."""
        return self._of_relation(filenode, lambda totals: totals.image_bytes)

    def _of_relation(self, filenode: int, bytes_of: Callable[[WalTotals], int]) -> float | None:
        if self.wal is None:
            return None
        rows: list[RelationTotals] = [row for row in self.wal.relations if row.relation == filenode]
        return float(sum(bytes_of(row.totals) for row in rows))

    def is_on(self, name: str) -> bool | None:
        """A boolean setting; None if the version does not have it."""
        value = self.window.value(name)
        return None if value is None else value == "on"
