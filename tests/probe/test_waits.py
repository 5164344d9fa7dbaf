"""Wait events on real servers, where sessions are made to wait for something known."""

from __future__ import annotations

import time
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from walproof.probe.waits import TOP, WaitProbe

if TYPE_CHECKING:
    from .conftest import Server

pytestmark = pytest.mark.live


def _wait_for_snapshots(probe: WaitProbe, count: int) -> None:
    """Until that many more snapshots were taken, however slow the machine is."""
    wanted = len(probe._snapshots) + count
    deadline = time.monotonic() + 60
    while len(probe._snapshots) < wanted:
        assert time.monotonic() < deadline, "the sampler does not sample"
        time.sleep(0.01)


def test_shares_of_a_real_load_sum_to_one(server: Server) -> None:
    load = server.pgbench("-n", "-c", "8", "-T", "2")
    probe = WaitProbe(hz=50)
    probe.start(server.subject(load.pid))
    try:
        _, errors = load.communicate(timeout=60)
        assert load.returncode == 0, errors
        seen = probe.stop()
    finally:
        probe.abandon()
    shares = {name: value for name, value in seen.metrics.items() if name.startswith("wait_share.")}
    assert sum(shares.values()) == pytest.approx(1)
    assert all(name == "wait_share.CPU" or ":" in name for name in shares)
    assert not any("IO:WAL" in name for name in shares)  # one spelling in all versions
    assert 0 < seen.metrics["active_backends_avg"] <= 8
    assert seen.metrics["wait_samples"] > 0
    assert 0 < len(seen.series) <= TOP
    assert set(seen.series) <= set(shares)
    for t_s, values in seen.series.values():
        assert len(t_s) == len(values)
        assert all(0 <= value <= 1 for value in values)


def test_sees_who_waits_and_who_idles_in_a_transaction(server: Server) -> None:
    """One session holds a lock and idles in its transaction; another waits for the lock."""
    with server.connect() as holder, server.connect() as observer:
        waiting = None
        try:
            with holder.transaction():
                holder.execute("LOCK TABLE pgbench_accounts")
                # Not before: its only transaction may be over by then.
                waiting = server.pgbench("-n", "-c", "1", "-t", "1")
                while not observer.execute("SELECT 1 FROM pg_locks WHERE NOT granted").fetchone():
                    observer.execute("SELECT pg_sleep(0.01)")
                probe = WaitProbe(hz=100)
                probe.start(server.subject())
                _wait_for_snapshots(probe, 5)
                seen = probe.stop()
        finally:
            if waiting is not None:
                waiting.communicate(timeout=60)
    assert seen.metrics["wait_share.Lock:relation"] == 1
    assert seen.metrics["active_backends_avg"] == 1
    assert seen.metrics["idle_in_transaction_avg"] == 1


def test_an_idle_server_has_no_shares(server18: Server) -> None:
    probe = WaitProbe(hz=100)
    probe.start(server18.subject())
    _wait_for_snapshots(probe, 3)
    seen = probe.stop()
    assert seen.metrics["active_backends_avg"] == 0
    assert not any(name.startswith("wait_share.") for name in seen.metrics)
    assert dict(seen.series) == {}


def test_samples_are_spread_within_their_slots_and_do_not_drift() -> None:
    probe = WaitProbe(hz=10)
    due = [probe._due(slot) for slot in range(1000)]
    assert all(slot / 10 <= at < (slot + 1) / 10 for slot, at in enumerate(due))
    phases = sorted(at * 10 % 1 for at in due)
    gaps = [b - a for a, b in pairwise(phases)]
    assert max(gaps) < 0.005  # no part of a slot is left out


def test_a_connection_that_breaks_is_a_warning(server18: Server) -> None:
    probe = WaitProbe(hz=100)
    probe.start(server18.subject())
    with server18.connect() as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'walproof probe'"
        )
    assert probe._thread is not None
    probe._thread.join(timeout=60)
    seen = probe.stop()
    assert "ended early" in seen.warnings[0]


def test_too_slow_a_sampler_says_so() -> None:
    probe = WaitProbe(hz=10)
    seen = probe._add_up(elapsed=10.0)
    assert seen.warnings == ("wait events were sampled at 0.0 Hz instead of 10",)
