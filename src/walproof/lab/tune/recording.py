"""Records the load: one run under the default, whose WAL is all received. Limits are judged from it."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import psycopg

from walproof.errors import ProbeError, one_line
from walproof.facts import Cell, Plan
from walproof.lab.capture import CaptureOrder, capture
from walproof.lab.kinds.throughput.window import measure_window
from walproof.lab.pgbench_tables import open_server, prepare_tables
from walproof.lab.receiver import DISK
from walproof.lab.schedule import Progress
from walproof.lab.session import opened_bench
from walproof.lab.trial import Measured, TrialOrder
from walproof.postgres.cluster import Cluster
from walproof.settings.catalogue import normalise

_STREAMED = {"wal_level": "replica", "max_wal_senders": "10"}
"""Settings that let a receiver connect."""
_NOT_STREAMED = {"wal_level": "minimal", "max_wal_senders": "0"}
"""What they replace of what the study says: another value lets a receiver connect as well."""
_PATIENCE_S = 60.0
_BEGIN_PATIENCE_S = 30.0


@dataclass(frozen=True, slots=True)
class RecordedLoad:
    """What is known about the load after it was recorded."""

    metrics: dict[str, float]
    """Metrics of its window."""
    start_lsn: int
    """Insert position before the load began."""
    seconds: float
    """Length of the load, warm-up included."""
    before_s: float
    """Wall time from the copy of the tables to the server that takes the load."""


def record_load(plan: Plan, folder: Path, progress: Progress) -> RecordedLoad:
    """Run the plan's first variant for one window and keep its WAL in ``folder``, which is made.

    Raises a WalproofError when the load or its recording fails; the folder is then incomplete.
    """
    cell: Cell = plan.cells[0]
    order = TrialOrder(1, 1, *cell)
    measured = Measured()
    with opened_bench(plan, progress) as bench:
        template = prepare_tables(bench)[(cell.install, cell.workload)]
        progress.trial_started(1, 1, cell)
        since = time.monotonic()
        with bench.cluster(order, "recording", template, measured) as (cluster, _):
            open_server(bench, order, cluster, {}, measured)
            before_s = time.monotonic() - since
            assert measured.wal_start is not None
            with _Receiver(cluster, folder, plan) as receiver:
                receiver.wait_until_streaming()
                measure_window(bench, order, cluster, measured)
    workload = plan.workloads[0]
    seconds = workload.warmup_s + (measured.window_s or 0.0)
    return RecordedLoad(dict(measured.metrics), int(measured.wal_start), seconds, before_s)


def recorded_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Settings of the recorded server, to which a receiver connects; ``settings`` are those of every server.

    A wal_level of logical stays: it writes more WAL than replica, as the server does that is tuned. Raises
    SettingError.
    """
    found = dict(settings)
    for name, value in _STREAMED.items():
        given = found.get(name)
        if given is None or normalise(name, given) == _NOT_STREAMED[name]:
            found[name] = value
    return found


class _Receiver:
    """Context manager: receives the WAL of a server in a thread, until its end."""

    def __init__(self, cluster: Cluster, folder: Path, plan: Plan) -> None:
        workload = plan.workloads[0]
        longest = (workload.duration_s or 3600.0) + workload.warmup_s + _PATIENCE_S
        self._order = CaptureOrder(cluster.conninfo, longest, folder, max_retained_bytes=1 << 40)
        self._over = threading.Event()
        self._begun = threading.Event()
        self._fault: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="recording", daemon=True)

    def wait_until_streaming(self) -> None:
        """Wait until the stream of WAL has begun. Raises ProbeError."""
        if not self._begun.wait(_BEGIN_PATIENCE_S) and self._fault is None:
            raise ProbeError(f"the recording did not begin within {_BEGIN_PATIENCE_S:.0f} s")
        if self._fault is not None:
            raise self._fault

    def __enter__(self) -> _Receiver:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._over.set()
        self._thread.join(_PATIENCE_S)
        if kind is None:
            if self._thread.is_alive():
                raise ProbeError(f"the recording did not end within {_PATIENCE_S:.0f} s")
            if self._fault is not None:
                raise self._fault

    def _run(self) -> None:
        try:
            self._capture()
        except BaseException as fault:  # raised again in the thread that runs the load
            self._fault = fault
        finally:
            self._begun.set()

    def _capture(self) -> None:
        try:
            why = capture(
                self._order, lambda *_: None, self._over.is_set, lambda _: self._begun.set()
            ).ended_because
        except OSError as error:
            raise ProbeError(f'could not write to "{self._order.folder}": {error.strerror}') from error
        except psycopg.Error as error:
            raise ProbeError("the load could not be recorded", detail=one_line(error)) from error
        if why not in ("time", "interrupted"):
            reason = f'the disk of "{self._order.folder}" is nearly full' if why == DISK else why
            raise ProbeError(f"the recording of the load ended early: {reason}")
