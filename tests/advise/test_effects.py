"""Sentences about gains, losses, risks and failures."""

from __future__ import annotations

import re

from tests.advise.findings import ask, sentences
from tests.analysis.facts import ASYNC, DEFAULT, FPW_OFF, FSYNC_OFF, MINIMAL, fail, make_plan, make_trials
from walproof.advise.finding import FindingKind
from walproof.facts import Cell
from walproof.settings.durability import DurabilityClass

PLAN = make_plan((DEFAULT, FSYNC_OFF, ASYNC, FPW_OFF, MINIMAL))
TPS = {"fsync=off": 2000.0, "synchronous_commit=off": 1900.0, "wal_level=minimal": 400.0}


def truth(cell: Cell) -> float:
    return TPS.get(cell[2], 500.0)


TRIALS = make_trials(PLAN, 5, truth, noise=0.01)
NUMBER = r"\d+\.\d+"


def test_a_gain_that_risks_data_says_so_first() -> None:
    (fsync,) = sentences(PLAN, TRIALS, FindingKind.EFFECT, "fsync=off")
    assert re.fullmatch(rf"may corrupt; {NUMBER}x \({NUMBER} to {NUMBER}\) the throughput of default", fsync)
    (async_commit,) = sentences(PLAN, TRIALS, FindingKind.EFFECT, "synchronous_commit=off")
    assert async_commit.startswith("may lose last commits; 3.")


def test_no_difference_is_said_as_such_with_its_interval() -> None:
    (sentence,) = sentences(PLAN, TRIALS, FindingKind.EFFECT, "full_page_writes=off")
    assert re.fullmatch(
        rf"may corrupt; no measurable difference \({NUMBER}x, {NUMBER} to {NUMBER}\)", sentence
    )


def test_a_safe_loss_has_no_risk_in_its_sentence() -> None:
    (sentence,) = sentences(PLAN, TRIALS, FindingKind.EFFECT, "wal_level=minimal")
    assert re.fullmatch(rf"0\.\d+x \({NUMBER} to {NUMBER}\) the throughput of default", sentence)


def test_the_baseline_has_no_effect() -> None:
    assert sentences(PLAN, TRIALS, FindingKind.EFFECT, "default") == []


def test_a_wide_interval_says_how_wide_it_is() -> None:
    """A difference of 5 % is seen in half of the runs whose intervals are ± 5 %: none was promised."""
    plan = make_plan((DEFAULT, MINIMAL))
    trials = make_trials(plan, 4, lambda cell: 500.0, noise=0.2)
    (sentence,) = sentences(plan, trials, FindingKind.EFFECT, "wal_level=minimal")
    assert re.search(
        r"\); with 4 rounds the ratio is known within ± \d+ % only; \d+ more would make the interval ± 5 %$",
        sentence,
    )


def test_a_blind_spot_that_holds_everything_has_no_number() -> None:
    plan = make_plan((DEFAULT, MINIMAL))
    trials = make_trials(plan, 2, lambda cell: 500.0, noise=0.2)
    (sentence,) = sentences(plan, trials, FindingKind.EFFECT, "wal_level=minimal")
    assert "; with 2 rounds hardly any difference could have been seen" in sentence
    assert "known within" not in sentence


def test_one_round_has_no_interval() -> None:
    plan = make_plan((DEFAULT, FSYNC_OFF))
    (sentence,) = sentences(plan, make_trials(plan, 1, truth), FindingKind.EFFECT, "fsync=off")
    assert re.fullmatch(
        rf"may corrupt; {NUMBER}x the throughput of default in the only round, so without an interval",
        sentence,
    )


def test_failures_are_counted_and_name_their_reason() -> None:
    trials = fail(TRIALS, lambda t: t.variant == "fsync=off" and t.round <= 2, "could not start server")
    (effect,) = sentences(PLAN, trials, FindingKind.EFFECT, "fsync=off")
    assert effect.endswith("; 2 of 5 rounds left out")
    (failure,) = [f for f in ask(PLAN, trials) if f.kind is FindingKind.FAILURE]
    assert failure.sentence == "2 of 5 trials failed: could not start server"
    assert set(failure.trials) == {t.number for t in trials if t.reason}
    assert sentences(PLAN, TRIALS, FindingKind.FAILURE, "fsync=off") == []


def test_a_variant_that_never_ran_has_a_failure_and_no_effect() -> None:
    trials = fail(TRIALS, lambda t: t.variant == "fsync=off")
    assert sentences(PLAN, trials, FindingKind.EFFECT, "fsync=off") == []
    assert sentences(PLAN, trials, FindingKind.FAILURE, "fsync=off") == [
        "5 of 5 trials failed: server did not start"
    ]


def test_evidence_and_subject() -> None:
    (finding,) = [f for f in ask(PLAN, TRIALS) if f.variant == "fsync=off" and f.kind is FindingKind.EFFECT]
    assert (finding.install, finding.workload) == ("18.3", "scale 1")
    assert finding.durability is DurabilityClass.CORRUPT
    assert finding.trials == tuple(t.number for t in TRIALS if t.variant in ("default", "fsync=off"))
    assert finding.metrics["rounds"] == 5
    assert finding.metrics["ratio_low"] < finding.metrics["ratio"] < finding.metrics["ratio_high"]
