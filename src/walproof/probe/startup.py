"""Reads the process that replays from /proc, if it runs on this machine.

schedstat is taken rather than the ticks of stat: it counts in nanoseconds, and shows the time that the
process was ready and had no core (kernel: Documentation/scheduler/sched-stats.rst).
"""

from __future__ import annotations

import ipaddress

import psutil
import psycopg
from psycopg.rows import TupleRow

from walproof.facts.replication import StartupProcess
from walproof.probe.processes import process_kind, read_io, read_schedule, read_stat, read_title

_MINOR_FAULTS = 10 - 3
"""The place of minflt in /proc/PID/stat, counted from its third field (proc(5))."""


def is_here(session: psycopg.Connection[TupleRow]) -> bool:
    """Whether that session's server is on this machine: reached by a unix socket, or at an address of
    ours."""
    host = session.info.hostaddr or session.info.host
    if not host or host.startswith(("/", "@")):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return address.is_loopback or any(
        network.address.split("%")[0] == str(address) for addresses in psutil.net_if_addrs().values()
        for network in addresses
    )  # fmt: skip


def read_startup(pid: int) -> StartupProcess | None:
    """Its counters; None if the process is not a startup process here (a container, a tunnel) or is gone."""
    if process_kind(read_title(pid)) != "startup":
        return None
    stat, schedule = read_stat(pid), read_schedule(pid)
    if stat is None or schedule is None:
        return None
    run_ns, wait_ns = schedule
    counters = read_io(pid)
    return StartupProcess(
        cpu_s=run_ns / 1e9,
        run_queue_s=wait_ns / 1e9,
        minor_faults=int(stat[_MINOR_FAULTS]),
        read_bytes=counters.get("read_bytes"),
        read_calls=counters.get("syscr"),
    )


def state_of(pid: int) -> str | None:
    """Its state: R, S, D, T, ...; None when it is gone."""
    stat = read_stat(pid)
    return None if stat is None else stat[0].decode()
