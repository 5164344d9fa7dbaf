"""The time of a tuning: what is computed between steps counts, and the last answer has its time."""

from __future__ import annotations

import errno
import time
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from walproof.errors import DiskError
from walproof.facts import Install, Plan
from walproof.facts.store import Store
from walproof.facts.tuning import DEFAULT, Objective, Promises, Purpose, Step, TuningFacts, TuningPlan
from walproof.facts.tuning_journal import Journal, JournalFile, RecordedFacts, StepTaken
from walproof.lab.failure import as_failure
from walproof.lab.schedule import Unseen
from walproof.lab.tune.conduct import Conductor
from walproof.lab.tune.load import TuningLoad
from walproof.settings.durability import DurabilityClass

PAUSE_S = 0.1
RECORDING = Step(1, Purpose.RECORD, (DEFAULT,), 1, 1)


@dataclass
class Slow:
    """A search and an observer that each take a while; what was asked of them, in order."""

    said: list[str] = field(default_factory=list)

    def ask(self, facts: TuningFacts) -> Step | None:
        """The recording, and nothing else."""
        self._take_a_while("ask")
        return None if facts.steps else RECORDING

    def choosing(self) -> None:
        """Note it."""
        self.said.append("choosing")

    def step_began(self, facts: TuningFacts, step: Step, is_resumed: bool) -> None:
        """Note it."""
        self.said.append("began")

    def step_ended(self, facts: TuningFacts, step: Step) -> None:
        """Make an answer."""
        self._take_a_while("ended")

    def over(self) -> None:
        """Make the last answer."""
        self._take_a_while("over")

    def trials(self, plan: Plan) -> Unseen:
        """Nobody."""
        return Unseen()

    def _take_a_while(self, what: str) -> None:
        self.said.append(what)
        time.sleep(PAUSE_S)


class Instant(Conductor):
    """Without servers: every step takes one second, by its own word."""

    def _take(self, journal: Journal, taken: StepTaken) -> Journal:
        recorded = RecordedFacts({"tps": 1000.0}, {}, 1, 1.0)
        done = replace(taken, seconds=1.0, finished=True)
        return self.file.write(replace(journal.changed(done), recorded=recorded))


def _conducted(
    folder: Path,
    budget_s: float,
    kind: type[Instant] = Instant,
    search: Slow | None = None,
    **begun: Any,
) -> tuple[Journal, Slow, JournalFile]:
    folder.mkdir(exist_ok=True)
    slow = search or Slow()
    plan = TuningPlan((), {}, (), Promises(DurabilityClass.NONE), Objective("tps", True), budget_s, 1)
    load = TuningLoad("shop", {}, folder, folder, Install("18.4", "18.4", 180004, "/nowhere", "embedded"))
    file = JournalFile(folder / "tune-shop-1")
    with closing(Store(folder / "facts.sqlite")) as store:
        conductor = kind(load, store, file, slow, 1.0)
        journal = Journal("tune-shop-1", plan, "shop", (), "18.4", None, **begun)
        journal = conductor.conduct(journal, slow)
        assert conductor.conduct(journal, slow) == journal
    return journal, slow, file


def test_what_is_computed_between_steps_is_wall_time_of_the_budget(tmp_path: Path) -> None:
    journal, slow, file = _conducted(tmp_path, 100.0)
    assert slow.said == ["ask", "began", "ended", "choosing", "ask", "over"]
    assert journal.finished
    assert journal == file.read()
    assert 4 * PAUSE_S <= journal.asking_s < 4 * PAUSE_S + 5
    assert journal.spent_s == 1.0 + journal.asking_s
    assert journal.answer_s == 0.0, "the first answer does not say how long the last one takes"


@pytest.mark.parametrize(("room_s", "last"), [(50.0, ["ask", "over"]), (-5.0, ["over"])])
def test_nothing_is_asked_where_only_the_last_answer_still_fits(
    tmp_path: Path, room_s: float, last: list[str]
) -> None:
    """An answer took 20 s when the tuning was interrupted after the recording."""
    recorded = RecordedFacts({"tps": 1000.0}, {}, 1, 1.0)
    taken = (StepTaken(RECORDING, seconds=60.0, finished=True),)
    journal, slow, _ = _conducted(tmp_path, 80.0 + room_s, recorded=recorded, steps=taken, answer_s=20.0)
    assert slow.said == ["choosing", *last]
    assert journal.spent_s < 62.0


def test_before_any_trial_one_takes_as_long_as_the_recording_did_until_its_load_began(tmp_path: Path) -> None:
    """Copying the tables took 90 s, which no estimate from the load's own words knows."""
    recorded = RecordedFacts({"tps": 1000.0}, {}, 1, 1.0, before_s=90.0)
    journal, _, file = _conducted(tmp_path, 100.0)
    load = TuningLoad(
        "shop", {}, tmp_path, tmp_path, Install("18.4", "18.4", 180004, "/nowhere", "embedded"),
        duration_s=20.0, warmup_s=2.0,
    )  # fmt: skip
    with closing(Store(tmp_path / "facts.sqlite")) as store:
        conductor = Instant(load, store, file, Slow(), 30.0)
        assert conductor.facts(replace(journal, recorded=None, steps=())).trial_s == 30.0
        assert conductor.facts(replace(journal, recorded=recorded, steps=())).trial_s == 112.0


class Undisked(Instant):
    """A machine on which no disk can be emulated."""

    def _take(self, journal: Journal, taken: StepTaken) -> Journal:
        if taken.step.purpose is Purpose.FLUSH:
            raise DiskError("no simulated disk on linux aarch64", detail="It is for x86-64.\nWith glibc.")
        return super()._take(journal, taken)


class Full(Instant):
    """A machine whose disk is full when that step is prepared."""

    def _take(self, journal: Journal, taken: StepTaken) -> Journal:
        if taken.step.purpose is Purpose.FLUSH:
            with as_failure():
                raise OSError(errno.ENOSPC, "No space left on device", "postgresql.conf")
        return super()._take(journal, taken)


class Flushing(Slow):
    """A search whose last step is the one on emulated disks."""

    def ask(self, facts: TuningFacts) -> Step | None:
        """The recording, then that step."""
        found = super().ask(facts)
        return Step(2, Purpose.FLUSH, (DEFAULT,), 2, 1, devices=("flush=0.5ms",)) if found is None else found


def test_where_no_disk_can_be_emulated_the_answer_is_there_without_that_step(tmp_path: Path) -> None:
    """At the first time, and where an earlier version left the step in the journal."""
    found = "No disk could be emulated: no simulated disk on linux aarch64 (It is for x86-64.; With glibc)."
    journal, slow, file = _conducted(tmp_path / "new", 100.0, Undisked, Flushing())
    assert slow.said == ["ask", "began", "ended", "choosing", "ask", "began", "over"]
    flush = StepTaken(Step(2, Purpose.FLUSH, (DEFAULT,), 2, 1, devices=("flush=0.5ms",)))
    recorded = RecordedFacts({"tps": 1000.0}, {}, 1, 1.0)
    steps = (StepTaken(RECORDING, seconds=60.0, finished=True), flush)
    left, _, _ = _conducted(tmp_path / "left", 100.0, Undisked, Flushing(), recorded=recorded, steps=steps)
    for ended in (journal, file.read(), left):
        assert ended is not None
        assert ended.finished
        assert [taken.step.purpose for taken in ended.steps] == [Purpose.RECORD]
        assert ended.notes == (found,)


def test_a_full_disk_does_not_end_a_tuning_as_if_no_disk_could_be_emulated(tmp_path: Path) -> None:
    """The same command takes the step up again once there is room."""
    with pytest.raises(DiskError, match="No space left"):
        _conducted(tmp_path, 100.0, Full, Flushing())
    journal = JournalFile(tmp_path / "tune-shop-1").read()
    assert journal is not None
    assert not journal.finished
