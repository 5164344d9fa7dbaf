"""What the view says, checked against the facts that it was made from."""

from __future__ import annotations

from dataclasses import replace
from statistics import median

from tests.analysis.facts import DEFAULT, INSTALL, OLDER, make_plan, make_trials
from tests.report.facts import Facts, durability, factorial_facts, make_facts, small_facts, two_installs_facts
from walproof.analysis.effect import Conclusion, Effect
from walproof.analysis.interval import Interval
from walproof.analysis.summary import analyse
from walproof.facts import TrialState, Variant
from walproof.report.answer import answers, how_sure
from walproof.report.blocks import Listing, Paragraph, Table
from walproof.report.cells import Cells
from walproof.report.layout import ReportView
from walproof.report.markdown import to_markdown
from walproof.report.numbers import number
from walproof.report.view import build_view, read_from
from walproof.settings.durability import DurabilityClass


def view_of(facts: Facts) -> ReportView:
    return build_view(facts.run, facts.trials, facts.series)


def tables(view: ReportView) -> dict[str, Table]:
    return {b.title: b for section in view.sections for b in section.blocks if isinstance(b, Table)}


def texts(table: Table, column: str) -> dict[str, str]:
    """Variant -> text of one column."""
    titles = [c.title for c in table.columns]
    name, value = titles.index("variant"), titles.index(column)
    return {row[name].text: row[value].text for row in table.rows}


def test_main_table_holds_medians_of_finished_trials() -> None:
    facts = durability()
    found = tables(view_of(facts))["scale 50"]
    for variant in facts.run.plan.variants:
        of_cell = [t for t in facts.trials if (t.workload, t.variant) == ("scale 50", variant.name)]
        done = [t for t in of_cell if t.state is TrialState.DONE]
        assert texts(found, "tps")[variant.name] == number(median(t.metrics["tps"] for t in done))
        assert texts(found, "p99 ms")[variant.name] == number(
            median(t.metrics["latency_ms_p99"] for t in done)
        )
        assert texts(found, "durability class")[variant.name] == variant.durability.value
    assert texts(found, "trials")["pgtune"] == "3 of 5"
    assert found.note is not None
    assert "2 of 35 trials failed and are left out" in found.note


def test_a_budget_that_ended_the_run_is_named() -> None:
    """A run for +-5 % ended in its pilot, and nothing said that the budget had ended it."""

    def extent(rounds: int, **stop: float | None) -> str:
        facts = small_facts(rounds)
        plan = replace(facts.run.plan, **{"rounds": 50, "budget_s": 40.0, **stop})  # type: ignore[arg-type]
        return view_of(replace(facts, run=replace(facts.run, plan=plan))).how_sure[0]

    assert extent(1, half_width=0.05) == (
        "3 trials in 1 round: the budget of 40 s ended them in the pilot of 3, too early to know every ratio "
        "within ± 5.0 %."
    )
    assert extent(2).endswith("in 2 rounds: the budget of 40 s ended them.")
    assert extent(3, half_width=0.05).endswith("in 3 rounds.")
    assert extent(2, budget_s=None).endswith("in 2 rounds.")


def test_a_ratio_of_which_next_to_nothing_is_known_is_no_absence_of_a_difference() -> None:
    """Tables called 0.01x to 59x "no measurable difference", and the answer of the same page "not known"."""
    facts = small_facts(3)
    noisy = tuple(
        replace(trial, metrics={**trial.metrics, "tps": 1000.0 * 8 ** (trial.round - 2)})
        if trial.variant == "fsync=off"
        else replace(trial, metrics={**trial.metrics, "tps": 1000.0})
        for trial in facts.trials
    )
    found = tables(view_of(replace(facts, trials=noisy)))
    assert texts(found["How well each ratio is known"], "throughput is") == {
        "fsync=off": "not known yet",
        "synchronous_commit=off": "no measurable difference",
    }
    ratios = texts(found["scale 1"], "ratio to baseline")
    assert "=" not in ratios["fsync=off"]
    assert ratios["synchronous_commit=off"].endswith(" =")


def test_ratio_is_the_analysis_effect_and_marks_no_difference() -> None:
    view = view_of(durability())
    effect = view.analysis.effect("18.3", "scale 1", "fsync=off")
    assert effect is not None
    assert effect.ratio is not None
    shown = texts(tables(view)["scale 1"], "ratio to baseline")
    assert shown["default"] == "baseline"
    assert shown["fsync=off"].startswith(f"{effect.ratio:.1f}x (")
    assert shown["pgtune"].endswith(" =")
    assert not shown["fsync=off"].endswith(" =")


def test_every_table_of_several_variants_names_the_durability_class() -> None:
    for facts in (durability(), factorial_facts(), two_installs_facts()):
        found = tables(view_of(facts))
        with_variants = [t for t in found.values() if any(c.title == "variant" for c in t.columns)]
        assert len(with_variants) >= 5
        for table in with_variants:
            at = [c.title for c in table.columns].index("durability class")
            assert all(row[at].durability is not None for row in table.rows), table.title


def test_rows_are_as_wide_as_their_columns() -> None:
    for facts in (durability(), factorial_facts(), two_installs_facts(), make_facts(1), make_facts(0)):
        for table in tables(view_of(facts)).values():
            assert all(len(row) == len(table.columns) for row in table.rows), table.title


def test_answer_names_the_best_of_each_class() -> None:
    answer = view_of(durability()).answers[0]
    assert answer.title == "scale 1"
    assert answer.sentences[0].startswith(
        "No variant that is as safe as default is measurably faster; at most "
    )
    assert " fits what was measured (" in answer.sentences[0]
    assert answer.sentences[1].startswith("synchronous_commit=off gives ")
    assert answer.sentences[1].endswith(", and may lose last commits.")
    # fsync=off measured a little more, within the other's interval: no reason to take its risk.
    assert answer.sentences[2] == "No variant that may corrupt is clearly faster than that."


def test_a_gain_that_wide_intervals_may_hide_is_no_denial() -> None:
    facts = small_facts()
    analysis = analyse(facts.run.plan, facts.trials)
    for high, said in (
        (0.99, "No variant that may lose last commits is measurably faster."),
        (1.04, "No variant that may lose last commits is measurably faster; "
               "at most 1.04x fits what was measured (synchronous_commit=off)."),
        (1.61, "Not known yet whether a variant that may lose last commits is faster: "
               "up to 1.61x fits what was measured (synchronous_commit=off)."),
    ):  # fmt: skip
        flat = tuple(
            replace(effect, ratio=0.9, interval=Interval(0.7, reach, 0.95, "t"),
                    conclusion=Conclusion.LOWER if reach < 1 else Conclusion.NO_DIFFERENCE)
            for effect in analysis.effects
            if (reach := high if effect.variant == "synchronous_commit=off" else 0.99)
        )  # fmt: skip
        view = answers(Cells(facts.run.plan, facts.trials), replace(analysis, effects=flat))
        assert view[0].sentences[0] == said


def test_what_is_not_known_of_several_classes_is_one_sentence() -> None:
    facts = durability()
    analysis = analyse(facts.run.plan, facts.trials)
    wide = tuple(
        replace(effect, ratio=1.1, interval=Interval(0.7, 1.5 + at / 10, 0.95, "t"),
                conclusion=Conclusion.NO_DIFFERENCE)
        for at, effect in enumerate(analysis.effects)
    )  # fmt: skip
    (answer, *_) = answers(Cells(facts.run.plan, facts.trials), replace(analysis, effects=wide))
    (sentence,) = answer.sentences
    assert sentence.startswith(
        "Not known yet whether a variant is faster: what was measured leaves room for up to 1.60x for "
    )
    assert ", which is as safe as default; " in sentence
    assert sentence.endswith(", which may corrupt.")


def test_a_gain_that_the_other_comparisons_make_doubtful_is_no_denial() -> None:
    facts = small_facts()
    analysis = analyse(facts.run.plan, facts.trials)
    interval = Interval(1.14, 1.85, 0.95, "t")
    doubtful = tuple(
        replace(effect, ratio=1.45, interval=interval, conclusion=Conclusion.IN_DOUBT, comparisons=12)
        if effect.variant == "synchronous_commit=off"
        else replace(effect, conclusion=Conclusion.NO_DIFFERENCE)
        for effect in analysis.effects
    )
    (answer, *_) = answers(Cells(facts.run.plan, facts.trials), replace(analysis, effects=doubtful))
    assert (
        "synchronous_commit=off is in doubt: 1.45x (1.14 to 1.85) the throughput of default, "
        "because 12 comparisons were made. synchronous_commit=off may lose last commits."
    ) in answer.sentences
    assert not any("that may lose last commits is" in sentence for sentence in answer.sentences)


def test_what_is_the_same_as_the_baseline_is_neither_faster_nor_slower() -> None:
    plan = replace(make_plan((DEFAULT, Variant("twin", {}), Variant("other", {}))), rounds=6)
    trials = make_trials(plan, 6, lambda cell: 90.0 if cell.variant == "twin" else 100.0, noise=0.001)
    run = replace(durability().run, plan=plan)
    assert "Measurably slower than default: twin" in to_markdown(build_view(run, trials))
    plan = replace(plan, same=("twin",))
    found = build_view(replace(run, plan=plan), trials)
    page = to_markdown(found)
    assert "lower" not in page
    assert "slower than default" not in page
    assert "Nothing that acts differs from default: 0.90" in page
    assert [(e.conclusion, e.comparisons) for e in found.analysis.effects] == [
        (Conclusion.SAME, 1),
        (Conclusion.NO_DIFFERENCE, 1),
    ]
    (warning,) = [line for line in found.how_sure if line.startswith("Chance makes differences")]
    assert "twin" in warning
    assert found.what_would_help
    assert not any(
        "twin" in line for line in (*found.what_would_help, *found.how_sure) if line is not warning
    )
    plan = replace(make_plan((DEFAULT, Variant("twin", {}))), same=("twin",))
    trials = make_trials(plan, 3, lambda cell: 100.0, noise=0.001)
    found = build_view(replace(run, plan=plan), trials)
    (answer,) = found.answers
    assert not found.what_would_help
    assert not any(line.startswith(("Intervals are", "No variant has")) for line in found.how_sure)
    assert answer.sentences == ("Nothing is compared: twin and default differ in nothing that acts.",)


def test_published_figures_stand_beside_ours() -> None:
    found = tables(view_of(durability()))
    assert "Throughput: scale 50" not in found
    table = found["Throughput: scale 1"]
    assert texts(table, "tps published")["default"] == "582"
    assert texts(table, "ratio published")["fsync=off"] == "6.06x"
    assert texts(table, "ratio published")["wal_level=minimal"] == "-"
    assert texts(table, "published ratio is")["pgtune"] == "within our interval"
    assert texts(table, "published ratio is")["default"] == "-"
    assert texts(found["Latency: scale 1"], "average ms published")["default"] == "85.8"


def test_lock_paragraph_states_both_times_and_the_shares() -> None:
    view = view_of(durability())
    said = [b.text for s in view.sections for b in s.blocks if isinstance(b, Paragraph) and b.terminal]
    assert len(said) == 1
    for part in ("tps = 1 / (L + c)", "L, the flush that a commit waits for, is 1.3", "is the lock and"):
        assert part in said[0]


def test_failures_show_reason_trials_and_log() -> None:
    facts = durability()
    view = view_of(facts)
    numbers = [t.number for t in facts.trials if t.state is TrialState.FAILED]
    table = tables(view)["Failed trials"]
    assert texts(table, "trials")["pgtune"] == ", ".join(map(str, numbers))
    assert "shared memory" in texts(table, "reason")["pgtune"]
    logs = [
        b
        for s in view.sections
        for b in s.blocks
        if isinstance(b, Listing) and b.title.startswith("Server log")
    ]
    assert len(logs) == len(numbers)
    assert "FATAL" in logs[0].text


def test_missing_metrics_are_unknown_not_zero() -> None:
    facts = durability()
    bare = tuple(
        replace(t, metrics={"tps": t.metrics["tps"]} if "tps" in t.metrics else {}) for t in facts.trials
    )
    view = build_view(facts.run, bare)
    found = tables(view)
    assert set(texts(found["scale 1"], "p99 ms").values()) == {"-"}
    assert set(texts(found["Cost and limit: scale 1"], "top wait").values()) == {"-"}
    assert "What active backends wait for" not in found
    assert "The disk" not in found
    assert "Checkpoints in the windows" not in found


def test_column_that_nothing_observed_is_left_out() -> None:
    titles = [column.title for column in tables(view_of(durability()))["The disk"].columns]
    assert "writes/s" in titles
    assert "ms per flush" not in titles


def test_run_without_trials_says_so() -> None:
    view = view_of(make_facts(0, planned=5))
    assert view.overview == ()
    assert "no answer yet" in view.answers[0].sentences[0]
    assert "not finished" in view.how_sure[0]
    assert view.next_commands[0].command == "walproof run durability --duration 12s"


def test_the_next_command_names_the_place_of_the_results() -> None:
    facts = small_facts(2)
    command = ("walproof", "run", "small", "--out", "o u t", "--store", "own.sqlite")
    view = build_view(replace(facts.run, command=command), facts.trials)
    assert view.next_commands[-1].command == (
        f"walproof report {facts.run.id} --open --out 'o u t' --store own.sqlite"
    )


def test_another_reader_opens_the_report_where_he_read_it() -> None:
    facts = small_facts(2)
    command = ("walproof", "run", "small", "--out", "out1", "--store", "own.sqlite")
    unfinished = replace(facts.run, command=command, finished_at=None)
    view = build_view(unfinished, facts.trials)
    read = read_from(view, ["--store", "postgresql:///?service=factsro"])
    assert read.next_commands[0] == view.next_commands[0], "to finish the run is up to who measured it"
    assert read.next_commands[-1].command == (
        f"walproof report {facts.run.id} --open --store 'postgresql:///?service=factsro'"
    )
    assert read_from(view, []).next_commands[-1].command == f"walproof report {facts.run.id} --open"


def test_run_of_failed_trials_only_says_so() -> None:
    facts = small_facts(2)
    dead = tuple(
        replace(t, state=TrialState.FAILED, metrics={}, reason="did not start") for t in facts.trials
    )
    view = build_view(facts.run, dead)
    assert "no answer yet" in view.answers[0].sentences[0]
    assert "6 of 6 trials failed and are left out." in view.how_sure
    assert view.overview == ()


def test_one_round_has_no_interval_and_says_so() -> None:
    view = view_of(small_facts(1))
    assert "One round only" in view.answers[0].sentences[0]
    assert any("no ratio has an interval" in line for line in view.how_sure)
    assert view.what_would_help == ("A second round: one round says nothing about the spread.",)
    shown = texts(tables(view)["scale 1"], "ratio to baseline")
    assert "(" not in shown["fsync=off"]
    assert shown["fsync=off"].endswith("x")


def test_a_variant_of_one_round_is_not_called_slow_nor_known() -> None:
    """Beside others of several rounds it was not faster, whatever it measured, and every ratio was known."""
    facts = small_facts()
    trials = tuple(trial for trial in facts.trials if trial.variant != "fsync=off" or trial.round == 1)
    view = build_view(facts.run, trials)
    gain, single = view.answers[0].sentences
    assert gain.startswith("synchronous_commit=off gives ")
    assert single.startswith("One round only, so nothing is certain: fsync=off (")
    assert single.endswith("x), and may corrupt.")
    first, *lines = view.what_would_help
    assert first == "A second round of fsync=off, scale 1: one round says nothing about the spread"
    assert all(line.startswith("Every other ratio within ± ") for line in lines)
    facts = durability()
    analysis = analyse(facts.run.plan, facts.trials)
    one = tuple(
        replace(effect, ratio=3.0, interval=None, conclusion=Conclusion.TOO_FEW)
        if effect.variant == "pgtune"
        else effect
        for effect in analysis.effects
    )
    sentences = answers(Cells(facts.run.plan, facts.trials), replace(analysis, effects=one))[0].sentences
    assert sentences[0] == "One round only, so nothing is certain: pgtune (3.00x)."
    assert sentences[1].startswith("No other variant that is as safe as default is measurably faster")


def test_interrupted_run_tells_how_to_go_on() -> None:
    facts = make_facts(2, planned=5)
    view = build_view(facts.run, facts.trials[:-3])
    assert "25 trials in 2 rounds so far, of 70 trials in 5 rounds" in view.how_sure[0]
    assert view.next_commands[0].purpose == "finish the run"


def test_finished_run_names_the_rounds_that_would_help() -> None:
    lines = view_of(durability()).what_would_help
    assert lines[0].startswith("Every ratio within ± 1.0 %: ")
    assert "more rounds, about" in lines[0]


def test_spread_that_rounds_cannot_mend_is_called_so() -> None:
    """Two rounds whose ratios differ tenfold: thousands of rounds would be no advice."""
    facts = small_facts(2)
    wild = tuple(
        replace(
            t, metrics={"tps": t.metrics["tps"] * (10 if (t.round, t.variant) == (2, "fsync=off") else 1)}
        )
        for t in facts.trials
    )
    lines = build_view(facts.run, wild).what_would_help
    assert "longer windows or a quieter machine" in lines[0]
    assert "about" not in lines[0]


def test_factors_have_their_section() -> None:
    view = view_of(factorial_facts())
    section = next(s for s in view.sections if s.id == "factors")
    table = next(b for b in section.blocks if isinstance(b, Table))
    assert {row[0].text for row in table.rows} == {"fsync", "wal_compression", "fsync * wal_compression"}
    assert not any(s.id == "factors" for s in view_of(durability()).sections)


def test_installs_are_compared() -> None:
    view = view_of(two_installs_facts())
    table = tables(view)["Every install against PostgreSQL 15.14"]
    assert [row[0].text for row in table.rows] == ["18.3"]
    assert view.overview[0].id == "installs"
    assert "PostgreSQL 15.14" in view.answers[1].sentences[0]


def test_installs_after_one_round_or_in_doubt_say_so() -> None:
    facts = two_installs_facts()
    first = tuple(trial for trial in facts.trials if trial.round == 1)
    sentence = build_view(facts.run, first).answers[1].sentences[0]
    assert sentence.startswith("One round only, so nothing is certain: ")
    analysis = analyse(facts.run.plan, facts.trials)
    doubtful = tuple(
        replace(effect, conclusion=Conclusion.IN_DOUBT, comparisons=7) for effect in analysis.install_effects
    )
    found = answers(Cells(facts.run.plan, facts.trials), replace(analysis, install_effects=doubtful))
    assert found[1].sentences[0].startswith("In doubt: ")
    assert found[1].sentences[0].endswith("PostgreSQL 15.14, because 7 comparisons were made.")


def _in_doubt(family: tuple[Effect, ...]) -> tuple[Effect, ...]:
    return tuple(replace(effect, conclusion=Conclusion.IN_DOUBT) for effect in family)


def test_installs_are_a_family_of_their_own() -> None:
    """The note spoke for all ratios of the table, and counted those to the baseline alone."""
    plan = make_plan((DEFAULT, Variant("a", {}), Variant("b", {})), installs=(OLDER, INSTALL))
    run = replace(durability().run, plan=plan)
    view = build_view(run, make_trials(plan, 4, lambda cell: 100.0))
    note = tables(view)["How well each ratio is known"].note or ""
    assert (
        "for all 4 comparisons with a baseline together, and apart from these for all 3 of installs" in note
    )
    doubtful = replace(
        view.analysis, effects=_in_doubt(view.analysis.effects),
        install_effects=_in_doubt(view.analysis.install_effects),
    )  # fmt: skip
    said = [line for line in how_sure(run, doubtful, ()) if "by chance" in line]
    assert [line[:24] for line in said] == ["Of 4 comparisons some lo", "Of 3 ratios of installs "]


def test_section_ids_are_unique_and_titles_plain() -> None:
    view = view_of(durability())
    ids = [section.id for section in view.sections]
    assert len(set(ids)) == len(ids)
    assert ids == ["results", "published", "causes", "checkpoints", "certainty", "setup", "repeat"]


def test_a_verdict_has_its_class_once() -> None:
    found = [verdict for group in view_of(durability()).verdicts for verdict in group.verdicts]
    risky = [verdict for verdict in found if verdict.durability is DurabilityClass.CORRUPT]
    assert risky
    for verdict in risky:
        assert not any(sentence.lower().startswith("may corrupt") for sentence in verdict.sentences)


def test_notes_of_the_plan_are_part_of_how_sure_it_is() -> None:
    facts = small_facts()
    said = "left out: a.conf, io_method = worker: PostgreSQL 13.7 would not start with this file."
    run = replace(facts.run, plan=replace(facts.run.plan, notes=(said,)))
    view = build_view(run, facts.trials, facts.series)
    assert view.how_sure[-1] == said
    assert "- left out: a.conf, io\\_method = worker" in to_markdown(view).partition("## Verdicts")[0]
