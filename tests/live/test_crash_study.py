"""A study whose servers are killed, from the command line to the report, on a real server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.command import walproof
from tests.schemas import assert_valid
from walproof.facts.store import Store

pytestmark = pytest.mark.live

STUDY = """
name = "crashes"
title = "How long is it away?"
baseline = "images"
[base]
autovacuum = "off"
shared_buffers = "32MB"
bgwriter_lru_maxpages = 0
[design]
rounds = 1
probes = []
[crash]
cold = true
predict = true
iops = 2000
power_cut = true
[[workload]]
name = "w"
transactions = 3000
clients = 2
[[variant]]
name = "images"
settings = { full_page_writes = "on" }
[[variant]]
name = "none"
settings = { full_page_writes = "off" }
"""


def test_what_the_baseline_says_of_another_crash_is_what_that_one_had_to_do(tmp_path: Path) -> None:
    (tmp_path / "crashes.toml").write_text(STUDY)
    done = walproof("run", "crashes.toml", "--pg", "embedded", "--out", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    store = Store(tmp_path / "out" / "walproof.sqlite")
    run = store.run("last")
    images, none = sorted(store.trials(run.id), key=lambda trial: trial.variant)
    store.close()
    assert (images.reason, none.reason) == (None, None)
    for trial in (images, none):
        # Two runs of a load differ a little; a crash has a record or two more than its load.
        about = pytest.approx(images.metrics[f"predicted_recovery_wal_bytes.{trial.variant}"], rel=0.05)
        assert trial.metrics["recovery_wal_bytes"] == about
        about = pytest.approx(images.metrics[f"predicted_resident.{trial.variant}"], rel=0.05, abs=20)
        assert trial.metrics["recovery_checkpoint_buffers"] == about
        about = pytest.approx(images.metrics[f"predicted_wal_bytes.{trial.variant}"], rel=0.05)
        assert trial.metrics["recorded_wal_bytes"] == about
        assert trial.metrics["recovery_s"] > 0
        assert trial.metrics["recovery_cold_s"] > 0
        # What was not flushed is lost: with synchronous commits that is less than one of them.
        lost = trial.metrics["recovery_wal_bytes"] - trial.metrics["recovery_cut_wal_bytes"]
        assert 0 <= lost < 100_000
        assert trial.metrics["recovery_cut_s"] > 0
        # Where nobody may limit reads, the trial says so.
        said = [text for text in trial.warnings if text.startswith("recovery: no recovery with 2000 reads")]
        assert bool(said) != ("recovery_limited_s" in trial.metrics)
    # Only the baseline predicts.
    assert not any(name.startswith("predicted_") for name in none.metrics)

    shown = walproof("show", run.id, "--out", "out", cwd=tmp_path)
    assert "Recovery predicted from images alone" in shown.stdout, shown.stdout
    as_json = json.loads(walproof("show", run.id, "--json", "--out", "out", cwd=tmp_path).stdout)
    assert_valid("report", as_json)
    assert as_json["run"]["id"] == run.id
