"""A primary and its standbys, built and started together: pairs, fans and chains.

    primary -+-> near -> far        far follows near: a cascade
             +-> delayed

Nothing is measured on a chain before each of its streaming standbys streams: only then does ``start`` return.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType

from walproof.errors import ClusterError
from walproof.postgres.cluster import Cluster
from walproof.postgres.standby import Standby
from walproof.postgres.workspace import Workspace

PRIMARY = "primary"
_SYNCHRONOUS_PATIENCE_S = 30.0
# A standby has to offer at least as much of these as its primary (manual, "Hot Standby", "Administrator's
# Overview"): what is set on the primary is set on every standby.
_AS_ON_PRIMARY = (
    "max_connections", "max_worker_processes", "max_wal_senders", "max_prepared_transactions",
    "max_locks_per_transaction",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class StandbyPlan:
    """What one standby of a chain is."""

    name: str
    upstream: str = PRIMARY
    """The server that it follows: the primary, or a standby that comes earlier."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """For instance ``recovery_min_apply_delay`` or ``hot_standby``."""
    streaming: bool = True
    slot: bool = True
    route: str | None = None
    """See :class:`walproof.postgres.standby.Standby`."""
    before_start: Callable[[Standby], None] | None = None
    """Called when it is built, to put something under it with which its server is started."""

    @property
    def follows_primary(self) -> bool:
        """Whether it follows the primary with no other standby between."""
        return self.upstream == PRIMARY


class Chain:
    """Context manager: standbys of a running ``primary``. They are stopped at its end; the primary is not."""

    def __init__(
        self,
        primary: Cluster,
        workspace: Workspace,
        plans: Sequence[StandbyPlan],
        primary_settings: Mapping[str, str],
    ) -> None:
        """``primary_settings``: what the primary was started with."""
        self.primary = primary
        self.standbys: dict[str, Standby] = {}
        self._workspace = workspace
        self._plans = tuple(plans)
        self._primary_settings = dict(primary_settings)

    def __enter__(self) -> Chain:
        try:
            for plan in self._plans:
                self._add(plan)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def __getitem__(self, name: str) -> Standby:
        return self.standbys[name]

    def stop(self) -> None:
        """Stop the standbys, the last first."""
        for standby in reversed(self.standbys.values()):
            standby.stop("immediate")

    def _add(self, plan: StandbyPlan) -> None:
        upstream = self.primary if plan.upstream == PRIMARY else self.standbys[plan.upstream]
        standby = Standby(
            upstream,
            self._workspace,
            plan.name,
            streaming=plan.streaming,
            slot=plan.slot,
            route=plan.route,
        )
        self.standbys[plan.name] = standby
        # A backup of the primary also serves a cascade: the upstream's own may lag behind its start.
        standby.build(self.primary)
        if plan.before_start is not None:
            plan.before_start(standby)
        standby.start({**inherited(self._primary_settings), **plan.settings})


def inherited(primary_settings: Mapping[str, str]) -> dict[str, str]:
    """Settings that a standby must have as its primary has them."""
    return {name: value for name, value in primary_settings.items() if name in _AS_ON_PRIMARY}


def make_synchronous(primary: Cluster, settings: Mapping[str, str], names: str) -> None:
    """Set synchronous_standby_names of a running ``primary``, started with ``settings``, and wait for it.

    ``names``: ``near``, ``ANY 1 (near, delayed)``.
    Raises ClusterError when no standby becomes synchronous.
    """
    primary.reload({**settings, "synchronous_standby_names": names})
    deadline = time.monotonic() + _SYNCHRONOUS_PATIENCE_S
    with primary.connect() as session:
        while not session.execute(
            "SELECT 1 FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum')"
        ).fetchone():
            if time.monotonic() > deadline:
                raise ClusterError(f'no standby became synchronous with synchronous_standby_names "{names}"')
            time.sleep(0.01)
