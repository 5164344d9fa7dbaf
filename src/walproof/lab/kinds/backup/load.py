"""The load beside a base backup: pgbench, whose throughput counts, and a ledger that knows every commit.

Both go on until they are told to pause, since nobody knows in advance how long a backup takes. The ledger's
sessions think between commits, so that they take little from pgbench's.
"""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import chain
from pathlib import Path
from types import TracebackType

from walproof.lab.pgbench_target import target_of
from walproof.lab.trial import Bench, TrialOrder
from walproof.postgres.cluster import Cluster
from walproof.workload.ledger import LIGHT_SESSION, LedgerLoad, Record
from walproof.workload.pgbench import PgbenchRun

_SESSIONS = ((LIGHT_SESSION, 0, 1), (2, 3))
"""Sessions of the ledger before and after a pause; each numbers its transactions from 1."""
_THINK_S = 0.02
_LONGEST_S = 24 * 3600.0
_END_PATIENCE_S = 60.0


class BackupLoad:
    """The load of a trial on its running server. Context manager, which ends what still runs."""

    def __init__(self, bench: Bench, order: TrialOrder, cluster: Cluster) -> None:
        self._bench = bench
        self._order = order
        self._cluster = cluster
        self._running: tuple[LedgerLoad, PgbenchRun] | None = None
        self._records: list[Record] = []
        self._logs: list[Path] = []
        self.connected_at = 0.0
        """Unix time at which pgbench first had its connections; known after the first pause."""

    def __enter__(self) -> BackupLoad:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._running is not None:
            ledger, pgbench = self._running
            ledger.stop()
            pgbench.kill()

    def resume(self) -> None:
        """Begin, or go on after a pause. Raises WorkloadError when a session cannot connect."""
        bench, cluster = self._bench, self._cluster
        workload = bench.workload(self._order)
        ledger = LedgerLoad(cluster.conninfo, _SESSIONS[len(self._records)], think_s=_THINK_S)
        if not self._records:
            self.connected_at = time.time()
        endless = replace(workload, duration_s=_LONGEST_S, warmup_s=0.0)
        seed = bench.seed(self._order)
        self._running = (
            ledger,
            PgbenchRun(bench.pgbench, endless, target_of(cluster), cluster.folder, seed=seed),
        )
        ledger.start()

    def pause(self) -> None:
        """End both when their transactions have ended. Raises WorkloadError when either has failed."""
        assert self._running is not None, "it was begun"
        ledger, pgbench = self._running
        ledger.stop()
        pgbench.end()
        summary = pgbench.finish(_END_PATIENCE_S)
        if not self._records:
            self.connected_at += (summary.connect_ms or 0.0) / 1000
        self._records.append(ledger.record())
        self._logs = pgbench.logs
        self._running = None

    @property
    def logs(self) -> list[Path]:
        """pgbench's logs of every transaction until the last pause; all its runs share a folder for them."""
        return self._logs

    @property
    def record(self) -> Record:
        """What the ledger's sessions were told until the last pause."""
        # Each session was in one of them.
        return tuple(tuple(chain(*parts)) for parts in zip(*self._records, strict=True))
