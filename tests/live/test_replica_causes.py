"""Each cause that can be named is provoked on real servers and named; healthy and idle pairs raise nothing.

One pair of the newest embedded version serves most of them, one after the other; each ends by catching up. A
cause has to lead the diagnosis of one of the next windows: nothing is asserted of how fast anything is.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.cli.command import walproof
from tests.live.conftest import ARCHIVE
from tests.live.pair import Pair, pid_of, record, running_pair, watcher, writing
from tests.postgres.replication import query, run, wait_until
from walproof.advise.replica.cause import Cause
from walproof.analysis.replication import Pace, Stage
from walproof.disk.device import parse_device
from walproof.disk.simulated import STATE_FOLDER, DiskModel, SimulatedDisk
from walproof.facts import Install
from walproof.postgres.link import Link
from walproof.postgres.standby import Standby
from walproof.postgres.workspace import Workspace
from walproof.privilege.user import server_user

pytestmark = pytest.mark.live


def test_an_idle_pair_has_no_cause(pair: Pair) -> None:
    pair.catch_up()
    for _ in range(5):
        window, diagnosis = pair.until(lambda seen: seen.split.pace is Pace.CAUGHT_UP and not seen.causes)
        if set(window.waits["startup"]) == {"Activity/RecoveryWalStream"}:
            break
    else:
        raise AssertionError(window.waits)
    assert diagnosis.split.lag_bytes == 0
    assert window.is_local
    assert window.last.standby.startup is not None
    record(window, "idle")


def test_a_pair_under_load_that_keeps_up_has_no_cause(pair: Pair) -> None:
    with writing(pair.primary, 1_000_000):
        window, diagnosis = pair.until(
            lambda seen: seen.split.rates.generated_bytes_per_s > 100_000 and not seen.causes
        )
    record(window, "keeps up")
    assert diagnosis.split.rates.replayed_bytes_per_s > 0


def test_paused_replay(pair: Pair) -> None:
    query(pair.standby, "SELECT pg_wal_replay_pause()")
    try:
        with writing(pair.primary, 1_000_000):
            _, diagnosis = pair.until_named(Cause.REPLAY_PAUSED)
            _, diagnosis = pair.until(lambda seen: seen.split.stage(Stage.REPLAY).lag_bytes > 500_000)
        assert diagnosis.split.pace is Pace.NEVER
        assert diagnosis.split.stage(Stage.NETWORK).lag_bytes < diagnosis.split.stage(Stage.REPLAY).lag_bytes
    finally:
        query(pair.standby, "SELECT pg_wal_replay_resume()")
    pair.catch_up()


def test_a_pause_without_load_is_named_and_no_lag_is_invented(pair: Pair) -> None:
    query(pair.standby, "SELECT pg_wal_replay_pause()")
    try:
        _, diagnosis = pair.until_named(Cause.REPLAY_PAUSED)
        assert diagnosis.split.lag_s == pytest.approx(0, abs=60)
    finally:
        query(pair.standby, "SELECT pg_wal_replay_resume()")
    pair.catch_up()


def test_a_conflict_names_the_session_that_holds_replay(pair: Pair) -> None:
    run(pair.primary, "CREATE TABLE seen AS SELECT generate_series(1, 1000) i")
    pair.catch_up()
    with pair.standby.connect() as reader:
        reader.execute("SET application_name = 'long report'")
        reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        reader.execute("SELECT count(*) FROM seen")
        run(pair.primary, "DELETE FROM seen", "VACUUM seen")
        _, diagnosis = pair.until_named(Cause.CONFLICT)
        assert any("long report" in line for line in diagnosis.causes[0].evidence)
        assert diagnosis.split.stage(Stage.CONFLICT).lag_bytes == diagnosis.split.lag_bytes > 0
        reader.execute("ROLLBACK")
    pair.catch_up()


def test_a_lock_on_the_standby_is_a_conflict_too(pair: Pair) -> None:
    run(pair.primary, "CREATE TABLE locked (i int)")
    pair.catch_up()
    with pair.standby.connect() as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM locked")
        run(pair.primary, "DROP TABLE locked")
        _, diagnosis = pair.until_named(Cause.CONFLICT)
        assert any("relation" in line for line in diagnosis.causes[0].evidence)
        reader.execute("ROLLBACK")
    pair.catch_up()


def test_an_apply_delay_is_intended(pair: Pair) -> None:
    pair.standby.reload({**pair.settings, "recovery_min_apply_delay": "1h"})
    wait_until(lambda: query(pair.standby, "SHOW recovery_min_apply_delay") == "1h")
    run(pair.primary, "INSERT INTO t VALUES (1)")
    try:
        _, diagnosis = pair.until_named(Cause.APPLY_DELAY)
        assert diagnosis.causes[0].is_intended
        assert "1 h 00 min" in diagnosis.causes[0].sentence
        assert diagnosis.split.stage(Stage.APPLY_DELAY).lag_bytes > 0
    finally:
        pair.standby.reload(pair.settings)
    pair.catch_up()


def test_a_restarted_standby_with_an_apply_delay_needs_no_walreceiver_yet(pair: Pair, tmp_path: Path) -> None:
    """It has the WAL of an hour in its own pg_wal, and streams when that is replayed."""
    delayed = {**pair.settings, "recovery_min_apply_delay": "1h"}
    pair.standby.reload(delayed)
    wait_until(lambda: query(pair.standby, "SHOW recovery_min_apply_delay") == "1h")
    end = run(pair.primary, "INSERT INTO t VALUES (1)")
    wait_until(lambda: query(pair.standby, f"SELECT pg_last_wal_receive_lsn() >= '{end}'::pg_lsn") == "True")
    pair.standby.stop()
    try:
        pair.standby.launch(delayed)
        pair.standby.wait_until_ready(60)
        assert query(pair.standby, "SELECT pg_last_wal_receive_lsn() IS NULL") == "True"
        _, diagnosis = pair.until(
            lambda seen: [cause.cause for cause in seen.causes] == [Cause.APPLY_DELAY, Cause.LOCAL_REPLAY]
        )
        assert all(cause.is_intended for cause in diagnosis.causes)
        told = walproof(
            "replica", "watch", "--primary", watcher(pair.primary), "--standby", watcher(pair.standby),
            "--once", "--check", "--every", "1s", cwd=tmp_path,
        )  # fmt: skip
        assert told.returncode == 0, told.stderr
        assert "no walreceiver runs yet" in told.stdout
        assert "received up to" not in told.stdout
        assert query(pair.standby, "SELECT pg_last_wal_receive_lsn() IS NULL") == "True"
    finally:
        pair.standby.reload(pair.settings)
    pair.catch_up()
    pair.until_quiet()


def test_a_narrow_network(pair: Pair) -> None:
    pair.link.shape(bytes_per_s=200_000)
    try:
        with writing(pair.primary, 3_000_000):
            _, diagnosis = pair.until_named(Cause.NETWORK)
        split = diagnosis.split
        transport = split.stage(Stage.NETWORK).lag_bytes + split.stage(Stage.WRITE).lag_bytes
        assert transport > split.stage(Stage.REPLAY).lag_bytes
    finally:
        pair.link.shape()
    pair.catch_up()


def test_a_walreceiver_that_is_stopped(pair: Pair) -> None:
    receiver = pid_of(pair.standby, "walreceiver")
    os.kill(receiver, signal.SIGSTOP)
    try:
        with writing(pair.primary, 1_000_000):
            _, diagnosis = pair.until_named(Cause.WALRECEIVER_SILENT)
        assert any("state T" in line for line in diagnosis.causes[0].evidence)
    finally:
        os.kill(receiver, signal.SIGCONT)
    pair.catch_up()


def test_a_dead_walreceiver_does_not_look_like_no_lag(pair: Pair) -> None:
    pair.link.sever()
    try:
        with writing(pair.primary, 1_000_000):
            _, diagnosis = pair.until_named(Cause.WALRECEIVER_ABSENT)
            _, diagnosis = pair.until(lambda seen: seen.split.lag_bytes > 500_000)
        received = query(pair.standby, "SELECT pg_last_wal_receive_lsn() - pg_last_wal_replay_lsn()")
        assert int(received) <= 0  # what the standby alone would say
        assert diagnosis.split.pace is Pace.NEVER
    finally:
        pair.link.mend()
    pair.catch_up()


def test_a_slow_disk_of_the_standby(pair: Pair, others: Workspace) -> None:
    """Its flushes take the time of a device that writes 2 MB/s (the simulated disk)."""
    user = server_user()
    data = others.folder / "slow" / "data"
    disk = SimulatedDisk(
        [data],
        DiskModel(device=parse_device("flush=1ms,write=2MB/s"), tracking=False),
        STATE_FOLDER / f"{others.folder.name}-slow",
        user=user,
    )
    slow = Standby(pair.primary, others, "slow", slot=False)
    slow.build()
    with disk:
        slow.environment.update(disk.environment)
        try:
            slow.start({**pair.settings, "fsync": "on", "archive_mode": "off", "wal_init_zero": "off"})
            disk.check_attached()
            with writing(pair.primary, 8_000_000):
                _, diagnosis = pair.until_named(Cause.FLUSH, slow)
            assert any("WalSync" in line or "WALSync" in line for line in diagnosis.causes[0].evidence)
        finally:
            slow.stop("immediate")


def test_a_primary_that_does_not_flush_its_own_wal(pair: Pair) -> None:
    """No commit waits for a flush, and the WAL writer comes by every ten seconds."""
    lazy = {"synchronous_commit": "off", "wal_writer_delay": "10s", "wal_writer_flush_after": "1GB"}
    pair.primary.reload({**pair.settings, **lazy})
    wait_until(lambda: query(pair.primary, "SHOW wal_writer_delay") == "10s")
    try:
        with writing(pair.primary, 1_000_000):
            _, diagnosis = pair.until_named(Cause.GENERATION)
        assert diagnosis.split.stage(Stage.GENERATION).lag_bytes > diagnosis.split.lag_bytes / 2
    finally:
        pair.primary.reload(pair.settings)
    wait_until(lambda: query(pair.primary, "SHOW wal_writer_delay") == "200ms")
    pair.catch_up()


def test_archive_recovery(pair: Pair, others: Workspace) -> None:
    archive = pair.primary.folder.parent / ARCHIVE
    standby = Standby(pair.primary, others, "restoring", streaming=False)
    backup = standby.build()
    # It becomes consistent with the segment that holds the end of the backup.
    run(pair.primary, "INSERT INTO t VALUES (1)", "SELECT pg_switch_wal()")
    try:
        standby.start({**pair.settings, "restore_command": f"cp {archive}/%f %p", "archive_mode": "off"})
        standby.wait_for_replay(backup.stop)
        run(pair.primary, "INSERT INTO t VALUES (1)")
        _, diagnosis = pair.until_named(Cause.ARCHIVE_RECOVERY, standby)
        assert diagnosis.causes[0].is_intended
    finally:
        standby.stop("immediate")


def test_a_missing_segment(pair: Pair, others: Workspace) -> None:
    with Link(others, pair.primary) as link:
        standby = Standby(pair.primary, others, "left_behind", slot=False, route=link.route)
        standby.build()
        try:
            standby.start(pair.settings)
            link.sever()
            oldest = "SELECT min(name) FROM pg_ls_waldir() WHERE name ~ '^[0-9A-F]{24}$'"
            needed = query(pair.primary, "SELECT pg_walfile_name(pg_current_wal_lsn())")
            pair.catch_up()

            def is_removed() -> bool:
                run(pair.primary, "INSERT INTO t VALUES (1)", "SELECT pg_switch_wal()", "CHECKPOINT")
                return query(pair.primary, oldest) > needed

            wait_until(is_removed)
            link.mend()
            _, diagnosis = pair.until_named(Cause.MISSING_SEGMENT, standby)
            assert any(needed[8:] in line for line in diagnosis.causes[0].evidence)
            assert diagnosis.split.pace is Pace.NEVER
        finally:
            standby.stop("immediate")


@pytest.mark.pg(ends=True)
def test_pg_monitor_alone_is_enough(install: Install, workspace: Workspace) -> None:
    """Quiet, under load, and paused: what is asked differs between versions."""
    with running_pair(install, workspace) as pair:
        pair.until_quiet()
        with writing(pair.primary, 1_000_000):
            pair.until(lambda seen: seen.split.rates.replayed_bytes_per_s > 100_000 and not seen.causes)
            query(pair.standby, "SELECT pg_wal_replay_pause()")
            window, diagnosis = pair.until_named(Cause.REPLAY_PAUSED)
        assert diagnosis.split.lag_bytes > 0
        assert window.last.upstream.sender is not None
        assert (window.last.standby.prefetch is None) == (install.version_num < 150000)
        assert (window.last.standby.startup_reads is None) == (install.version_num < 160000)
