"""A tuning whose answer breaks a promise after all, or holds under conditions: what its conf file says."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.report.tuned import asked_of, facts_of, terminal_of
from walproof.advise.tune.answer import answer, line_durability
from walproof.advise.tune.judge import RecordedJudge
from walproof.analysis.tuning.lines import LineVerdict
from walproof.facts.tuning import Candidate, Limit, RuledOut
from walproof.platforms.registry import platform
from walproof.report.tune.view import TuneView, tune_view
from walproof.settings.durability import DurabilityClass


@pytest.fixture(scope="module")
def view(own_judge: RecordedJudge) -> TuneView:
    facts = facts_of(own_judge, is_flat=False)
    found = answer(facts, own_judge, lambda _: own_judge)
    return tune_view(facts, found, asked_of(facts), platform("conf"))


def test_what_breaks_a_promise_at_its_own_speed_is_not_to_be_used(view: TuneView) -> None:
    assert view.unfit == ()
    assert "DO NOT USE" not in view.conf_text
    broken = replace(view.answer, broken=(RuledOut(Limit.RECOVERY_TARGET, "up to 90 s", "60 s"),))
    told = tune_view(view.facts, broken, view.asked, platform("conf"))
    assert told.conf_text.startswith("# DO NOT USE IT AS IT IS: at its own speed")
    also = tune_view(
        view.facts, replace(broken, broken_as_recorded=broken.broken), view.asked, platform("conf")
    )
    assert also.conf_text.startswith("# DO NOT USE IT AS IT IS: it would break a promise (recovery target")
    assert told.pasted.lines is not None
    assert told.pasted.lines.notes[0].startswith("DO NOT USE IT AS IT IS")
    shown = " ".join(terminal_of(told).split())
    assert shown.count("DO NOT USE IT AS IT IS") == 2, "above, and beside the lines"


def test_what_came_back_too_slowly_is_not_to_be_used(view: TuneView) -> None:
    plan = view.facts.plan
    for target_s, is_unfit in ((3600.0, False), (0.001, True), (None, False)):
        promises = replace(plan.promises, recovery_target_s=target_s)
        facts = replace(view.facts, plan=replace(plan, promises=promises))
        told = tune_view(facts, view.answer, view.asked, platform("conf"))
        assert bool(told.unfit) is is_unfit
        assert told.conf_text.startswith("# DO NOT USE IT AS IT IS: after a crash") is is_unfit
        assert sum("At that pace" in sentence for sentence in told.summary) == 1


def test_what_every_configuration_had_is_named(view: TuneView) -> None:
    kept = {"wal_level": "minimal", "max_wal_senders": "0"}
    told = tune_view(view.facts, view.answer, replace(view.asked, kept=kept), platform("conf"))
    words = "All of this was measured with wal_level=minimal and max_wal_senders=0, and holds where"
    assert f"# {words}" in told.conf_text
    assert any(sentence.startswith(words) for sentence in told.summary)
    assert "All of this" not in view.conf_text


def test_the_best_so_far_is_called_that(view: TuneView) -> None:
    early = replace(view.answer, outcome=replace(view.answer.outcome, is_final=False))
    told = tune_view(view.facts, early, view.asked, platform("conf"))
    assert "(the best so far, not yet compared on servers" in told.conf_text
    assert "the best so far" not in view.conf_text


def test_the_wal_that_a_line_saves_stands_with_it_and_is_said_where_it_was_left_out(view: TuneView) -> None:
    (size,) = (costs for costs in view.answer.lines if costs.line.setting == "max_wal_size")
    others = [costs for costs in view.answer.lines if costs is not size]
    saves = replace(
        size,
        had=replace(size.had, wal_bytes_per_txn=620.0),
        without=replace(size.without, wal_bytes_per_txn=1000.0),
    )
    told = tune_view(view.facts, replace(view.answer, lines=(saves, *others)), view.asked, platform("conf"))
    assert "# WAL per transaction 620 B, without it 1000 B (simulated)" in told.conf_text
    gone = replace(saves, line=replace(size.line, in_conf=False, verdict=LineVerdict.DROPPED))
    told = tune_view(view.facts, replace(view.answer, lines=(gone, *others)), view.asked, platform("conf"))
    said = " ".join(told.summary)
    assert "max_wal_size (dropped; with it WAL is 62 % of that without it, as simulated, which" in said


def test_a_line_with_another_value_than_the_winners_has_no_words_of_that_one(view: TuneView) -> None:
    (size,) = (costs for costs in view.answer.lines if costs.line.setting == "max_wal_size")
    others = [costs for costs in view.answer.lines if costs is not size]
    other = replace(size, line=replace(size.line, value="2TB"))
    told = tune_view(view.facts, replace(view.answer, lines=(other, *others)), view.asked, platform("conf"))
    above = told.conf_text.partition("max_wal_size = '16GB'")[0]
    assert above.endswith("\n\n"), "no comment stands directly above it"
    assert not view.conf_text.partition("max_wal_size = '16GB'")[0].endswith("\n\n")


def test_what_is_not_known_of_the_server_cannot_be_brought_back(view: TuneView) -> None:
    unknown = tune_view(view.facts, view.answer, replace(view.asked, before={}), platform("alter-system"))
    assert unknown.pasted.lines is not None
    assert any("note SHOW of each first" in note for note in unknown.pasted.lines.notes)
    assert view.pasted.lines is not None
    assert not any("note SHOW of each first" in note for note in view.pasted.lines.notes)


def test_a_line_that_risks_something_beside_another_has_that_class(
    view: TuneView, own_judge: RecordedJudge
) -> None:
    lines = {"synchronous_commit": "off", "wal_writer_delay": "10ms"}
    line = replace(view.answer.lines[0].line, setting="wal_writer_delay", value="10ms")
    for conf, durability in (
        (lines, DurabilityClass.LAST_COMMITS),
        ({"wal_writer_delay": "10ms"}, DurabilityClass.NONE),
    ):
        found = replace(line, reference=Candidate.of(conf))
        assert line_durability(found, own_judge) is durability


def test_what_a_failover_may_lose_is_said_of_what_is_advised(view: TuneView) -> None:
    words = "synchronous_commit=off: commits do not wait for standbys: a failover loses those"
    outcome = replace(view.answer.outcome, advised=Candidate.of({"synchronous_commit": "off"}))
    told = tune_view(view.facts, replace(view.answer, outcome=outcome), view.asked, platform("conf"))
    assert any(sentence.startswith(words) for sentence in told.summary)
    assert not any(sentence.startswith(words) for sentence in view.summary)


def test_lines_that_are_safe_only_with_those_that_are_left_out_are_not_to_be_used(view: TuneView) -> None:
    broken = (RuledOut(Limit.RECOVERY_TARGET, "up to 90 s", "60 s"),)
    asked = replace(view.asked, broken_as_pasted=broken)
    told = tune_view(view.facts, view.answer, asked, platform("conf"))
    assert len(told.unfit) == 1
    assert told.conf_text.startswith("# DO NOT USE IT AS IT IS: without the lines that are left out")
    assert any(sentence.endswith("(recovery target: up to 90 s). First do what is said beside each of them.")
               for sentence in told.summary)  # fmt: skip


@pytest.mark.parametrize(("away_s", "words", "is_unfit"), [(15.0, "1.50x", False), (120.0, "12.0x", True)])
def test_a_second_metric_that_trials_cannot_show_is_held_to_its_limit_as_simulated(
    view: TuneView, away_s: float, words: str, is_unfit: bool
) -> None:
    """Crashes seconds after a checkpoint measured 1.6 times the defaults' time away, whatever the setting."""
    objective = replace(view.facts.plan.objective, limit=("recovery_s", 2.0))
    facts = replace(view.facts, plan=replace(view.facts.plan, objective=objective))
    made = replace(
        view.answer,
        outcome=replace(view.answer.outcome, second=1.6, second_interval=None),
        prediction=replace(view.answer.prediction, recovery_s=away_s),
        default_prediction=replace(view.answer.default_prediction, recovery_s=10.0),
    )
    told = tune_view(facts, made, view.asked, platform("conf"))
    said = " ".join(told.summary)
    assert f"over whole checkpoint cycles it is {words}, as simulated." in said
    assert bool(told.unfit) is is_unfit
    assert ("simulated over whole checkpoint cycles, recovery_s with it is 12.0x of" in said) is is_unfit
