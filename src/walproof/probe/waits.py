"""What the busy backends wait for, sampled from pg_stat_activity.

A snapshot counts the client backends by state and wait event. A backend that is active and waits for
nothing is on a CPU or ready to run: PostgreSQL cannot tell the two apart, and both are called ``CPU`` here.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import Any

import psycopg

from walproof.errors import one_line
from walproof.probe.connection import connect
from walproof.probe.protocol import Observation, Subject

TOP = 5
"""Waits that get a series."""


# The function under the view, without the view's joins to names that nobody asks for here.
_SNAPSHOT = """
    SELECT state LIKE 'idle in transaction%' AS idle,
           coalesce(wait_event_type || ':' || wait_event, 'CPU') AS wait,
           count(*)
      FROM pg_stat_get_activity(NULL)
     WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()
       AND (state IN ('active', 'fastpath function call') OR state LIKE 'idle in transaction%')
     GROUP BY 1, 2
"""


class WaitProbe:
    """Metrics: ``wait_share.<Type>:<Event>`` and ``wait_share.CPU`` (shares of all samples of active client
    backends; they sum to 1), ``active_backends_avg``, ``idle_in_transaction_avg`` (backends in a
    transaction but between statements), ``wait_samples`` (snapshots taken) and ``wait_samples_per_s``.
    Series: ``wait_share.<wait>`` per second for the TOP waits.
    """

    def __init__(self, hz: float = 10.0) -> None:
        self._hz = hz
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._connection: psycopg.Connection[Any] | None = None
        self._begun = 0.0
        self._snapshots: list[tuple[float, Counter[str], int]] = []
        """(seconds since the start, active backends by wait, backends idle in a transaction)."""
        self._failure: str | None = None

    def start(self, subject: Subject) -> None:
        """Connect and begin sampling. Raises ProbeError."""
        self._connection = connect(subject.conninfo)
        self._begun = time.monotonic()
        self._thread = threading.Thread(target=self._sample, name="walproof-waits", daemon=True)
        self._thread.start()

    def stop(self) -> Observation:
        """End sampling and add up."""
        elapsed = time.monotonic() - self._begun
        running = self._thread is not None
        self.abandon()
        if not running:
            return Observation(warnings=("wait events were not observed",))
        return self._add_up(elapsed)

    def abandon(self) -> None:
        """End sampling and close the connection."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _sample(self) -> None:
        slot = 0
        while not self._stopping.wait(max(0.0, self._begun + self._due(slot) - time.monotonic())):
            try:
                self._snapshot()
            except psycopg.Error as error:
                self._failure = one_line(error)
                return
            # A slot that was missed is left out, not made up for: samples in a burst are one sample.
            slot = max(slot + 1, int((time.monotonic() - self._begun) * self._hz))

    def _due(self, slot: int) -> float:
        # Somewhere within its slot, at a place that the golden ratio spreads evenly: sampling at exact tenths
        # of a second would keep step with wal_writer_delay and other clocks, and always see the same moment.
        return (slot + slot * 0.6180339887498949 % 1.0) / self._hz

    def _snapshot(self) -> None:
        assert self._connection is not None
        active: Counter[str] = Counter()
        idle = 0
        t_s = time.monotonic() - self._begun
        for idle_in_transaction, wait, count in self._connection.execute(_SNAPSHOT, prepare=True):
            if idle_in_transaction:
                idle += count
            else:
                # Up to 16 these were spelled WALSync, WALWrite, ...: one name, so that versions can be
                # compared.
                active[wait.replace("IO:WAL", "IO:Wal", 1)] += count
        self._snapshots.append((t_s, active, idle))

    def _add_up(self, elapsed: float) -> Observation:
        snapshots = self._snapshots
        warnings: list[str] = []
        if self._failure is not None:
            warnings.append(f"sampling of wait events ended early: {self._failure}")
        count = len(snapshots)
        rate = count / elapsed if elapsed > 0 else 0.0
        metrics = {"wait_samples": float(count), "wait_samples_per_s": rate}
        if elapsed >= 1.0 and rate < 0.8 * self._hz:
            warnings.append(f"wait events were sampled at {rate:.1f} Hz instead of {self._hz:g}")
        if not count:
            return Observation(metrics, warnings=tuple(warnings))
        totals: Counter[str] = Counter()
        for _, active, _ in snapshots:
            totals.update(active)
        busy = totals.total()
        metrics["active_backends_avg"] = busy / count
        metrics["idle_in_transaction_avg"] = sum(idle for _, _, idle in snapshots) / count
        metrics |= {f"wait_share.{wait}": times / busy for wait, times in totals.most_common()}
        return Observation(metrics, self._series(totals), tuple(warnings))

    def _series(self, totals: Counter[str]) -> dict[str, tuple[tuple[float, ...], tuple[float, ...]]]:
        seconds: dict[int, Counter[str]] = {}
        for t_s, active, _ in self._snapshots:
            seconds.setdefault(int(t_s), Counter()).update(active)
        # A second in which nobody was active has no shares.
        busy = {second: counts for second, counts in seconds.items() if counts.total()}
        t_s_all = tuple(float(second) for second in busy)
        return {
            f"wait_share.{wait}": (
                t_s_all,
                tuple(counts[wait] / counts.total() for counts in busy.values()),
            )
            for wait, _ in totals.most_common(TOP)
        }
