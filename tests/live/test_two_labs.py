"""Several labs on one store: each run is one process's, and no trial is lost or counted twice."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.command import environment
from tests.facts.plans import plan, trial
from tests.facts.server import store_url
from tests.live.pair import Pair
from walproof.errors import StudyError
from walproof.facts import Environment
from walproof.facts.store import Store
from walproof.lab.session import find_unfinished
from walproof.probe.environment import machine_facts

pytestmark = pytest.mark.live
STUDY = (
    'name = "both"\ntitle = "?"\n[design]\nrounds = 2\n[[workload]]\nname = "w"\nscale = 1\nclients = 1\n'
    'transactions = 20\n[[variant]]\nname = "default"\n[[variant]]\nname = "off"\n'
    'settings = { synchronous_commit = "off" }\n'
)
COMMAND = ("walproof", "run", "example")


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "shared.sqlite")
    pair: Pair = request.getfixturevalue("pair")
    name = f"labs_{abs(hash(tmp_path)):x}"
    with pair.primary.connect() as session:
        session.execute(f"CREATE DATABASE {name}".encode())
    return store_url(pair.primary, name)


def test_the_same_study_at_the_same_time(url: str, tmp_path: Path) -> None:
    """Begun together into one store: two runs, each whole, none of whose trials is of the other lab."""
    (tmp_path / "both.toml").write_text(STUDY)
    labs = [
        subprocess.Popen(
            [sys.executable, "-m", "walproof", "run", "both.toml", "--pg", "embedded", "--out", f"o{number}"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path,
            env=environment(WALPROOF_STORE=url),
        )
        for number in (1, 2)
    ]  # fmt: skip
    said = [lab.communicate(timeout=280) for lab in labs]
    assert [lab.returncode for lab in labs] == [0, 0], said
    store = Store(url)
    runs = store.runs()
    assert len(runs) == 2
    for run in runs:
        trials = store.trials(run.id)
        assert [done.number for done in trials] == [1, 2, 3, 4]
        assert {(done.round, done.variant) for done in trials} == {
            (round_, variant) for round_ in (1, 2) for variant in ("default", "off")
        }
        assert run.finished_at is not None
    reports = [path.stem for path in tmp_path.glob("o*/reports/*.html")]
    assert sorted(reports) == sorted(run.id for run in runs)
    store.close()


def test_what_another_process_is_at_is_left_alone(url: str) -> None:
    """An interrupted run is gone on with when nobody else has it, and only on a machine like its own."""
    mine, theirs = Store(url), Store(url)
    here = Environment(machine_facts(), {})
    run = mine.add_run(plan(), COMMAND, here, "1.0")
    mine.add_trial(run.id, trial(1))
    assert find_unfinished(theirs, plan(), COMMAND) == run
    changed = replace(plan(), seed=plan().seed + 1)
    with pytest.raises(StudyError, match="has changed since"):
        find_unfinished(theirs, changed, COMMAND)
    with mine.claim(run.id) as is_ours:
        assert is_ours
        assert find_unfinished(theirs, plan(), COMMAND) is None
        assert find_unfinished(theirs, changed, COMMAND) is None
    mine.finish_run(run.id)
    elsewhere = mine.add_run(plan(), COMMAND, Environment({"cpu": "another", "cores": "96"}, {}), "1.0")
    assert elsewhere.id != run.id
    assert find_unfinished(theirs, plan(), COMMAND) is None
    mine.close()
    theirs.close()
