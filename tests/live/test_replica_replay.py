"""Causes by which replay itself is late, provoked on real servers by what piles up before a standby.

A cause has to lead the diagnosis of one of the next windows: nothing is asserted of how fast anything is.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager

import psycopg
import pytest

from tests.live.pair import Pair, pid_of, record
from tests.postgres.replication import query, run, wait_until
from walproof.advise.replica.cause import Cause
from walproof.advise.replica.diagnosis import Diagnosis, diagnose
from walproof.analysis.replication import Pace, Stage
from walproof.disk.device import parse_device
from walproof.disk.simulated import STATE_FOLDER, DiskModel, SimulatedDisk
from walproof.postgres.cpu_share import CpuShare
from walproof.postgres.standby import Standby
from walproof.postgres.workspace import Workspace
from walproof.privilege.user import server_user
from walproof.probe.startup import read_startup
from walproof.units import Lsn

pytestmark = pytest.mark.live


@contextmanager
def _competitors(core: int) -> Iterator[None]:
    """Five processes that keep one core busy, each a session of its own, by which it is shared out."""
    program = f"import os\nos.sched_setaffinity(0, {{{core}}})\nprint(flush=True)\nwhile True: pass"
    command = [sys.executable, "-c", program]
    with ExitStack() as ending:
        for _ in range(5):
            process = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
            ending.enter_context(process)
            ending.callback(process.kill)
            assert process.stdout is not None
            process.stdout.readline()
        yield


def _pile_up(pair: Pair, rows: int) -> None:
    """Pause replay and leave it an index in random order, which costs more CPU than it has bytes."""
    query(pair.standby, "SELECT pg_wal_replay_pause()")
    end = run(
        pair.primary,
        f"INSERT INTO small SELECT hashint8extended(i, 7) FROM generate_series(1, {rows}) i",
        "TRUNCATE small",
    )
    wait_until(lambda: Lsn.parse(query(pair.standby, "SELECT pg_last_wal_receive_lsn()")) >= end)


def _named_of_a_backlog(
    pair: Pair, causes: set[Cause], rows: int, replaying: Callable[[], AbstractContextManager[None]]
) -> Diagnosis:
    """The first window whose leading cause is one of these, while the standby replays what has piled up.

    A machine that replays it before it counts as lag gets twice as much.
    """
    seen: list[Diagnosis] = []
    for times in (1, 2, 4, 8):
        _pile_up(pair, times * rows)
        with replaying(), pair.observer() as observer:
            observer.observe(0.2)
            query(pair.standby, "SELECT pg_wal_replay_resume()")
            for _ in range(60):
                window = observer.observe(0.5)
                seen.append(diagnose(window))
                leading = [cause.cause for cause in seen[-1].causes[:1]]
                if causes & set(leading):
                    record(window, leading[0])
                    return seen[-1]
                if seen[-1].split.pace is Pace.CAUGHT_UP:
                    break
        pair.catch_up()
    raise AssertionError("\n".join(map(str, seen)))


def test_a_startup_process_that_gets_no_core(pair: Pair) -> None:
    """It shares one core with five busy processes, at the lowest priority."""
    startup = pid_of(pair.standby, "startup")
    cores = os.sched_getaffinity(startup)
    nice = os.getpriority(os.PRIO_PROCESS, startup)
    core = max(cores)

    @contextmanager
    def crowded() -> Iterator[None]:
        os.sched_setaffinity(startup, {core})
        os.setpriority(os.PRIO_PROCESS, startup, 19)
        try:
            with _competitors(core):
                yield
        finally:
            os.sched_setaffinity(startup, cores)
            with contextlib.suppress(PermissionError):
                os.setpriority(os.PRIO_PROCESS, startup, nice)

    diagnosis = _named_of_a_backlog(pair, {Cause.REPLAY_STARVED}, 500_000, crowded)
    assert diagnosis.split.startup is not None
    assert diagnosis.split.startup.run_queue_share > diagnosis.split.startup.cpu_share
    pair.catch_up()


def test_a_startup_process_that_fills_its_core_or_starves(pair: Pair) -> None:
    """A backlog is replayed from memory, at a high priority if we may give it one; else it may starve."""
    startup = pid_of(pair.standby, "startup")

    @contextmanager
    def preferred() -> Iterator[None]:
        with contextlib.suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, startup, -10)
        try:
            yield
        finally:
            with contextlib.suppress(PermissionError):
                os.setpriority(os.PRIO_PROCESS, startup, 0)

    _named_of_a_backlog(pair, {Cause.REPLAY_CPU, Cause.REPLAY_STARVED}, 900_000, preferred)
    pair.catch_up()


def test_replay_that_is_late_for_no_single_reason(pair: Pair) -> None:
    """Paused for most of each window and resumed before it ends: neither paused nor starved nor busy."""
    window_s = 2.0
    rows = 500_000

    def pause_for_a_while(session: psycopg.Connection[object]) -> None:
        session.execute("SELECT pg_wal_replay_pause()")
        time.sleep(0.8 * window_s)
        session.execute("SELECT pg_wal_replay_resume()")

    with pair.observer() as observer, pair.standby.connect() as session:
        observer.observe(0.5)
        _pile_up(pair, rows)
        seen = []
        for _ in range(12):
            pausing = threading.Thread(target=pause_for_a_while, args=(session,))
            pausing.start()
            window = observer.observe(window_s)
            pausing.join()
            diagnosis = diagnose(window)
            causes = diagnosis.causes
            seen.append((causes, window.waits))
            if [cause.cause for cause in causes] == [Cause.REPLAY]:
                record(window, Cause.REPLAY)
                break
            if diagnosis.split.pace is Pace.CAUGHT_UP:
                rows = min(2 * rows, 4_000_000)
                _pile_up(pair, rows)
        else:
            raise AssertionError("\n".join(map(str, seen)))
    assert any("RecoveryPause" in line for line in causes[0].evidence)
    pair.catch_up()


def test_a_startup_process_with_a_quota(pair: Pair) -> None:
    """It may run for a fiftieth of the time."""
    startup = pid_of(pair.standby, "startup")

    def cpu_s() -> float | None:
        counted = read_startup(startup)
        return None if counted is None else counted.cpu_s

    @contextmanager
    def held() -> Iterator[None]:
        with CpuShare(startup, 0.02, cpu_s):
            yield

    diagnosis = _named_of_a_backlog(pair, {Cause.REPLAY_STARVED}, 200_000, held)
    assert any("state T" in line for line in diagnosis.causes[0].evidence)
    assert diagnosis.split.startup is not None
    assert diagnosis.split.startup.cpu_share < 0.3
    pair.catch_up()


def test_replay_that_waits_for_the_disk_of_the_standby(pair: Pair, others: Workspace) -> None:
    """Replay of a dropped table flushes the control file (xlog.c, UpdateMinRecoveryPoint)."""
    user = server_user()
    standby = Standby(pair.primary, others, "thrashing", slot=False)
    settings = {**pair.settings, "fsync": "on", "archive_mode": "off"}
    standby.build()
    # The first start flushes each file of the copy; a clean stop spares the slow disk that.
    standby.start(settings)
    standby.stop("fast")
    disk = SimulatedDisk(
        [standby.data],
        DiskModel(device=parse_device("flush=60ms"), tracking=False),
        STATE_FOLDER / f"{others.folder.name}-thrashing",
        user=user,
    )
    with disk:
        standby.environment.update(disk.environment)
        try:
            standby.start(settings)
            disk.check_attached()
            run(
                pair.primary,
                "DO $$ BEGIN FOR i IN 1..250 LOOP"
                " CREATE TABLE gone (i int); DROP TABLE gone; COMMIT; END LOOP; END $$",
            )
            _, diagnosis = pair.until_named(Cause.REPLAY_IO, standby)
            assert any("ControlFileSyncUpdate" in line for line in diagnosis.causes[0].evidence)
            assert diagnosis.split.stage(Stage.REPLAY).lag_bytes > 0
        finally:
            standby.stop("immediate")
