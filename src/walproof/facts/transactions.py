"""What was seen of transactions that do not end: those that wait for standbys, and prepared ones."""

from __future__ import annotations

from dataclasses import dataclass

from walproof.settings.synchronous import SynchronousStandbys, parse_standbys

CONFIRMING = ("what commits wait for", "who confirms commits", "sessions that wait for standbys")
PREPARED = "prepared transactions"
"""What is read, as lacks name it."""
HORIZON = "who holds back VACUUM"
STALLED_S = 10.0
"""A standby that keeps up confirms within milliseconds, one that catches up a burst within seconds."""


@dataclass(frozen=True, slots=True)
class SynchronousWait:
    """Who confirms commits to a server whose synchronous_standby_names names somebody, and who waits."""

    names: str
    """synchronous_standby_names."""
    level: str
    """synchronous_commit of the session that asked."""
    serving: tuple[str, ...]
    """application_name of each walsender that the server counts: it is named and streams."""
    others: tuple[str, ...]
    """Of the others: they are not named, or do not stream yet."""
    unknown: int
    """Walsenders that are named, and whose state the role may not see."""
    waiting: int
    """Sessions in SyncRep; those of other roles are seen with pg_monitor alone."""
    oldest_s: float | None
    """Seconds since the oldest statement among them began."""
    stalled: int = 0
    """Sessions that have waited for at least STALLED_S."""
    stalled_s: float = 0.0
    """How long a session has waited at least: since its COMMIT began, or since the look that first saw it."""

    @property
    def is_stalled(self) -> bool:
        """Whether a commit waits for standbys much longer than one that confirms takes."""
        return self.stalled_s >= STALLED_S

    @property
    def standbys(self) -> SynchronousStandbys:
        """Who is named."""
        return parse_standbys(self.names) or SynchronousStandbys(1, ())

    @property
    def is_short(self) -> bool | None:
        """Whether fewer serve than a commit waits for; None where that cannot be seen."""
        missing = self.standbys.count - len(self.serving)
        if missing <= 0:
            return False
        return True if missing > self.unknown else None


@dataclass(frozen=True, slots=True)
class PreparedTransaction:
    """A row of pg_prepared_xacts."""

    gid: str
    """Its identifier as SQL wants it, in quotes."""
    owner: str
    """Quoted where SQL wants it."""
    database: str
    """Quoted where SQL wants it."""
    age_s: float
    """Seconds since it was prepared."""
    freeze_age: int
    """Transactions since its own began: age(transaction)."""


@dataclass(frozen=True, slots=True)
class HorizonHolder:
    """A session, slot or standby that may still need old rows: VACUUM removes and freezes none of them."""

    kind: str
    """``session``, ``slot`` or ``standby``."""
    name: str
    """The session's process id, the slot's name, the standby's application_name."""
    state: str | None
    """As pg_stat_activity or pg_stat_replication says it; of a slot ``active`` or ``inactive``."""
    since_s: float | None
    """Seconds since the session's transaction began; None for others."""
    age: int
    """Transactions since the oldest that it may need."""
