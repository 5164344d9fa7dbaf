"""Processes told apart by their titles, and CPU and bytes counted by kind on a real server."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from walproof.errors import ProbeError
from walproof.probe import processes
from walproof.probe.cpu import CpuProbe
from walproof.probe.io import IoProbe
from walproof.probe.processes import (
    Account,
    ProcessSampler,
    children,
    is_running,
    process_kind,
    read_io,
    read_schedule,
    read_stat,
    read_title,
    startup_pid,
    totals_by_kind,
)
from walproof.probe.protocol import Observation, Subject

if TYPE_CHECKING:
    from .conftest import Server

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize("cluster", ["", "16/main: ", "a: b: "])
@pytest.mark.parametrize(
    ("title", "kind"),
    [
        ("checkpointer", "checkpointer"),
        ("checkpointer performing shutdown checkpoint", "checkpointer"),
        ("walwriter", "walwriter"),
        ("background writer", "background_writer"),
        ("autovacuum launcher", "autovacuum"),
        ("autovacuum worker bench", "autovacuum"),
        ("io worker 0", "io_worker"),
        ("logical replication launcher", "logical_replication"),
        ("stats collector", "stats_collector"),
        ("startup recovering 000000010000000000000003", "startup"),
        ("walsender replica 10.0.0.7(53100) streaming 0/3000148", "walsender"),
        ("archiver last was 000000010000000000000002", "archiver"),
        ("parallel worker for PID 4711", "parallel_worker"),
        ("bgworker: pg_prewarm", "other"),
        ("postgres bench [local] UPDATE", "client_backend"),
        ("postgres bench [local] idle in transaction", "client_backend"),
        ("bench bench 127.0.0.1(45678) COMMIT", "client_backend"),
        ("archivers bench [local] idle", "client_backend"),
    ],
)
def test_titles_tell_the_kind(cluster: str, title: str, kind: str) -> None:
    assert process_kind(f"postgres: {cluster}{title}") == kind


@pytest.mark.parametrize("title", ["", "/usr/lib/postgresql/15/bin/postgres -D data", "postgres: "])
def test_a_process_without_a_title_is_other(title: str) -> None:
    assert process_kind(title) == "other"


def test_a_process_ends_when_it_is_a_zombie() -> None:
    command = [sys.executable, "-S", "-c", "import sys; sys.stdin.read()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert is_running(process.pid)
        assert process.pid in children(os.getpid())
        process.stdin.close()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # has ended, is not reaped
        stat = read_stat(process.pid)
        assert stat is not None
        assert stat[0] == b"Z"
        assert not is_running(process.pid)
        assert read_title(process.pid) == ""
    assert not is_running(process.pid)
    assert read_stat(process.pid) is None
    assert (read_title(process.pid), read_io(process.pid), read_schedule(process.pid)) == ("", {}, None)
    assert children(process.pid) == []


def test_counters_are_told_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    files = {
        "cmdline": b"postgres: startup   recovering 000000010000000000000003\0\0",
        "schedstat": b"5000 300 2\n", "io": b"rchar: 7\nwchar: 8\nread_bytes: 4096\n",
    }  # fmt: skip
    monkeypatch.setattr(processes, "read_proc", lambda _, name: files[name])
    assert read_title(1) == "postgres: startup   recovering 000000010000000000000003"
    assert read_schedule(1) == (5000, 300)
    assert read_io(1) == {"rchar": 7, "wchar": 8, "read_bytes": 4096}


def test_the_startup_process_is_found_among_the_children(monkeypatch: pytest.MonkeyPatch) -> None:
    titles = {2: b"postgres: checkpointer \0", 3: b"postgres: 16/main: startup \0"}
    schedules = {2: b"100 0 1", 3: b"5000 0 1"}
    files = {"cmdline": titles, "schedstat": schedules}
    monkeypatch.setattr(processes, "children", lambda _: [2, 3])
    monkeypatch.setattr(processes, "read_proc", lambda pid, name: files[name].get(pid))
    assert startup_pid(1) == 3
    del schedules[3]
    assert startup_pid(1) is None, "its CPU time cannot be read"


def test_what_ended_processes_leave_behind_goes_to_the_backends() -> None:
    """A backend from before the window used 10 of its 30 inside; one was born and died between two
    readings."""
    accounts = [
        Account(1, "postmaster", (5, 100), (6, 145)),
        Account(2, "checkpointer", (50, 0), (57, 0)),
        Account(3, "client_backend", (20, 0), (28, 0), alive=False),
        Account(9, "pgbench", (3, 0), (8, 0), alive=False),
    ]
    # 45 were inherited: 28 of what was read last, 2 since then, 15 of the one that was never seen.
    assert totals_by_kind(accounts, 45) == {
        "postmaster": 1,
        "checkpointer": 7,
        "client_backend": 8 + 17,
        "pgbench": 5,
    }
    assert totals_by_kind(accounts, 0)["client_backend"] == 8


def test_a_child_that_ends_during_a_walk_is_walked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its counters move from itself to the postmaster: read in between, they are in neither."""
    monkeypatch.setattr(processes, "children", lambda _: [])
    monkeypatch.setattr(processes, "SAMPLE_HZ", 0.01)  # no walk in between
    inherited = iter([100, 130, 130, 130, 150, 150])  # each walk reads it, and looks again

    def read(pid: int) -> tuple[int, int] | None:
        return (5, next(inherited)) if pid == os.getpid() else None

    sampler = ProcessSampler(Subject("", Path(), Path(), os.getpid(), 0, 180000), read)
    sampler.start()
    accounts = sampler.stop()
    assert [(account.first, account.last) for account in accounts] == [((5, 130), (5, 150))]


def _stat_ticks(pid: int, *fields: int) -> int | None:
    stat = read_stat(pid)
    return None if stat is None else sum(int(stat[field]) for field in fields)


def _all_ticks(postmaster: int) -> int:
    """Everything that the server ever used: the postmaster, its ended children and the living ones."""
    for _ in range(100):
        ended = _stat_ticks(postmaster, 13, 14)
        living = [_stat_ticks(child, 11, 12) for child in children(postmaster)]
        parent = _stat_ticks(postmaster, 11, 12, 13, 14)
        assert parent is not None
        # A child that ended in between is counted with the postmaster's ended ones, or twice: look again.
        if None not in living and ended == _stat_ticks(postmaster, 13, 14):
            return parent + sum(ticks for ticks in living if ticks is not None)
    raise AssertionError("children end all the time")


@pytest.mark.live
def test_cpu_by_kind_sums_to_the_servers_total(server18: Server) -> None:
    """Sessions that begin and end all the time (-C) are missed by every sample; the total has them."""
    before = _all_ticks(server18.process.pid)
    probe = CpuProbe()
    probe.start(server18.subject())
    load = server18.pgbench("-n", "-c", "4", "-C", "-S", "-t", "150")
    try:
        _, errors = load.communicate(timeout=60)
        assert load.returncode == 0, errors
        seen = probe.stop()
    finally:
        probe.abandon()
    total = (_all_ticks(server18.process.pid) - before) * _TICK_S
    by_kind = {name: value for name, value in seen.metrics.items() if name.startswith("cpu_s.")}
    server_s = sum(value for name, value in by_kind.items() if name != "cpu_s.pgbench")
    assert server_s == pytest.approx(seen.metrics["server_cpu_s"])
    # Every living process is read to a tick.
    assert server_s == pytest.approx(total, abs=20 * _TICK_S)
    assert by_kind["cpu_s.client_backend"] > 0.5 * total
    shares = [seen.metrics[f"host_cpu_{name}_share"] for name in ("busy", "iowait", "steal")]
    assert all(0 <= share <= 1 for share in shares)
    assert sum(shares) <= 1 + 1e-9


def _written(server: Server, *options: str) -> Observation:
    probe = IoProbe()
    probe.start(server.subject())
    load = server.pgbench("-n", *options)
    try:
        _, errors = load.communicate(timeout=60)
        assert load.returncode == 0, errors
        return probe.stop()
    finally:
        probe.abandon()


@pytest.mark.live
def test_bytes_are_counted_by_who_wrote_them(server18: Server) -> None:
    """Each synchronous commit writes at least one page of WAL; a checkpoint writes the tables' pages."""
    transactions = 4 * 100
    seen = _written(server18, "-c", "4", "-t", "100")
    assert seen.metrics["write_bytes.client_backend"] >= transactions / 4 * 8192
    # Not more than a few pages each: a count that took a whole folio of the page cache for each would be.
    assert seen.metrics["write_bytes.client_backend"] < transactions * 10 * 8192 + 2 * 16 * 1024**2
    probe = IoProbe()
    probe.start(server18.subject())
    with server18.connect() as connection:
        connection.execute("CHECKPOINT")
    seen = probe.stop()
    assert seen.metrics["write_bytes.checkpointer"] >= 8192


@pytest.mark.live
def test_bytes_of_short_sessions_are_not_lost(server18: Server) -> None:
    """With a session for each transaction (-C) hardly any process lives long enough to be read."""
    seen = _written(server18, "-c", "2", "-C", "-t", "50")
    assert seen.metrics["write_bytes.client_backend"] >= 50 * 8192
    assert "write_bytes.postmaster" not in seen.metrics


@pytest.mark.live
def test_a_server_that_is_gone_cannot_be_observed(server18: Server) -> None:
    with subprocess.Popen([sys.executable, "-S", "-c", ""]) as ended:
        ended.wait()
    subject = replace(server18.subject(), postmaster_pid=ended.pid, driver_pid=ended.pid)
    with pytest.raises(ProbeError, match="counters of any server process"):
        CpuProbe().start(subject)
    with pytest.raises(ProbeError, match="bytes that the server writes"):
        IoProbe().start(subject)
