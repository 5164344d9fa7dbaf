"""A tuning's report from a made tuning: table of a known truth, limits from golden WAL."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from tests.facts.plans import plan, trial
from tests.report.tuned import EVIL, asked_of, facts_of, terminal_of
from tests.schemas import assert_valid
from walproof.advise.tune.answer import answer
from walproof.advise.tune.conclusion import Conclusion
from walproof.advise.tune.crashes import wal_checks
from walproof.advise.tune.judge import RecordedJudge
from walproof.analysis.hosts import over_hosts
from walproof.analysis.tuning import race
from walproof.analysis.tuning.flush import flush_gains
from walproof.analysis.tuning.values import objective_values
from walproof.facts import Variant
from walproof.facts.codec import from_json
from walproof.facts.codec import to_json as to_fact_json
from walproof.facts.tuning import (
    DEFAULT,
    STOPPED,
    Candidate,
    Limit,
    Purpose,
    RuledOut,
    Step,
    TrialAnswer,
    TuningFacts,
)
from walproof.facts.tuning_answers import candidate_name
from walproof.platforms.registry import platform
from walproof.report.blocks import Table
from walproof.report.tune.figures import race_blocks
from walproof.report.tune.json import to_json
from walproof.report.tune.kept import KeptAnswer
from walproof.report.tune.page import to_html
from walproof.report.tune.terminal import print_tuning
from walproof.report.tune.unfit import longest_s
from walproof.report.tune.view import TuneView, tune_view
from walproof.report.tune.wal_checked import wal_sentences
from walproof.settings.change import Before
from walproof.settings.durability import DurabilityClass


@pytest.fixture(scope="module")
def view(own_judge: RecordedJudge) -> TuneView:
    facts = facts_of(own_judge, is_flat=False)
    return tune_view(facts, answer(facts, own_judge, lambda _: own_judge), asked_of(facts), platform("conf"))


def test_lines_of_a_terminal_can_be_pasted(view: TuneView) -> None:
    patroni = tune_view(view.facts, view.answer, view.asked, platform("patroni"))
    assert patroni.pasted.lines is not None
    out = StringIO()
    print_tuning(patroni, Console(width=40, file=out))
    assert (
        f"\nTo apply:\n{patroni.pasted.lines.apply}\nTo undo:\n{patroni.pasted.lines.undo}\n"
        in out.getvalue()
    )


def test_what_is_advised_has_its_gain_and_can_be_undone(view: TuneView) -> None:
    assert view.answer.conf.conf["max_wal_size"] == "16GB"
    assert view.answer.why_default is None
    assert view.pasted.lines is not None
    assert "max_wal_size = '16GB'" in view.pasted.lines.apply
    assert "max_wal_size = '2GB'" in view.pasted.lines.undo
    said = " ".join(view.summary)
    assert "as good as with the defaults (on fresh servers, with a seed by which nothing was chosen)" in said
    assert "Promised: a crash loses nothing" in said
    assert "as predicted" in said
    assert "LONGER than predicted" in said
    # 9 s instead of 3 s, where the forecast is some 0.1 s: three times that is still within no target.
    assert "At that pace its longest time away is" in said
    assert "DO NOT USE" not in said


def test_memory_that_a_line_costs_is_said_everywhere(view: TuneView) -> None:
    assert "memory" not in view.conf_text
    first, *others = view.answer.lines
    larger = replace(first, memory_bytes=(10 << 30, 205 << 20))
    found = replace(view.answer, lines=(larger, *others))
    told = tune_view(view.facts, found, view.asked, platform("conf"))
    assert "# memory 10.0 GB, without it 205 MB" in told.conf_text
    assert "205 MB -> 10.0 GB" in " ".join(terminal_of(told).split())


def test_a_platform_that_takes_no_line_says_so(view: TuneView) -> None:
    before = {name: Before("1", False, True) for name in view.answer.conf.conf}
    told = tune_view(view.facts, view.answer, replace(view.asked, before=before), platform("conf"))
    assert told.pasted.lines is None
    assert "ALTER SYSTEM has set it, which overrides every file" in " ".join(terminal_of(told).split())


def test_a_conf_file_says_above_each_line_what_it_is_worth(view: TuneView) -> None:
    text = view.conf_text
    for name, value in view.answer.conf.settings:
        above, found, _ = text.partition(f"{name} = '{value}'")
        assert found
        worth = above.rstrip("\n").rpartition("\n\n")[2]
        assert worth.startswith("# ")
        assert "; a crash loses nothing" in worth.splitlines()[0]
    assert all(row.startswith("#") or "=" in row or not row for row in text.splitlines())


def test_every_form_has_lines_limits_race_and_crashes(view: TuneView) -> None:
    page, shown = to_html(view), terminal_of(view)
    for word in ("Lines", "Never in the space", "Predictions held to crashes", "max_wal_size = 16GB"):
        assert word in page
        assert word in shown
    assert EVIL not in page
    assert page.count("<svg") == 2
    assert "Costs are the shipped ones." in shown
    assert max(len(line) for line in shown.splitlines()) <= 100
    data = json.loads(to_json(view))
    assert_valid("tune", data)
    assert data["conf"] == view.answer.conf.conf
    assert any("SELECT pg_reload_conf(); afterwards." in note for note in data["lines_notes"])
    assert data["gain"]["low"] <= data["gain"]["ratio"] <= data["gain"]["high"]
    assert {line["setting"] for line in data["lines"]} == set(view.answer.outcome.winner.conf)
    assert len(data["steps"]) == len(view.facts.steps)
    assert sum(len(step["measured"]) for step in data["steps"]) == len(view.facts.measured)
    assert [crash["is_within"] for crash in data["crashes"]] == [True, False]


def test_simulated_wal_is_held_against_a_run(view: TuneView, own_judge: RecordedJudge) -> None:
    conf = view.answer.conf
    assert "simulated and not checked" in " ".join(wal_sentences(conf, ()))
    assert wal_sentences(DEFAULT, ()) == []
    mixed = Candidate.of({"min_wal_size": "1GB", "wal_recycle": "off", "commit_delay": "100"})
    of_size, of_recycling = wal_sentences(mixed, ())
    assert of_size.startswith("What min_wal_size does at checkpoints was simulated and not checked")
    assert of_recycling.startswith("What wal_recycle does at checkpoints was neither simulated nor checked")
    predicted = own_judge.recorded_ratio(conf)
    assert predicted is not None
    recorded = {"wal_bytes_per_txn": 8000.0, "transactions": 1000.0}
    step = Step(9, Purpose.CRASH, (conf,), 1, 1, as_recorded=True)

    def checked(off: float, transactions: float) -> tuple[str, ...]:
        metrics = {
            "wal_bytes_per_txn": 8000.0 * predicted * off, "transactions": transactions,
            "checkpoints_timed": 1.0, "checkpoints_requested": 2.0,
        }  # fmt: skip
        (found,) = wal_checks(step, [replace(trial(1), metrics=metrics)], own_judge, recorded, "elm")
        assert found.off == pytest.approx(off)
        assert found.checkpoints == 3
        told = tune_view(view.facts, view.answer, replace(view.asked, wal_checks=(found,)), platform("conf"))
        assert json.loads(to_json(told))["wal_checks"][0]["host"] == "elm"
        assert "WAL" in to_html(told)
        return told.summary

    assert any(said.startswith("On elm: WAL per transaction") for said in checked(1.02, 1100.0))
    assert not any("OFF" in said for said in checked(1.02, 1100.0))
    assert any("THE SIMULATION IS OFF" in said for said in checked(1.3, 1100.0))
    assert any("not alike" in said for said in checked(1.3, 3000.0))
    assert wal_checks(replace(step, as_recorded=False), [trial(1)], own_judge, recorded) == ()


def test_what_another_flush_would_give_has_intervals_or_is_left_out_by_name(view: TuneView) -> None:
    """Half a millisecond makes it twice as good, one disk failed; nothing of it is told to the race."""
    number = len(view.facts.steps) + 1
    conf = view.answer.conf
    devices = ("flush=0.5ms", "flush=2ms")
    step = Step(number, Purpose.FLUSH, (conf,), 3, 1, devices=devices)
    disks: tuple[tuple[str | None, float], ...] = ((None, 1.0), (devices[0], 2.0))
    measured = [
        TrialAnswer(number, at, conf, 500 * factor * (1 + 0.01 * at * (at + index)), device=device)
        for at in (1, 2, 3)
        for index, (device, factor) in enumerate(disks)
    ]
    measured += [TrialAnswer(number, 1, conf, None, failure="no start", device=devices[1])]
    kept = [step for step in view.facts.steps if step.purpose is not Purpose.FLUSH]
    steps = tuple(step for step in kept if step.number < number)
    before = replace(
        view.facts,
        steps=steps,
        measured=tuple(
            trial for trial in view.facts.measured if trial.step in {each.number for each in steps}
        ),
    )
    assert "was not measured: the budget had no room" in _words(before, view)
    undisked = replace(before, notes=("No disk could be emulated: its C library is not glibc.",))
    assert "was not measured. No disk could be emulated: its C library" in _words(undisked, view)
    facts = replace(before, steps=(*steps, step), measured=(*before.measured, *measured))
    (gain,) = flush_gains(facts)
    assert (gain.device, gain.rounds) == ("flush=0.5ms", 3)
    assert gain.ratio == pytest.approx(2.0, rel=0.05)
    assert gain.interval is not None
    assert gain.interval.contains(2.0)
    said = _words(facts, view)
    assert "What another flush would give: " in said
    assert "failed" in said
    assert race.replay(facts) == race.replay(before)
    assert objective_values(facts).candidates == objective_values(before).candidates


def _words(facts: TuningFacts, view: TuneView) -> str:
    asked = replace(
        view.asked, runs=tuple("run" for _ in facts.steps), seconds=tuple(20.0 for _ in facts.steps)
    )
    return " ".join(terminal_of(tune_view(facts, view.answer, asked, platform("conf"))).split())


def test_where_nothing_does_anything_the_defaults_are_best(own_judge: RecordedJudge) -> None:
    facts = facts_of(own_judge, is_flat=True)
    found = answer(facts, own_judge, lambda _: own_judge)
    shown = tune_view(facts, found, asked_of(facts), platform("conf"))
    assert found.conf == DEFAULT
    assert shown.pasted.lines is None
    assert shown.summary[0].startswith("The defaults are best on this machine: ")
    assert json.loads(to_json(shown))["defaults_are_best"] is True


def test_time_that_is_left_is_explained_only_where_the_search_ended_by_itself(
    own_judge: RecordedJudge,
) -> None:
    facts = replace(facts_of(own_judge, is_flat=True), spent_s=300.0)
    found = answer(facts, own_judge, lambda _: own_judge)

    def is_explained(facts: TuningFacts, winner: Candidate) -> bool:
        told = replace(found, outcome=replace(found.outcome, winner=winner))
        said = tune_view(facts, told, asked_of(facts), platform("conf")).summary
        return any(text.startswith("45 min 00 s of the budget is left: there was nothing") for text in said)

    assert is_explained(facts, DEFAULT)
    assert not is_explained(facts, Candidate.of({"commit_delay": "100"})), "fresh servers refused that"
    assert not is_explained(replace(facts, notes=(f"{STOPPED} during step 3: the best so far.",)), DEFAULT)


@pytest.mark.parametrize(
    ("ratio", "noise", "limit", "words"),
    [
        (
            1.3,
            0.01,
            ("latency_ms_p99", 1.1),
            "not keep the limit of --no-worse (latency_ms_p99 at most 1.1",
        ),
        (1.05, 0.001, ("latency_ms_p99", 1.1), "allowed is at most 1.1 of the defaults'."),
        (1.05, 0.2, ("latency_ms_p99", 1.1), "of the defaults', and it is not proven to be within that."),
        (0.98, 0.001, ("tps", 0.95), "allowed is at least 0.95 of the defaults'."),
    ],
)
def test_a_second_metric_is_held_against_its_limit(
    view: TuneView, own_judge: RecordedJudge, ratio: float, noise: float, limit: tuple[str, float], words: str
) -> None:
    """Every second round is above, every other below, so that the mean is the ratio."""
    conf = view.answer.conf
    plan = replace(view.facts.plan, objective=replace(view.facts.plan.objective, limit=limit))
    measured = tuple(
        replace(
            trial,
            limit_value=10.0 * ratio * math.exp(noise * (-1) ** trial.round)
            if trial.candidate == conf
            else 10.0,
        )
        for trial in view.facts.measured
    )
    facts = replace(view.facts, plan=plan, measured=measured)
    found = answer(facts, own_judge, lambda _: own_judge)
    shown = tune_view(facts, found, view.asked, platform("conf"))
    said = " ".join(shown.summary)
    assert words in said
    assert ("not proven" in said) == ("not proven" in words)
    if ratio > limit[1] > 1:
        assert (found.conf, shown.pasted.lines) == (DEFAULT, None)
        assert "latency_ms_p99 with that configuration is 1.3" in said
    else:
        assert found.conf == conf
        assert f"{limit[0]} with what is advised is " in said


def test_what_measured_no_better_is_named_as_it_was_measured(
    view: TuneView, own_judge: RecordedJudge
) -> None:
    """The final step's gain is that of the short conf, not of the longer winner."""
    short = Candidate.of({"commit_delay": "100"})
    winner = Candidate.of({"commit_delay": "100", "wal_compression": "lz4"})
    outcome = replace(
        view.answer.outcome, advised=DEFAULT, defaults_are_best=True, short=short, winner=winner, gain=1.01
    )
    found = replace(view.answer, outcome=outcome, why_default="of the noise", conclusion=Conclusion.DEFAULTS)
    told = tune_view(view.facts, found, view.asked, platform("conf"))
    assert any(said.startswith("The best configuration tried, commit_delay=100, m") for said in told.summary)
    assert json.loads(to_json(told))["short"] == short.conf
    assert_valid("tune", json.loads(to_json(told)))
    # An answer that was kept before the short conf was.
    kept = json.loads(to_fact_json(KeptAnswer(found, view.asked, "conf")))
    del kept["answer"]["outcome"]["short"]
    earlier = from_json(KeptAnswer, json.dumps(kept))
    assert earlier.answer.outcome.short is None
    told = tune_view(view.facts, earlier.answer, view.asked, platform("conf"))
    assert any("tried, commit_delay=100, wal_compression=lz4, m" in said for said in told.summary)
    assert answer(view.facts, own_judge, lambda _: own_judge).outcome.short == view.answer.conf


def test_a_promise_that_is_broken_at_its_own_speed_is_said(view: TuneView, own_judge: RecordedJudge) -> None:
    broken = own_judge(DEFAULT)[1]
    assert broken == ()
    found = replace(view.answer, broken=(RuledOut(Limit.RECOVERY_TARGET, "up to 90 s", "60 s"),))
    told = tune_view(view.facts, found, view.asked, platform("conf")).summary
    assert any(sentence.startswith("DO NOT USE IT AS IT IS") for sentence in told)


def test_what_may_lose_commits_says_so_first(view: TuneView) -> None:
    found = replace(view.answer, durability=DurabilityClass.LAST_COMMITS)
    losing = replace(view.facts.plan.promises, may_lose=DurabilityClass.TABLE)
    allowed = replace(view.facts, plan=replace(view.facts.plan, promises=losing))
    told = tune_view(allowed, found, view.asked, platform("conf")).summary
    assert told[0] == "A crash may lose the last commits with what is advised, as was allowed."
    told = tune_view(view.facts, found, view.asked, platform("conf")).summary
    assert told[0] == (
        "A crash may lose the last commits with what is advised, MORE THAN WAS PROMISED (a crash loses "
        "nothing)."
    )


def test_a_recovery_that_was_slower_than_predicted_is_held_against_the_target(view: TuneView) -> None:
    plan = view.facts.plan
    for target_s, words in ((3600.0, "within 1 h 00 min"), (0.001, "MORE THAN THE PROMISED")):
        promises = replace(plan.promises, recovery_target_s=target_s)
        facts = replace(view.facts, plan=replace(plan, promises=promises))
        told = tune_view(facts, view.answer, view.asked, platform("conf")).summary
        assert words in " ".join(told)
    # A faster load has written more by then: what counts is its own speed.
    assert view.answer.expected_away_s == view.answer.prediction.recovery_s
    twice = replace(view.answer.prediction, recovery_s=2 * (view.answer.prediction.recovery_s or 0.0))
    fast = replace(view.answer, at_own_speed=twice)
    longest = longest_s(view.answer, view.asked.crashes)
    assert longest is not None
    assert longest_s(fast, view.asked.crashes) == pytest.approx(2 * longest)
    assert "advised, at its own speed" in terminal_of(
        tune_view(view.facts, fast, view.asked, platform("conf"))
    )


def test_over_hosts_the_report_names_the_host_on_which_it_is_worse(view: TuneView) -> None:
    """Three hosts gain 20 %, the fourth loses 20 % and is half as fast anyway."""
    name = candidate_name(view.answer.conf)
    variants = tuple(Variant(label, {}, durability=DurabilityClass.NONE) for label in ("default", name))
    asked = replace(plan(rounds=4), variants=variants)
    found = {}
    for host, tps, gain in (("ash", 990, 1.21), ("elm", 1000, 1.2), ("fir", 1010, 1.19), ("oak", 500, 0.8)):
        rows = [
            (round_number, variant, tps * (gain if variant == name else 1.0) * (1 + 0.002 * number))
            for round_number in range(1, 5)
            for number, variant in enumerate(("default", name), start=round_number)
        ]
        found[host] = [
            replace(trial(number, round_number=at, variant=variant), metrics={"tps": value})
            for number, (at, variant, value) in enumerate(rows, 1)
        ]
    study = over_hosts(asked, found, "tps")
    crashes = tuple(replace(crash, host="elm") for crash in view.asked.crashes)
    asked_for = replace(view.asked, hosts=study, crashes=crashes)
    told = tune_view(view.facts, view.answer, asked_for, platform("conf"))
    said = " ".join(told.summary)
    assert "Over 4 hosts: tps " in said
    assert "on one more host like these" in said
    assert "On oak IT IS WORSE than the defaults: 0.80" in said
    assert "On elm IT IS WORSE" not in said
    assert "Even with the defaults, these stand apart from the other hosts: oak." in said
    assert "On elm, killed " in said
    for text in (to_html(told), terminal_of(told)):
        assert "oak (apart)" in text
    data = json.loads(to_json(told))
    assert_valid("tune", data)
    assert [host["host"] for host in data["hosts"]["effects"][0]["hosts"]] == list(found)
    assert (
        from_json(KeptAnswer, to_fact_json(KeptAnswer(told.answer, told.asked, "conf"))).asked == told.asked
    )


def test_the_race_has_the_class_of_what_every_configuration_has(view: TuneView) -> None:
    kept = {"synchronous_commit": "off"}
    of_keep = replace(view.facts, plan=replace(view.facts.plan, keep=kept))
    for facts, base, durability in (
        (view.facts, None, DurabilityClass.NONE),
        (view.facts, kept, DurabilityClass.LAST_COMMITS),
        (of_keep, None, DurabilityClass.LAST_COMMITS),
    ):
        (table,) = [block for block in race_blocks(facts, base) if isinstance(block, Table)]
        assert {row[-1].durability for row in table.rows} == {durability}
