"""What every probe of the registry has in common, and the figures that are made of all of them."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from walproof.probe.ratios import per_transaction
from walproof.probe.registry import PROBES

if TYPE_CHECKING:
    from .conftest import Server


def test_the_order_of_the_registry_is_fixed() -> None:
    assert list(PROBES) == ["wal", "checkpoints", "waits", "cpu", "io", "disk"]


@pytest.mark.parametrize("name", PROBES)
def test_a_probe_may_be_abandoned_before_it_starts(name: str) -> None:
    probe = PROBES[name]()
    probe.abandon()
    probe.abandon()
    assert dict(probe.stop().metrics) == {}


@pytest.mark.live
@pytest.mark.parametrize("name", PROBES)
def test_a_probe_leaves_nothing_behind(server18: Server, name: str) -> None:
    """After `stop` or `abandon` there are no more threads here and no more sessions there."""
    threads = threading.active_count()
    with server18.connect() as connection:
        for end in ("stop", "abandon"):
            probe = PROBES[name]()
            probe.start(server18.subject())
            getattr(probe, end)()
            probe.abandon()
            assert threading.active_count() == threads
            sessions = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'walproof probe'"
            while connection.execute(sessions).fetchone() != (0,):  # a closed session takes a moment to go
                connection.execute("SELECT pg_sleep(0.01)")


@pytest.mark.live
def test_probes_work_side_by_side_and_name_different_things(server: Server) -> None:
    load = server.pgbench("-n", "-c", "4", "-T", "2")
    subject = server.subject(load.pid)
    probes = [make() for make in PROBES.values()]
    try:
        for probe in probes:
            probe.start(subject)
        _, errors = load.communicate(timeout=60)
        assert load.returncode == 0, errors
        observations = [probe.stop() for probe in reversed(probes)]
    finally:
        for probe in probes:
            probe.abandon()
    names = [name for seen in observations for name in seen.metrics]
    assert len(names) == len(set(names))
    for seen in observations:
        assert all(isinstance(value, float) for value in seen.metrics.values())
        for t_s, values in seen.series.values():
            assert len(t_s) == len(values)
            assert list(t_s) == sorted(t_s)


def test_totals_are_divided_by_the_transactions() -> None:
    metrics = {
        "transactions": 200.0,
        "tps": 20.0,
        "wal_bytes": 100_000.0,
        "wal_records": 1400.0,
        "wal_fpi": 10.0,
        "wal_flushes": 180.0,
        "cpu_s.checkpointer": 0.5,
        "write_bytes.client_backend": 1_638_400.0,
        "server_cpu_s": 1.0,
    }
    assert per_transaction(metrics) == {
        "wal_bytes_per_txn": 500.0,
        "wal_records_per_txn": 7.0,
        "wal_fpi_per_txn": 0.05,
        "wal_flushes_per_txn": 0.9,
        "cpu_us_per_txn.checkpointer": 2500.0,
        "write_bytes_per_txn.client_backend": 8192.0,
    }


def test_what_is_missing_stays_missing() -> None:
    assert per_transaction({"transactions": 2.0, "wal_bytes": 10.0}) == {"wal_bytes_per_txn": 5.0}
    assert per_transaction({"transactions": 0.0, "wal_bytes": 10.0}) == {}
    assert per_transaction({"wal_bytes": 10.0}) == {}
