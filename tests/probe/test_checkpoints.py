"""Checkpoint lines of every version, and the probe on a server that is told to checkpoint."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from walproof.probe.checkpoints import (
    CheckpointEnd,
    CheckpointProbe,
    CheckpointReason,
    CheckpointStart,
    observe_checkpoints,
    parse_checkpoint_line,
)

if TYPE_CHECKING:
    from .conftest import Server

_NOON = datetime(2026, 11, 20, 12, 0, 0, tzinfo=UTC).timestamp()
_TAIL = (
    " 0 WAL file(s) added, 0 removed, 1 recycled; write=2.502 s, sync=0.021 s, total=2.534 s;"
    " sync files=3, longest=0.001 s, average=0.001 s; distance=4203 kB, estimate=4585 kB"
)
_COMPLETE = {
    "13-15": f"wrote 344 buffers (4.2%);{_TAIL}",
    "16-17": f"wrote 344 buffers (4.2%);{_TAIL}; lsn=0/20529A0, redo lsn=0/2052968",
    "18": f"wrote 344 buffers (4.2%), wrote 1 SLRU buffers;{_TAIL}; lsn=0/22D9048, redo lsn=0/22D8FF0",
    "19": "wal time: "
    f"wrote 344 buffers (4.2%), wrote 1 SLRU buffers;{_TAIL}; lsn=0/022D9048, redo lsn=0/022D8FF0",
}


def _line(second: float, text: str) -> str:
    return f"2026-11-20 12:00:{second:06.3f} UTC [412] LOG:  {text}"


@pytest.mark.parametrize("versions", _COMPLETE)
@pytest.mark.parametrize("what", ["checkpoint", "restartpoint"])
def test_reads_the_complete_line_of_every_version(versions: str, what: str) -> None:
    line = _line(2.5, f"{what} complete: {_COMPLETE[versions]}")
    assert parse_checkpoint_line(line) == CheckpointEnd(_NOON + 2.5, 344, 2.502, 0.021, 2.534)


@pytest.mark.parametrize(
    ("flags", "kind"),
    [
        ("time", CheckpointReason.TIMED),
        ("wal", CheckpointReason.REQUESTED),
        ("wal time", CheckpointReason.REQUESTED),
        ("immediate force wait", CheckpointReason.IMMEDIATE),
        ("fast force wait", CheckpointReason.IMMEDIATE),
        ("force wait", CheckpointReason.IMMEDIATE),
        ("immediate force wait wal time", CheckpointReason.IMMEDIATE),
        ("shutdown immediate", CheckpointReason.IMMEDIATE),
        ("end-of-recovery immediate wait", CheckpointReason.IMMEDIATE),
        ("immediate force wait flush-all", CheckpointReason.IMMEDIATE),
    ],
)
def test_kind_is_read_from_the_flags(flags: str, kind: CheckpointReason) -> None:
    assert parse_checkpoint_line(_line(1.25, f"checkpoint starting: {flags}")) == CheckpointStart(
        _NOON + 1.25, kind
    )


@pytest.mark.parametrize(
    "line",
    [
        "",
        _line(1, "database system is ready to accept connections"),
        _line(1, "checkpoints are occurring too frequently (5 seconds apart)"),
        "2026-11-20 12:00:01.000 UTC [412] STATEMENT:  select 'checkpoint starting: time'",
    ],
)
def test_other_lines_are_not_checkpoints(line: str) -> None:
    assert parse_checkpoint_line(line) is None


def _observe(
    *lines: str, active: bool = False
) -> tuple[dict[str, float], tuple[float, ...], tuple[float, ...]]:
    seen = observe_checkpoints(lines, _NOON, _NOON + 10, active=active)
    assert seen.warnings == ()
    return dict(seen.metrics), *seen.series["checkpoint"]


def test_a_window_without_a_checkpoint() -> None:
    metrics, t_s, values = _observe()
    assert metrics["checkpoint_active_share"] == 0
    assert (t_s, values) == ((0, 10), (0, 0))
    assert {metrics[f"checkpoints_{kind.value}"] for kind in CheckpointReason} == {0}


def test_checkpoints_inside_the_window() -> None:
    end = f"checkpoint complete: {_COMPLETE['18']}"
    metrics, t_s, values = _observe(
        _line(1, "checkpoint starting: wal"),
        _line(3, end),
        _line(5, "checkpoint starting: time"),
        _line(6, end),
    )
    assert metrics["checkpoint_active_share"] == pytest.approx(0.3)
    assert (metrics["checkpoints_requested"], metrics["checkpoints_timed"]) == (1, 1)
    assert metrics["checkpoint_buffers_written"] == 688
    assert metrics["checkpoint_write_s"] == pytest.approx(5.004)
    assert metrics["checkpoint_sync_s"] == pytest.approx(0.042)
    assert t_s == pytest.approx((0, 1, 3, 5, 6, 10))
    assert values == (0, 1, 0, 1, 0, 0)


def test_checkpoints_that_cross_the_edges_of_the_window() -> None:
    end = f"checkpoint complete: {_COMPLETE['13-15']}"
    metrics, t_s, values = _observe(_line(2, end), _line(9, "checkpoint starting: time"), active=True)
    assert metrics["checkpoint_active_share"] == pytest.approx(0.3)
    assert metrics["checkpoints_timed"] == 1
    assert t_s == pytest.approx((0, 2, 9, 10))
    assert values == (1, 0, 1, 1)
    assert _observe(active=True)[0]["checkpoint_active_share"] == 1


def test_another_line_prefix_is_a_warning() -> None:
    seen = observe_checkpoints(["LOG:  checkpoint starting: time"], _NOON, _NOON + 10, active=False)
    assert "log_line_prefix" in seen.warnings[0]


@pytest.mark.live
def test_sees_a_checkpoint_that_someone_asked_for(server: Server) -> None:
    """CHECKPOINT returns when the checkpoint is complete, so both lines are in the log when the probe
    stops."""
    probe = CheckpointProbe()
    with server.connect() as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS dirty AS SELECT generate_series(1, 200000)")
        probe.start(server.subject())
        connection.execute("CHECKPOINT")
        seen = probe.stop()
        connection.execute("DROP TABLE dirty")
    assert seen.warnings == ()
    assert seen.metrics["checkpoints_immediate"] == 1
    assert seen.metrics["checkpoints_timed"] == 0
    assert seen.metrics["checkpoint_buffers_written"] > 0
    assert 0 < seen.metrics["checkpoint_active_share"] <= 1
    assert seen.series["checkpoint"][1] == (0, 1, 0, 0)


@pytest.mark.live
def test_says_when_checkpoints_are_not_logged(server18: Server) -> None:
    with server18.connect() as connection:
        connection.execute("ALTER SYSTEM SET log_checkpoints = off")
        try:
            connection.execute("SELECT pg_reload_conf()")
            _wait_for(connection, "off")
            probe = CheckpointProbe()
            probe.start(server18.subject())
            seen = probe.stop()
        finally:
            connection.execute("ALTER SYSTEM RESET log_checkpoints")
            connection.execute("SELECT pg_reload_conf()")
            _wait_for(connection, "on")
    assert dict(seen.metrics) == {}
    assert seen.warnings == ("checkpoints were not observed: log_checkpoints is off",)


def _wait_for(connection: psycopg.Connection[tuple[Any, ...]], value: str) -> None:
    """Until this session, and so a session that is opened from now on, has read the configuration."""
    while connection.execute("SHOW log_checkpoints").fetchone() != (value,):
        connection.execute("SELECT pg_sleep(0.01)")
