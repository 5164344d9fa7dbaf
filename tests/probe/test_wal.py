"""WAL figures, on real servers, with pg_waldump as the oracle."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from walproof.errors import ProbeError
from walproof.probe.protocol import Observation
from walproof.probe.server_settings import server_facts
from walproof.probe.wal import RecordCount, WalCounters, WalProbe, count_records, scale_counters
from walproof.units import Lsn

if TYPE_CHECKING:
    from .conftest import Server


def _observe(server: Server, *options: str) -> tuple[Observation, Lsn, Lsn]:
    """Run pgbench from a standstill to its end inside the window; the WAL locations around both."""
    with server.connect() as connection:
        # After a checkpoint the first change to a page brings its image: there is something to count.
        connection.execute("CHECKPOINT")
        before = _insert_lsn(connection)
        probe = WalProbe()
        probe.start(server.subject())
        try:
            load = server.pgbench("-n", "-c", "4", "-t", "100", *options)
            subject = server.subject(load.pid)
            _, errors = load.communicate(timeout=60)
            assert load.returncode == 0, errors
            probe._subject = subject
            seen = probe.stop()
        finally:
            probe.abandon()
        return seen, before, _insert_lsn(connection)


def _insert_lsn(connection: psycopg.Connection[tuple[Any, ...]]) -> Lsn:
    row = connection.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone()
    assert row is not None
    return Lsn.parse(row[0])


def _waldump_records(server: Server, start: Lsn, end: Lsn) -> int:
    command = [str(server.bindir / "pg_waldump"), "--stats", "-p", str(server.folder / "data" / "pg_wal")]
    command += ["-s", str(start), "-e", str(end)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    match = re.search(r"^Total +(\d+)", text, re.MULTILINE)
    assert match is not None, text
    return int(match[1])


@pytest.mark.live
def test_bytes_records_and_images(server: Server) -> None:
    seen, before, after = _observe(server)
    assert seen.warnings == ()
    metrics = seen.metrics
    # What happens between the probe's locations and ours is a snapshot of running transactions at most, and
    # the message that brings the WAL into its files.
    assert metrics["wal_bytes"] == pytest.approx(after - before, abs=1000)
    if (server.bindir / "pg_waldump").exists():  # a build without client programs is no oracle
        assert metrics["wal_records"] == pytest.approx(_waldump_records(server, before, after), abs=5)
    assert metrics["wal_records"] > 4 * 400  # three updates and an insert, each with its commit
    assert metrics["wal_fpi"] > 0
    # The checkpoint's own record comes after its redo point.
    assert 0 < metrics["wal_since_redo_bytes_start"] < 10_000
    # pg_stat_wal holds records, without page headers and alignment.
    assert 0.9 * metrics["wal_bytes"] < metrics["wal_bytes_stat"] <= metrics["wal_bytes"] + 1000


@pytest.mark.live
def test_the_servers_own_counters_agree_with_the_count(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From a standstill to a standstill, pg_stat_wal has everything and needs no scaling to speak of."""
    with monkeypatch.context() as uncounted:
        uncounted.setattr("walproof.probe.wal.COUNT_MAX_BYTES", -1)
        seen, before, after = _observe(server)
    exact = count_records(server.subject(), before, after)
    assert exact is not None
    assert seen.warnings == ()
    assert seen.metrics["wal_records"] == pytest.approx(exact.records, rel=0.03)
    assert seen.metrics["wal_fpi"] == pytest.approx(exact.fpi, rel=0.05, abs=3)


@pytest.mark.live
def test_flushes_follow_synchronous_commit(server: Server) -> None:
    """One client that commits synchronously flushes once for each transaction; asynchronously, nearly
    never."""
    session = ("-c", "1", "-t", "300")
    seen, _, _ = _observe(server, *session)
    assert seen.metrics["wal_flushes"] == pytest.approx(300, rel=0.1)
    assert seen.metrics["wal_sync_ms_avg"] > 0
    with server.connect() as connection:
        connection.execute("ALTER ROLE postgres SET synchronous_commit = off")
        try:
            lazy, _, _ = _observe(server, *session)
        finally:
            connection.execute("ALTER ROLE postgres RESET synchronous_commit")
    assert lazy.metrics["wal_flushes"] < 150


@pytest.mark.live
@pytest.mark.parametrize("counted", [True, False])
def test_version_13_has_bytes_and_what_is_counted(
    server: Server, counted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The branch for 13, tried on newer servers: a subject that says it is 13 is not asked for
    pg_stat_wal."""
    if not counted:
        monkeypatch.setattr("walproof.probe.wal.COUNT_MAX_BYTES", -1)
    probe = WalProbe()
    probe.start(replace(server.subject(), version_num=130000))
    with server.connect() as connection:
        connection.execute("SELECT pg_logical_emit_message(true, 'test', 'message')")
    seen = probe.stop()
    assert seen.metrics["wal_bytes"] > 0
    assert ("wal_records" in seen.metrics) is counted
    assert ("no pg_stat_wal" in " ".join(seen.warnings)) is not counted
    assert "wal_flushes" not in seen.metrics


@pytest.mark.live
def test_image_bytes_from_the_server_itself(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """From 19 pg_stat_wal has them, so that they are there where the WAL is too much to be counted."""
    counted, _, _ = _observe(server)
    monkeypatch.setattr("walproof.probe.wal.COUNT_MAX_BYTES", -1)
    reported, _, _ = _observe(server)
    assert ("wal_fpi_bytes" in reported.metrics) is (server.version_num >= 190000)
    if server.version_num >= 190000:
        assert reported.metrics["wal_fpi"] > 0
        ratio = [seen.metrics["wal_fpi_bytes"] / seen.metrics["wal_fpi"] for seen in (counted, reported)]
        assert ratio[1] == pytest.approx(ratio[0], rel=0.2), "bytes of an image"
        assert 0 < reported.metrics["wal_fpi_share"] < 1


@pytest.mark.live
def test_a_logical_slot_changes_what_is_written(server: Server) -> None:
    """From 19 wal_level=replica writes as logical does while a logical slot exists."""
    is_new = server.version_num >= 190000
    probe = WalProbe()
    probe.start(server.subject())
    with server.connect() as connection:
        before, _ = server_facts(server.conninfo)
        assert before.get("effective_wal_level") == ("replica" if is_new else None)
        if is_new:
            connection.execute("SELECT pg_create_logical_replication_slot('level', 'pgoutput')")
            within, _ = server_facts(server.conninfo)
            assert within["effective_wal_level"] == "logical"
            connection.execute("SELECT pg_drop_replication_slot('level')")
    seen = probe.stop()
    assert seen.metrics.get("wal_level_changes", 0) >= (1 if is_new else 0)
    assert ("wal_level_changes" in seen.metrics) is is_new


def test_late_reports_are_scaled_to_the_window() -> None:
    """1100 records were reported where the window holds 1000: each count holds a tenth of older activity."""
    start = WalCounters(records=500, fpi=10, bytes=50_000, buffers_full=0, flushes=40, sync_ms=8.0)
    end = WalCounters(records=1600, fpi=32, bytes=160_000, buffers_full=11, flushes=150, sync_ms=63.0)
    assert scale_counters(start, end, 120_000, RecordCount(1000, 19, 19_000)) == pytest.approx(
        {
            "wal_records": 1000,
            "wal_fpi": 20,
            "wal_flushes": 100,
            "wal_buffers_full": 10,
            "wal_bytes_stat": 110_000,
            "wal_sync_ms_avg": 0.5,
        }
    )
    # Without an exact count, the reported records' place in WAL files is compared with the distance.
    on_disk = (110_000 + 3.5 * 1100) * 8192 / 8168
    estimate = scale_counters(start, end, round(on_disk / 2), None)
    assert estimate["wal_records"] == pytest.approx(550, rel=1e-4)
    # More WAL than was reported is padding, as behind a segment switch: nothing is scaled up.
    assert scale_counters(start, end, 16 * 1024**2, None)["wal_records"] == 1100


def test_a_window_in_which_nothing_was_reported() -> None:
    still = WalCounters(records=500, fpi=10, bytes=50_000, buffers_full=0, flushes=40, sync_ms=None)
    counters = scale_counters(still, still, 0, RecordCount(0, 0, 0))
    assert set(counters.values()) == {0}
    assert "wal_sync_ms_avg" not in counters


@pytest.mark.live
def test_recycled_wal_is_an_error_that_costs_only_the_exact_count(server18: Server) -> None:
    with pytest.raises(ProbeError, match="could not count") as caught:
        count_records(server18.subject(), Lsn(0x7F_0000_0028), Lsn(0x7F_0000_1000))
    assert caught.value.detail is not None
    probe = WalProbe()
    probe.start(server18.subject())
    probe._start_lsn = Lsn(0x0000_0028)  # long recycled
    with server18.connect() as connection:
        connection.execute("SELECT pg_logical_emit_message(true, 'test', 'message')")
    seen = probe.stop()
    assert "could not count" in seen.warnings[0]
    assert seen.metrics["wal_bytes"] > 0
    assert "wal_records" in seen.metrics


@pytest.mark.live
def test_no_server_is_an_error(server18: Server, tmp_path: Path) -> None:
    subject = replace(server18.subject(), conninfo=f"host={tmp_path} user=postgres dbname=postgres")
    with pytest.raises(ProbeError, match="could not connect"):
        WalProbe().start(subject)
