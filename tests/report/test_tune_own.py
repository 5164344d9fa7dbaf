"""A tuning that was asked with the user's own configuration: what its report says and prints of it."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from tests.report.tuned import asked_of, facts_of, terminal_of
from tests.schemas import assert_valid
from walproof.advise.tune.answer import answer
from walproof.advise.tune.conclusion import Conclusion
from walproof.advise.tune.judge import RecordedJudge
from walproof.analysis.interval import Interval
from walproof.facts.tuning import DEFAULT, Candidate, Limit, Purpose, RuledOut, Step, TrialAnswer
from walproof.platforms.registry import platform
from walproof.report.tune.json import to_json
from walproof.report.tune.own import is_own_judged, own_sentence
from walproof.report.tune.view import tune_view
from walproof.settings.change import Before


def test_the_users_own_configuration_stands_beside_the_answer(own_judge: RecordedJudge) -> None:
    own = Candidate.of({"max_wal_size": "4GB"})
    facts = facts_of(own_judge, is_flat=False, own=own)
    found = answer(facts, own_judge, lambda _: own_judge)
    view = tune_view(facts, found, asked_of(facts), platform("conf"))
    said = " ".join(view.summary)
    assert "Compared with your own configuration: 1." in said
    assert "your own" in terminal_of(view)
    data = json.loads(to_json(view))
    assert_valid("tune", data)
    assert data["to_own"]["low"] > 1
    assert data["own_prediction"]["pg_wal_bytes"] > 0
    strict = replace(facts.plan, promises=replace(facts.plan.promises, wal_disk_bytes=1 << 30))
    broken = (RuledOut(Limit.WAL_DISK, "4 GB", "1 GB"),)
    view = tune_view(
        replace(facts, plan=strict), replace(found, own_broken=broken), asked_of(facts), platform("conf")
    )
    assert (
        "Your own configuration would not keep it (WAL disk: 4 GB), and was not run as it is." in view.summary
    )


def test_own_lines_that_this_machine_cannot_try_are_judged_all_the_same(own_judge: RecordedJudge) -> None:
    """As they are on the user's server: with 64 GB, where the laboratory tried the other line alone."""
    facts = facts_of(own_judge, is_flat=True, own=Candidate.of({"wal_compression": "lz4"}))
    whole = {"wal_compression": "lz4", "max_wal_size": "64GB", "shared_buffers": "64GB"}
    found = answer(facts, own_judge, lambda _: own_judge, whole)
    # What this machine has no memory for may fit on the user's.
    assert {each.limit for each in found.own_broken} == {Limit.WAL_DISK}
    assert found.own_prediction is not None
    assert found.own_prediction.pg_wal_bytes == 64 << 30
    assert is_own_judged(facts, found)
    risky = answer(facts, own_judge, lambda _: own_judge, {"fsync": "off"})
    assert {each.limit for each in risky.own_broken} == {Limit.MAY_LOSE}
    alone = answer(replace(facts, plan=replace(facts.plan, own=None)), own_judge, lambda _: own_judge, whole)
    assert {each.limit for each in alone.own_broken} == {Limit.WAL_DISK}


@pytest.mark.parametrize("is_flat", [False, True])
def test_own_lines_that_nothing_was_measured_with_are_taken_out(
    own_judge: RecordedJudge, is_flat: bool
) -> None:
    """The defaults, where they are best, are not what a server with the user's lines has either."""
    own = Candidate.of({"max_wal_size": "4GB"})
    facts = facts_of(own_judge, is_flat=is_flat, own=own)
    asked = replace(
        asked_of(facts),
        before={
            "max_wal_size": Before("4GB", False, False),
            "wal_buffers": Before("64MB", False, True),
        },
        replaced={"max_wal_size": "1GB", "wal_buffers": "-1"},
    )
    found = answer(facts, own_judge, lambda _: own_judge)
    if is_flat:
        close = Interval(0.99, 1.01, 0.95, "t")
        found = replace(found, outcome=replace(found.outcome, to_own=1.0, to_own_interval=close))
    view = tune_view(facts, found, asked, platform("alter-system"))
    assert view.pasted.lines is not None
    size = "1GB" if is_flat else "16GB"
    for line in ("wal_buffers = '-1'", f"max_wal_size = '{size}'"):
        assert f"ALTER SYSTEM SET {line};" in view.pasted.lines.apply
        assert line in view.conf_text
    assert "ALTER SYSTEM SET wal_buffers = '64MB';" in view.pasted.lines.undo
    assert "ALTER SYSTEM RESET max_wal_size;" in view.pasted.lines.undo
    measured = "the defaults were" if is_flat else "what is advised was"
    assert f"wal_buffers, without which {measured} measured." in " ".join(view.pasted.lines.notes)
    said = " ".join(view.summary)
    assert ("The defaults compared with your own configuration: 1.00x (0.99 to 1.01)." in said) == is_flat
    # A line in a file does nothing where ALTER SYSTEM has set it.
    told = tune_view(facts, found, asked, platform("conf"))
    assert [refusal.change.name for refusal in told.pasted.refusals] == ["wal_buffers"]
    assert "wal_buffers = '-1'" not in told.conf_text
    assert "wal_buffers = -1 is left out: ALTER SYSTEM has set it" in told.conf_text
    assert "wal_buffers = -1 is left out" in " ".join(terminal_of(told).split())


def test_own_lines_stay_where_nothing_is_known_against_them(own_judge: RecordedJudge) -> None:
    """The defaults are the best of what was tried, and the user's own configuration was not, or is better."""
    own = Candidate.of({"max_wal_size": "4GB"})
    facts = facts_of(own_judge, is_flat=True, own=own)
    asked = replace(asked_of(facts), replaced={"max_wal_size": "1GB"})
    found = answer(facts, own_judge, lambda _: own_judge)
    other = replace(facts, plan=replace(facts.plan, own=Candidate.of({"wal_buffers": "64MB"})))
    untried = tune_view(other, found, asked, platform("conf"))
    assert untried.pasted.lines is None
    slower = replace(found.outcome, to_own=0.8, to_own_interval=Interval(0.75, 0.85, 0.95, "t"))
    better = tune_view(facts, replace(found, outcome=slower), asked, platform("conf"))
    assert better.pasted.lines is None
    # What breaks a promise is taken out, whatever it gives.
    broken = replace(found, own_broken=(RuledOut(Limit.WAL_DISK, "4 GB", "1 GB"),))
    told = tune_view(other, broken, asked, platform("conf"))
    assert told.pasted.lines is not None
    assert "max_wal_size = '1GB'" in told.pasted.lines.apply


def test_own_lines_stay_where_the_trials_cannot_tell(own_judge: RecordedJudge) -> None:
    """That a few trials did not show a gain does not show that there is none."""
    own = Candidate.of({"max_wal_size": "4GB"})
    facts = facts_of(own_judge, is_flat=True, own=own)
    asked = replace(asked_of(facts), replaced={"max_wal_size": "1GB"})
    found = answer(facts, own_judge, lambda _: own_judge)
    unsure = replace(found.outcome, to_own=0.8, to_own_interval=Interval(0.59, 1.11, 0.95, "t"))
    told = tune_view(facts, replace(found, outcome=unsure), asked, platform("conf"))
    assert told.pasted.lines is None
    assert any(sentence.endswith("Your own lines stay.") for sentence in told.summary)


@pytest.mark.parametrize(("noise", "is_judged"), [(0.4, False), (0.001, True)])
def test_few_rounds_judge_the_users_own_only_where_they_agree(
    own_judge: RecordedJudge, noise: float, is_judged: bool
) -> None:
    own = Candidate.of({"max_wal_size": "4GB"})
    facts = facts_of(own_judge, is_flat=True, own=own)
    found = answer(facts, own_judge, lambda _: own_judge)
    found = replace(
        found,
        conclusion=Conclusion.DEFAULTS,
        outcome=replace(found.outcome, to_own=None, to_own_interval=None),
    )
    measured = [
        TrialAnswer(2, number, candidate, 1000.0 * math.exp(log))
        for number, log in enumerate((noise, -noise, noise / 2), 1)
        for candidate, log in ((DEFAULT, 0.0), (own, log))
    ]
    steps = (Step(1, Purpose.RECORD, (DEFAULT,), 1, 1), Step(2, Purpose.SCREEN, (DEFAULT, own), 3, 1))
    few = replace(facts, steps=steps, measured=tuple(measured))
    assert is_own_judged(few, found) is is_judged
    said = own_sentence(few, found)
    assert said is not None
    assert said.endswith("Your own lines stay.") is not is_judged


def test_an_answer_that_is_worse_than_the_users_own_is_not_to_be_used(own_judge: RecordedJudge) -> None:
    own = Candidate.of({"max_wal_size": "4GB"})
    facts = facts_of(own_judge, is_flat=False, own=own)
    found = answer(facts, own_judge, lambda _: own_judge)
    for ends, is_unfit in (((0.87, 0.93), True), ((0.97, 0.99), False), ((1.05, 1.1), False)):
        ratio = sum(ends) / 2
        outcome = replace(found.outcome, to_own=ratio, to_own_interval=Interval(*ends, 0.95, "t"))
        told = tune_view(facts, replace(found, outcome=outcome), asked_of(facts), platform("conf"))
        assert bool(told.unfit) is is_unfit
        words = "your own configuration keeps the promises and is better, and the lines would take it out"
        assert (words in told.conf_text) is is_unfit
    broken = (RuledOut(Limit.WAL_DISK, "4 GB", "1 GB"),)
    worse = replace(found.outcome, to_own=0.9, to_own_interval=Interval(0.87, 0.93, 0.95, "t"))
    told = tune_view(
        facts, replace(found, outcome=worse, own_broken=broken), asked_of(facts), platform("conf")
    )
    assert told.unfit == ()
