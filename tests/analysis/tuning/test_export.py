"""The study that optuna-dashboard opens has what was measured."""

from __future__ import annotations

from pathlib import Path

import optuna
import pytest

from bench.tune.table import tuned
from tests.analysis.tuning import synthetic
from tests.analysis.tuning.synthetic import FACTORS, limited, peaked, plan_of
from walproof.analysis.tuning.export import export_study
from walproof.analysis.tuning.search import TuneSearch
from walproof.errors import AnalysisError
from walproof.facts.place import sqlite_url
from walproof.facts.tuning import Purpose, TuningFacts


@pytest.fixture(scope="module")
def facts() -> TuningFacts:
    table = synthetic.synthetic(FACTORS, peaked, breaks=limited)
    *_, found = tuned(table, plan_of(FACTORS, trials=40, seed=1), TuneSearch(table.judge))
    return found


def test_the_study_has_each_trial(facts: TuningFacts, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    path = tmp_path / "a?b#c%41{d}.db"
    count = export_study(facts, path)
    assert list(tmp_path.iterdir()) == [path]
    storage = optuna.storages.RDBStorage(str(sqlite_url(path)))
    request.addfinalizer(storage.engine.dispose)
    (name,) = optuna.get_all_study_names(storage)
    study = optuna.load_study(study_name=name, storage=storage)
    left_out = {step.number for step in facts.steps if step.purpose in (Purpose.RECORD, Purpose.CRASH)}
    expected = [trial for trial in facts.measured if trial.step not in left_out and trial.device is None]
    assert count == len(study.trials) == len(expected)
    assert [trial.value for trial in study.trials] == [trial.value for trial in expected]
    assert study.direction is optuna.study.StudyDirection.MAXIMIZE
    first = study.trials[0]
    assert first.user_attrs["conf"] == "default"
    assert first.params == {
        "wal_compression": "off",
        "max_wal_size": 0,
        "commit_delay": 0,
        "wal_buffers": 0,
        "checkpoint_completion_target": 1,
    }


def test_no_file_is_overwritten(facts: TuningFacts, tmp_path: Path) -> None:
    path = tmp_path / "mine.db"
    path.write_text("mine")
    with pytest.raises(AnalysisError, match="exists already"):
        export_study(facts, path)
    assert path.read_text() == "mine"
    with pytest.raises(AnalysisError, match="no folder"):
        export_study(facts, tmp_path / "absent" / "tuning.db")
