"""CPU seconds by process kind, and how busy the machine was.

/proc/PID/stat has what a process used (utime, stime) and, for the postmaster, what its ended children used in
all their life (cutime, cstime; proc(5)). The second makes the total exact: it contains what a backend used
after it was last read, which is counted as client backends', because those are the ones that end."""

from __future__ import annotations

import os
from pathlib import Path

from walproof.probe.processes import (
    DRIVER,
    POSTMASTER,
    Account,
    ProcessSampler,
    Reading,
    read_stat,
    totals_by_kind,
)
from walproof.probe.protocol import Observation, Subject

_TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")
_UTIME, _STIME, _CUTIME, _CSTIME = 11, 12, 13, 14  # fields 14 to 17 of proc(5), counted from the state
_HOST = Path("/proc/stat")


class CpuProbe:
    """Metrics: ``cpu_s.<kind>`` (seconds; kinds of `process_kind`, ``postmaster`` and ``pgbench``),
    ``server_cpu_s`` (all kinds but pgbench), ``host_cpu_busy_s`` (seconds in which the machine's processors
    worked, for whatever program), and shares of the machine's CPU time over the window:
    ``host_cpu_busy_share``, ``host_cpu_iowait_share``, ``host_cpu_steal_share``.

    CPU that pgbench uses after its last reading, at most 0.5 s before its end, is missed.
    """

    def __init__(self) -> None:
        self._sampler: ProcessSampler | None = None
        self._host: tuple[int, ...] = ()

    def start(self, subject: Subject) -> None:
        """Take the first reading; begin sampling. Raises ProbeError when no server process can be read."""
        self._host = _read_host()
        self._sampler = ProcessSampler(subject, _read_cpu)
        self._sampler.start()

    def stop(self) -> Observation:
        """Take the last reading, and sum by kind."""
        if self._sampler is None:
            return Observation(warnings=("CPU was not observed",))
        accounts = self._sampler.stop()
        self._sampler = None
        metrics = _by_kind(accounts)
        metrics |= _host_shares(self._host, _read_host())
        return Observation(metrics)

    def abandon(self) -> None:
        """End sampling."""
        if self._sampler is not None:
            self._sampler.abandon()
            self._sampler = None


def _read_cpu(pid: int) -> Reading | None:
    """(own ticks, ticks of ended children)."""
    stat = read_stat(pid)
    if stat is None:
        return None
    return (int(stat[_UTIME]) + int(stat[_STIME]), int(stat[_CUTIME]) + int(stat[_CSTIME]))


def _by_kind(accounts: list[Account]) -> dict[str, float]:
    inherited = sum(account.spent[1] for account in accounts if account.kind == POSTMASTER)
    ticks = totals_by_kind(accounts, inherited)
    metrics = {f"cpu_s.{kind}": count * _TICK_S for kind, count in ticks.items()}
    metrics["server_cpu_s"] = sum(count for kind, count in ticks.items() if kind != DRIVER) * _TICK_S
    return metrics


def _read_host() -> tuple[int, ...]:
    """user nice system idle iowait irq softirq steal, in ticks of all CPUs; empty when they cannot be
    read."""
    try:
        with _HOST.open() as lines:
            return tuple(int(value) for value in lines.readline().split()[1:9])
    except (OSError, ValueError):
        return ()


def _host_shares(first: tuple[int, ...], last: tuple[int, ...]) -> dict[str, float]:
    if len(first) != 8 or len(last) != 8:
        return {}
    # iowait may step back by a tick (proc(5)); it is an estimate, and no share is below zero.
    user, nice, system, idle, iowait, irq, softirq, steal = (
        max(0, b - a) for a, b in zip(first, last, strict=True)
    )
    total = user + nice + system + idle + iowait + irq + softirq + steal
    if total == 0:
        return {}
    busy = user + nice + system + irq + softirq
    return {
        "host_cpu_busy_s": busy * _TICK_S,
        "host_cpu_busy_share": busy / total,
        "host_cpu_iowait_share": iowait / total,
        "host_cpu_steal_share": steal / total,
    }
