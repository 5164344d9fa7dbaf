"""Versions that no distribution ships any more are fetched, and driven by a newer pgbench."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests import versions
from tests.cli.command import walproof
from walproof.facts import TrialState
from walproof.facts.store import Store

pytestmark = pytest.mark.live


@pytest.mark.skipif(
    shutil.which("mvn") is None and shutil.which("npm") is None, reason="neither mvn nor npm is on PATH"
)
@pytest.mark.parametrize("version", ["13.7", pytest.param("14.2", marks=pytest.mark.long)])
def test_an_old_version_is_fetched_and_measured(tmp_path: Path, version: str) -> None:
    if version == "13.7" and shutil.which("mvn") is None:
        pytest.skip("npm's packages begin after 13.7")
    fetched = walproof("pg", "install", version, cwd=tmp_path)
    assert fetched.returncode == 0, fetched.stderr
    assert "sha256: " in fetched.stderr
    done = walproof(
        "compare", "--set", "full_page_writes=off", "--pg", version, "--pg", "embedded", "--scale", "1",
        "--clients", "2", "--duration", "1", "--rounds", "1", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    store = Store(tmp_path / "walproof-out" / "walproof.sqlite")
    run = store.run("last")
    trials = store.trials(run.id)
    store.close()
    assert run.plan.installs[0].version == version
    versions.note(version)
    assert run.plan.driver.version_num > 150000
    assert all(trial.state is TrialState.DONE for trial in trials), [trial.reason for trial in trials]
    old = {trial.variant: trial.metrics for trial in trials if trial.install == version}
    # The WAL itself is counted, so that versions without pg_stat_wal have the same figures.
    assert old["default"]["wal_records"] > 0
    assert old["default"]["wal_fpi"] > 0
    assert old["full_page_writes=off"]["wal_fpi"] < old["default"]["wal_fpi"]
