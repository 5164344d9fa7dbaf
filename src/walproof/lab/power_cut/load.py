"""The load of a power cut: the ledger, pgbench and checkpoints, on a server whose power goes."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path

import psycopg

from walproof.disk.simulated import SimulatedDisk
from walproof.errors import ClusterError, WorkloadError
from walproof.facts import Workload
from walproof.lab.pgbench_target import target_of
from walproof.postgres.cluster import Cluster
from walproof.workload import ledger
from walproof.workload.pgbench import PgbenchRun

SESSIONS = 4
_THINK_S = 0.015
_CHECKPOINT_PAUSE_S = 0.05
_LONGER_S = 600.0
"""Seconds of pgbench's load, which is there until the cut however short its windows are."""


class CutLoad:
    """Run everything that uses the server until it is gone.

    ``workload`` is pgbench's load in addition to the ledger (None: only the ledger), which a trickle goes
    without. ``may_fail``: a statement may fail while the server lives. Raises WorkloadError when a session
    cannot connect.
    """

    def __init__(
        self,
        cluster: Cluster,
        disk: SimulatedDisk,
        pgbench: Path,
        workload: Workload | None,
        seed: int,
        *,
        is_trickle: bool,
        may_fail: bool,
    ) -> None:
        self.checkpoints = 0
        self.covered_sequence = 0
        """Changes up to this number happened before the last two checkpoints began that have ended; 0, which
        no change has, while there are not two.

        After one, a file may lack a flush that nobody misses: who extends it, drops it or builds an index
        asks for flush or removal after the write (mdextend and mdunlink in md.c, smgr_bulk_finish in
        bulk_write.c), and may be kept from running in between. Recovery does not rest on that write.
        """
        self._cluster = cluster
        self._disk = disk
        self._pgbench: PgbenchRun | None = None
        sessions, think_s = ((ledger.LIGHT_SESSION,), _THINK_S) if is_trickle else (range(SESSIONS), 0.0)
        self.ledger = ledger.LedgerLoad(cluster.conninfo, sessions, think_s=think_s, may_fail=may_fail)
        # A checkpoint flushes the WAL, so a trickle that is to lose much goes without.
        self._checkpointer = None if is_trickle else threading.Thread(target=self._checkpoint, daemon=True)
        if workload is not None and not is_trickle:
            endless = replace(workload, duration_s=_LONGER_S, transactions=None)
            self._pgbench = PgbenchRun(pgbench, endless, target_of(cluster), cluster.folder, seed % 2**31)
        self.ledger.start()
        if self._checkpointer is not None:
            self._checkpointer.start()

    def failure(self) -> WorkloadError | None:
        """The reason why pgbench is not at work; None while it is, and where there is none."""
        return None if self._pgbench is None else self._pgbench.failure()

    def end(self) -> None:
        """Take what clients were told, after the server is gone."""
        if self._pgbench is not None:
            self._pgbench.kill()
        if self._checkpointer is not None:
            self._checkpointer.join(30)

    def _checkpoint(self) -> None:
        try:
            with self._cluster.connect() as connection:
                before_last = 0
                while True:
                    sequence = self._disk.status().sequence
                    connection.execute("CHECKPOINT")
                    self.covered_sequence, before_last = before_last, sequence
                    self.checkpoints += 1
                    time.sleep(_CHECKPOINT_PAUSE_S)
        except (psycopg.Error, ClusterError):
            pass  # the server is gone
