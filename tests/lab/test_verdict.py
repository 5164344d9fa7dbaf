"""Verdicts on images: what ends or hinders a server from outside is no finding about the image."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest

from walproof.errors import DiskError
from walproof.facts import CutConditions, ImageState, Install
from walproof.lab.power_cut.cut import cut_initdb_options
from walproof.lab.power_cut.verdict import ImageVerdict, judge
from walproof.postgres import template as templates
from walproof.postgres.cluster import Cluster
from walproof.postgres.workspace import Workspace
from walproof.workload.books import Books, check_books
from walproof.workload.ledger import SESSIONS_MOST, Record

pytestmark = pytest.mark.live

RECORD: Record = ((),) * SESSIONS_MOST
Connection = psycopg.Connection[tuple[object, ...]]


@pytest.fixture
def image(embedded: Install, workspace: Workspace) -> Iterator[Cluster]:
    """One of before the ledger was made: nothing is wrong with it."""
    folder = workspace.make_folder("image")
    options = cut_initdb_options(embedded, CutConditions())
    templates.clone(templates.prepare_empty(workspace, embedded, options), folder, flush=False)
    made = Cluster(embedded, workspace, folder)
    yield made
    made.kill()


def _judge(image: Cluster) -> ImageVerdict:
    return judge(image, {}, RECORD, 0, sizes={}, has_checksums=True, has_amcheck=False)


def _before_the_books(monkeypatch: pytest.MonkeyPatch, act: Callable[[Connection], object]) -> None:
    def check(connection: Connection, record: Record, **named: Any) -> Books:
        act(connection)
        return check_books(connection, record, **named)

    monkeypatch.setattr("walproof.lab.power_cut.verdict.check_books", check)


def test_nothing_is_wrong_with_a_sound_image(image: Cluster) -> None:
    assert _judge(image).state is ImageState.CLEAN
    assert not image.is_running()


@pytest.mark.long
def test_a_server_that_is_slow_to_start_is_no_verdict(
    image: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("walproof.postgres.cluster._START_PATIENCE_S", 0.0)
    with pytest.raises(DiskError, match=r"the run is void: .* was not ready after 0 s"):
        _judge(image)
    assert not image.is_running()


def test_a_server_that_is_slow_to_stop_is_no_verdict(image: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its processes may have been in the middle of writing pages."""
    monkeypatch.setattr("walproof.postgres.cluster._STOP_PATIENCE_S", 0.2)
    _before_the_books(monkeypatch, lambda _: os.kill(image.pid, signal.SIGSTOP))
    with pytest.raises(DiskError, match="the run is void: a server on an image did not stop in time"):
        _judge(image)
    assert not image.is_running()


@pytest.mark.parametrize(
    ("number", "whole", "said"),
    [
        (signal.SIGTERM, False, "terminating connection due to administrator command"),
        (signal.SIGKILL, False, r"\(PID \d+\) was terminated by signal 9: Killed"),
        (signal.SIGTERM, True, "received smart shutdown request"),
        (signal.SIGINT, True, "received fast shutdown request|administrator command"),
        (signal.SIGKILL, True, "ended by signal 9"),
    ],
)
def test_a_server_that_somebody_else_ends_is_no_verdict(
    image: Cluster, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, whole: bool, said: str
) -> None:
    def end(connection: Connection) -> None:
        os.kill(image.pid if whole else connection.info.backend_pid, number)
        if whole:
            time.sleep(0.5)

    _before_the_books(monkeypatch, end)
    with pytest.raises(DiskError, match=f"the run is void: a server on an image was disturbed: .*({said})"):
        _judge(image)
    assert not image.is_running()


def test_a_server_that_is_ended_while_it_starts_is_no_verdict(
    image: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def shoot(cluster: Cluster) -> bool:
        os.kill(cluster.pid, signal.SIGKILL)
        time.sleep(0.1)
        return False

    monkeypatch.setattr(Cluster, "_is_ready", shoot)
    with pytest.raises(DiskError, match=r"the run is void: .* did not start"):
        _judge(image)


def test_a_machine_without_room_is_no_verdict(image: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    said = 'could not extend file "base/5/16384": No space left on device'
    _before_the_books(
        monkeypatch,
        lambda connection: connection.execute(f"DO $$ BEGIN RAISE LOG '{said}'; END $$".encode()),
    )
    with pytest.raises(DiskError, match=r"the run is void: .*No space left on device"):
        _judge(image)


def test_a_server_that_crashes_is_a_finding(image: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that a damaged page makes crash ends by a signal, too, which nobody sent."""
    _before_the_books(monkeypatch, lambda connection: os.kill(connection.info.backend_pid, signal.SIGSEGV))
    found = _judge(image)
    assert found.state is ImageState.CORRUPT
    assert "server closed the connection unexpectedly" in str(found.reason) or "lost" in str(found.reason)


@pytest.mark.parametrize("damage", [partial(Path.write_bytes, data=bytes(8192)), Path.unlink])
def test_an_image_that_does_not_start_is_a_finding(image: Cluster, damage: Callable[[Path], object]) -> None:
    damage(image.data / "global" / "pg_control")
    found = _judge(image)
    assert found.state is ImageState.NO_START
    assert found.reason
