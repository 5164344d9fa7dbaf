"""Ctrl-C, SIGTERM, SIGHUP, kill -9 at random moments: no trial is lost, nothing is left, resume goes on."""

from __future__ import annotations

import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.cli.command import start, wait_until_handling, walproof
from tests.live.laboratory import CELLS, COMMAND, EXPECTED, ROUNDS, SEED, Stored, stored, wait_clean
from walproof.facts import RequestKind
from walproof.facts.store import Store
from walproof.postgres.cache import cache_folder

pytestmark = pytest.mark.live


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests that run beside these have workspaces, too, which are nobody's leavings."""
    monkeypatch.setenv("WALPROOF_CACHE", str(cache_folder("interruptions")))


@pytest.mark.long
def test_a_lab_that_is_killed_at_random_moments_finishes_in_the_end(tmp_path: Path) -> None:
    """Kill the lab after random times, alternating signals, until one start finishes; count what is stored.

    After each end the trials stored before are still there, unchanged, and no process or folder stays.
    """
    chance = random.Random(SEED)
    errors = tmp_path / "errors"
    before: list[Stored] = []
    interruptions = 0
    was_begun = False  # a machine that is slow to prepare may be killed only before its first trial
    for attempt in range(30):
        process = start(COMMAND, tmp_path, errors)
        number = (signal.SIGKILL, signal.SIGTERM, signal.SIGKILL, signal.SIGINT, signal.SIGHUP)[attempt % 5]
        try:
            process.wait(chance.uniform(0.2, 6.0))
        except subprocess.TimeoutExpired:
            if number is not signal.SIGKILL:
                wait_until_handling(process)
            process.send_signal(number)
            process.wait(60)
        if process.returncode == 0:
            break
        assert process.returncode in (-signal.SIGKILL, 128 + number), errors.read_text()
        interruptions += 1
        left = wait_clean(60.0)
        assert not left, f"seed {SEED}, attempt {attempt}, {number!r}: {left}"
        after = stored(tmp_path)
        assert after[: len(before)] == before, f"seed {SEED}, attempt {attempt}"
        before = after
        was_begun = was_begun or 0 < len(after) < ROUNDS * CELLS
        if len(after) == ROUNDS * CELLS:
            break  # it was killed while it reported: the same command would measure again
    else:
        done = walproof(*COMMAND, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    assert interruptions >= 1
    said = errors.read_text()
    assert "Traceback" not in said
    assert "resuming run compare-" in said or not was_begun
    final = stored(tmp_path)
    assert final[: len(before)] == before
    assert sorted((round_, variant) for _, round_, variant, _ in final) == EXPECTED
    assert [number for number, *_ in final] == list(range(1, ROUNDS * CELLS + 1))


def _interrupt_after_a_trial(folder: Path, command: tuple[str, ...]) -> None:
    process = start(command, folder, folder / "errors")
    deadline = time.monotonic() + 60
    while not stored(folder) and time.monotonic() < deadline:
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130, (folder / "errors").read_text()


def test_a_study_that_changed_is_not_resumed(tmp_path: Path) -> None:
    study = """
        name = "mine"
        title = "?"
        pg = ["embedded"]
        [design]
        rounds = 2
        [[workload]]
        name = "w"
        duration = "1s"
        [[variant]]
        name = "default"
        [[variant]]
        name = "off"
        settings = { fsync = "off" }
        """
    path = tmp_path / "mine.toml"
    path.write_text(study)
    _interrupt_after_a_trial(tmp_path, ("run", "mine.toml"))
    path.write_text(study.replace('fsync = "off"', 'fsync = "off", work_mem = "8MB"'))
    refused = walproof("run", "mine.toml", cwd=tmp_path)
    assert refused.returncode == 2
    assert 'study "mine" has changed since run mine-' in refused.stderr
    assert "work_mem" in refused.stderr
    assert "--new" in refused.stderr
    path.write_text(study)
    resumed = walproof("run", "mine.toml", cwd=tmp_path)
    assert resumed.returncode == 0, resumed.stderr
    assert "resuming run mine-" in resumed.stderr


def test_a_second_lab_on_the_same_run_is_refused(tmp_path: Path) -> None:
    process = start(COMMAND, tmp_path, tmp_path / "errors")
    try:
        deadline = time.monotonic() + 60
        while not stored(tmp_path) and time.monotonic() < deadline:
            time.sleep(0.1)
        second = walproof(*COMMAND, cwd=tmp_path)
        assert second.returncode == 2
        assert "another walproof is running" in second.stderr
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)
    assert wait_clean(60.0) == []


def test_a_run_that_is_asked_from_elsewhere_stops_or_goes_on_longer(tmp_path: Path) -> None:
    """Ask a lab in another process for more rounds, then to stop: it says both, and reports what it has."""
    errors = tmp_path / "errors"
    process = start(COMMAND, tmp_path, errors)
    try:
        until_s = time.monotonic() + 120
        while not stored(tmp_path):
            assert time.monotonic() < until_s, errors.read_text()
            time.sleep(0.1)
        store = Store(tmp_path / "walproof-out" / "walproof.sqlite")
        store.ask(store.run("last").id, RequestKind.ROUNDS, 200)  # now it goes on until it is stopped
        store.close()
        done = walproof("runs", "stop", "last", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert "not heard yet; runs listen between trials" in done.stdout
        assert process.wait(120) == 0, errors.read_text()
    finally:
        process.kill()
        process.wait()
    said = errors.read_text()
    assert "asked: 200 more rounds: 200 more rounds follow after the planned ones" in said
    assert "asked: stop: the run ends here" in said
    count = len(stored(tmp_path))
    assert 0 < count < (ROUNDS + 200) * CELLS
    shown = walproof("show", "last", cwd=tmp_path)
    assert "Stopped on request:" in shown.stdout
    again = walproof("runs", "stop", "last", cwd=tmp_path)
    assert again.returncode == 2
    assert "has ended: there is nothing left to stop" in again.stderr
    refused = walproof("runs", "--out", "x", "stop", "last", cwd=tmp_path).stderr
    assert "--out before stop belongs to the list of runs" in refused
