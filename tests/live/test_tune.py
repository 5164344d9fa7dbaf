"""Tunings on real servers: recording, steps, crash and answer; and one that is interrupted and goes on."""

from __future__ import annotations

import json
import signal
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from tests.cli.command import start, walproof
from tests.lab.tune_loads import shop
from tests.schemas import assert_valid
from walproof.advise.tune.crashes import crash_checks
from walproof.advise.tune.judge import LoadRecording, RecordedJudge
from walproof.analysis.forecast import Costs
from walproof.cli.tune_progress import TuningProgress
from walproof.facts import Install
from walproof.facts.store import Store
from walproof.facts.tuning import (
    DEFAULT,
    Candidate,
    Factor,
    Objective,
    Promises,
    Purpose,
    Step,
    TuningFacts,
    TuningPlan,
)
from walproof.facts.tuning_journal import Journal, JournalFile
from walproof.lab.load_file import read_load
from walproof.lab.tune.conduct import Conductor
from walproof.lab.tune.load import TuningLoad
from walproof.settings.durability import DurabilityClass
from walproof.units import Lsn
from walproof.wal import stats

pytestmark = pytest.mark.live

SMALL = Candidate.of({"max_wal_size": "64MB"})
DELAY = Candidate.of({"commit_delay": "100"})
FACTORS = (
    Factor("commit_delay", ("0", "100"), None, "0", "toggled"),
    Factor("max_wal_size", ("64MB", "1GB"), None, "1GB", "fresh"),
)


@dataclass
class Scripted:
    """A search that asks for what is written down, and notes how much it knew."""

    steps: tuple[Step, ...]
    known: list[int] = field(default_factory=list)

    def ask(self, facts: TuningFacts) -> Step | None:
        """The step after those that were answered."""
        self.known.append(len(facts.measured))
        return self.steps[len(facts.steps)] if len(facts.steps) < len(self.steps) else None


@pytest.mark.long
def test_what_a_search_asks_for_is_recorded_measured_and_crashed(
    tmp_path: Path, work: Path, embedded: Install
) -> None:
    plan = TuningPlan(FACTORS, {}, (), Promises(DurabilityClass.NONE), Objective("tps", True), 120.0, 5)
    search = Scripted(
        (
            Step(1, Purpose.RECORD, (DEFAULT,), 1, 1),
            Step(2, Purpose.SCREEN, (DEFAULT, DELAY), 2, 2, "toggled"),
            Step(3, Purpose.SEARCH, (DEFAULT, SMALL), 1, 3),
            Step(4, Purpose.CRASH, (SMALL,), 1, 4),
        )
    )
    tables, scripts = read_load(str(shop(tmp_path)))
    load = TuningLoad("shop", tables, scripts, work, embedded, "flush=1ms", 1.0)
    store = Store(tmp_path / "facts.sqlite")
    try:
        file = JournalFile(tmp_path / "tunings" / "tune-shop-1")
        conductor = Conductor(load, store, file, TuningProgress(), 2.0)
        journal = Journal("tune-shop-1", plan, "shop", ("walproof", "tune"), embedded.label, "flush=1ms")
        done = conductor.conduct(journal, search)
        assert done == file.read()
        assert done.finished
        # Two starts of two toggled candidates, two trials, a crash.
        assert search.known == [0, 1, 5, 7, 8]
        facts = conductor.facts(done)
        assert [row.value is not None and row.value > 0 for row in facts.measured] == [True] * 8
        assert {run.plan.study for run in store.runs()} == {f"tune-shop-1-{number}" for number in (2, 3, 4)}
        assert facts.spent_s > sum(row.seconds for row in facts.measured[1:]) * 0.9
        assert done.recorded is not None
        written = stats(file.recording, start=Lsn(done.recorded.start_lsn))
        per_txn = done.recorded.metrics["wal_bytes_per_txn"]
        # The window is most of the recorded load.
        transactions = done.recorded.metrics["transactions"]
        assert written.accounting.total_bytes >= 0.9 * per_txn * transactions
        judge = RecordedJudge(
            LoadRecording(file.recording, Lsn(done.recorded.start_lsn), done.recorded.settings, per_txn),
            embedded.version_num,
            plan.promises,
            plan.factors,
            {},
            clients=6,
            memory_bytes=1 << 40,
            costs=Costs(),
        )
        default, small = judge(DEFAULT)[0], judge(SMALL)[0]
        assert default.pg_wal_bytes == 1 << 30
        assert small.recovery_s is not None
        assert default.recovery_s is not None
        assert small.recovery_s < default.recovery_s
        crashed = done.steps[-1].run
        assert crashed is not None
        (crash,) = crash_checks(SMALL, store.trials(crashed), judge)
        assert crash.failure is None
        assert crash.wal_bytes is not None
        assert crash.wal_bytes > 0
        assert crash.measured_s is not None
        assert crash.predicted_s is not None
        # An answered tuning is not asked anything again.
        assert conductor.conduct(done, search) == done
        assert len(store.runs()) == 3
    finally:
        store.close()


COMMAND = ("tune", "--load", "shop.toml", "--only", "commit_delay,max_wal_size", "--budget", "100s", "--json")


def _interrupt_after(trials: int, folder: Path) -> str:
    """Start the command, and stop it as soon as so many trials are stored; what it said."""
    errors = folder / f"errors-{trials}"
    process = start(COMMAND, folder, errors)
    deadline = time.monotonic() + 120
    while len(_trials(folder)) < trials and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130, errors.read_text()
    return errors.read_text()


def _trials(folder: Path) -> list[tuple[str, int, float]]:
    """(run, number, when it began) of every stored trial."""
    path = folder / "walproof-out" / "walproof.sqlite"
    if not path.exists():
        return []
    store = Store(path)
    try:
        return [
            (run.id, trial.number, trial.started_at) for run in store.runs() for trial in store.trials(run.id)
        ]
    finally:
        store.close()


def test_a_tuning_that_is_interrupted_goes_on(tmp_path: Path) -> None:
    """Trials stay, no step is taken twice, and what is finished is shown again without a measurement."""
    shop(tmp_path)
    assert "the same command goes on with the tuning" in _interrupt_after(1, tmp_path)
    before = _trials(tmp_path)
    (folder,) = (tmp_path / "walproof-out" / "tunings").iterdir()
    file = JournalFile(folder)
    recorded = {path.name: path.stat().st_mtime_ns for path in file.recording.iterdir()}
    said = _interrupt_after(len(before) + 1, tmp_path)
    assert "step 1: " not in said
    assert set(before) <= set(_trials(tmp_path))
    assert {path.name: path.stat().st_mtime_ns for path in file.recording.iterdir()} == recorded
    journal = file.read()
    assert journal is not None
    finished = tuple(step for step in journal.steps if step.finished)
    assert finished[0].step.purpose is Purpose.RECORD
    assert len({run for run, *_ in _trials(tmp_path)}) == len(journal.steps) - 1
    # As if its budget had been over then.
    file.write(replace(journal, steps=finished, finished=True))
    trials = _trials(tmp_path)
    done = walproof(*COMMAND, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert _trials(tmp_path) == trials
    answer = json.loads(done.stdout)
    assert_valid("tune", answer)
    assert [step["run"] for step in answer["steps"]] == [step.run for step in finished]
    assert answer["promises"]["may_lose"] == "none"
    assert answer["default_prediction"]["pg_wal_bytes"] == 1 << 30
    page = (folder / "report.html").read_text()
    assert page.startswith("<!DOCTYPE html>")
    # Its answer is kept with the date of its last step, and nothing is simulated again.
    assert "making the answer" in done.stderr
    again = walproof(*COMMAND, "--export", "tuning.db", cwd=tmp_path)
    assert (again.returncode, again.stdout) == (0, done.stdout)
    assert " trials written: optuna-dashboard sqlite:///" in again.stderr
    assert (tmp_path / "tuning.db").read_bytes().startswith(b"SQLite format 3")
    assert "making the answer" not in again.stderr
    assert (folder / "report.html").read_text() == page
