"""What is asked about a recovery, and its prediction: for the command and for assistants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from walproof.units import Lsn

if TYPE_CHECKING:
    from walproof.analysis.forecast import Forecast, OwnCrash
    from walproof.wal.places.opened import Path as WalPath
    from walproof.wal.progress import Observe


@dataclass(frozen=True, slots=True)
class RecoveryOrder:
    """What is asked about a recovery. None: as recorded, as calibrated, or the default."""

    buffers: Sequence[int] = ()
    crashed: int | None = None
    distance: int | None = None
    iops: float | None = None
    read_latency_us: float | None = None
    read_ahead_kb: int | None = None
    calibration: Path | None = None
    other_machine: bool | None = None
    """Whether ``calibration`` is meant to be that of another machine; None where nobody can say so."""
    crash: OwnCrash | None = None
    concurrency: int | None = None
    start: Lsn | None = None
    end: Lsn | None = None
    timeline: int | None = None
    allow_gaps: bool = False


def redo_point(paths: Sequence[WalPath], order: RecoveryOrder, observe: Observe | None) -> Lsn:
    """The location where recovery begins: as asked, else the redo point of the last checkpoint. Raises
    WalError."""
    from walproof.wal.recovery import find_redo

    if order.start is not None:
        return order.start
    return find_redo(*paths, end=order.end, timeline=order.timeline, observe=observe).redo


def predict_recovery(
    paths: Sequence[WalPath], order: RecoveryOrder, redo: Lsn, observe: Observe | None
) -> Forecast:
    """How long recovery from ``redo`` takes. Raises WalError, StoreError, AnalysisError."""
    from walproof.analysis.forecast import forecast, of_minors
    from walproof.cli.costs import find_costs
    from walproof.wal.recording import recorded_versions
    from walproof.wal.whatif import identify

    version, _ = identify(*paths, start=redo, timeline=order.timeline)
    costs = find_costs(order.calibration, version, other_machine=order.other_machine)
    costs = of_minors(costs, recorded_versions(paths))
    disk = costs.disk
    disk = replace(
        disk,
        iops=disk.iops if order.iops is None else order.iops,
        read_latency_us=disk.read_latency_us if order.read_latency_us is None else order.read_latency_us,
        read_ahead_kb=disk.read_ahead_kb if order.read_ahead_kb is None else order.read_ahead_kb,
    )
    return forecast(
        *paths,
        buffers=order.buffers,
        crashed=order.crashed,
        start=redo,
        end=order.end,
        timeline=order.timeline,
        distance=order.distance,
        concurrency=order.concurrency,
        allow_gaps=order.allow_gaps,
        costs=replace(costs, disk=disk),
        crash=order.crash,
        observe=observe,
    )
