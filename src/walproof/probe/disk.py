"""How busy the disk under the data directory is, in atop's terms, from the kernel's counters.

The fields of /sys/block/DEV/stat are those of /proc/diskstats (kernel, admin-guide/iostats): reads, merged,
sectors, ms; writes, merged, sectors, ms; in flight, ms busy, ms weighted; discards (4.18+); flushes, ms
(5.5+). They count everybody's work on the device, not only the server's.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from walproof.errors import ProbeError
from walproof.probe.device import find_device
from walproof.probe.protocol import Observation, Subject

SAMPLE_S = 1.0
_SECTOR = 512  # whatever the device's own sector size


@dataclass(frozen=True, slots=True)
class DiskCounters:
    """One reading of a device."""

    at: float
    """Monotonic time in seconds."""
    writes: int
    write_bytes: int
    write_ms: int
    busy_ms: int
    flushes: tuple[int, int] | None
    """(flushes, ms); None on kernels that do not count them."""


def read_counters(stat: Path) -> DiskCounters:
    """Read a device's ``stat`` file. Raises OSError, or ValueError when it has an unexpected shape."""
    at = time.monotonic()
    fields = [int(field) for field in stat.read_text().split()]
    if len(fields) < 11:
        raise ValueError(f"{stat}: expected at least 11 fields, got {len(fields)}")
    flushes = (fields[15], fields[16]) if len(fields) >= 17 else None
    return DiskCounters(at, fields[4], fields[6] * _SECTOR, fields[7], fields[9], flushes)


class DiskProbe:
    """Metrics: ``disk_busy_share`` (share of the window with a request in flight), ``disk_writes_per_s``,
    ``disk_kib_per_write``, ``disk_ms_per_write`` (from queueing to completion), ``disk_write_bytes`` and,
    where the kernel counts flushes, ``disk_flushes_per_s`` and ``disk_ms_per_flush``. Series, one point a
    second at the beginning of what it covers: ``disk_busy_share`` and ``disk_write_bytes_per_s``.
    """

    def __init__(self) -> None:
        self._stat: Path | None = None
        self._readings: list[DiskCounters] = []
        self._warnings: list[str] = []
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, subject: Subject) -> None:
        """Find the device and begin sampling. Raises ProbeError when a device that exists cannot be read."""
        device = find_device(subject.data)
        if device is None:
            self._warnings.append("no block device under the data directory: the disk was not observed")
            return
        wal_device = find_device((subject.data / "pg_wal").resolve())
        if wal_device != device:
            other = "no block device" if wal_device is None else wal_device.name
            self._warnings.append(f"the disk figures are of {device.name}; pg_wal is on {other}")
        self._stat = device / "stat"
        try:
            self._readings = [read_counters(self._stat)]
        except (OSError, ValueError) as error:
            raise ProbeError(
                f"could not read the counters of disk {device.name}", detail=str(error)
            ) from error
        self._thread = threading.Thread(target=self._sample, name="walproof-disk", daemon=True)
        self._thread.start()

    def stop(self) -> Observation:
        """Take the last reading and compare it with the first."""
        stat = self._stat
        self.abandon()
        if stat is None:
            return Observation(warnings=tuple(self._warnings) or ("the disk was not observed",))
        try:
            self._readings.append(read_counters(stat))
        except (OSError, ValueError) as error:
            self._warnings.append(f"the disk was not observed to the end: {error}")
        if len(self._readings) < 2:
            return Observation(warnings=tuple(self._warnings))
        metrics = _rates(self._readings[0], self._readings[-1])
        return Observation(metrics, _series(self._readings), tuple(self._warnings))

    def abandon(self) -> None:
        """End sampling."""
        self._stopping.set()
        self._stat = None
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _sample(self) -> None:
        begun = self._readings[0].at
        stat = self._stat
        assert stat is not None
        tick = 1
        while not self._stopping.wait(max(0.0, begun + tick * SAMPLE_S - time.monotonic())):
            try:
                self._readings.append(read_counters(stat))
            except (OSError, ValueError):
                return  # the last reading in `stop` meets the same error and says so
            tick = max(tick + 1, int((time.monotonic() - begun) / SAMPLE_S) + 1)


def _rates(first: DiskCounters, last: DiskCounters) -> dict[str, float]:
    seconds = max(last.at - first.at, 1e-9)
    writes = last.writes - first.writes
    size = last.write_bytes - first.write_bytes
    metrics = {
        # The kernel counts busy time in whole ticks, so that a full second may look like a little more.
        "disk_busy_share": min(1.0, (last.busy_ms - first.busy_ms) / 1000 / seconds),
        "disk_writes_per_s": writes / seconds,
        "disk_write_bytes": float(size),
    }
    if writes:
        metrics["disk_kib_per_write"] = size / 1024 / writes
        metrics["disk_ms_per_write"] = (last.write_ms - first.write_ms) / writes
    if first.flushes is not None and last.flushes is not None:
        flushes, flush_ms = (b - a for a, b in zip(first.flushes, last.flushes, strict=True))
        metrics["disk_flushes_per_s"] = flushes / seconds
        if flushes:
            metrics["disk_ms_per_flush"] = flush_ms / flushes
    return metrics


def _series(readings: list[DiskCounters]) -> dict[str, tuple[tuple[float, ...], tuple[float, ...]]]:
    begun = readings[0].at
    if len(readings) > 2 and readings[-1].at - readings[-2].at < SAMPLE_S / 2:
        readings = [*readings[:-2], readings[-1]]  # a sliver of a second would be noise
    pairs = list(pairwise(readings))
    t_s = tuple(first.at - begun for first, _ in pairs)
    rates = [_rates(first, last) for first, last in pairs]
    written = tuple(
        rate["disk_write_bytes"] / (last.at - first.at)
        for rate, (first, last) in zip(rates, pairs, strict=True)
    )
    return {
        "disk_busy_share": (t_s, tuple(rate["disk_busy_share"] for rate in rates)),
        "disk_write_bytes_per_s": (t_s, written),
    }
