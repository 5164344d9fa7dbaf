"""The report of power cuts: every state is counted, shown and explained."""

from __future__ import annotations

import io
import json
from dataclasses import replace

from rich.console import Console

from tests.analysis.test_power_cut import cut, cut_plan, cut_trials, image
from tests.report.facts import make_facts
from walproof.facts import ImageState, PowerCut, Run, Throughput, Trial, TrialState
from walproof.report.blocks import Table
from walproof.report.html import to_html
from walproof.report.json import to_json
from walproof.report.markdown import to_markdown
from walproof.report.terminal import print_terminal
from walproof.report.view import build_view


def cut_run() -> tuple[Run, tuple[Trial, ...]]:
    plan = cut_plan()
    run = make_facts().run
    environment = replace(run.environment, facts={**run.environment.facts, "self_test": "all 4 as expected"})
    return replace(run, plan=plan, environment=environment), cut_trials(plan)


def test_each_form_says_what_survives() -> None:
    run, trials = cut_run()
    view = build_view(run, trials)
    # Markdown escapes what it would take for its own, HTML offers places to break a line.
    page, text = to_html(view).replace("<wbr>", ""), to_markdown(view).replace("\\", "")
    for said in (page, text):
        for expected in (
            "Survives a power cut?",
            "commits under synchronous_commit=off in 1 of 2 cuts: 5 at most",
            "before the cut (bound 600 ms); nothing else was lost or damaged in",
            "fsync=off: 2 of 2 images of power cuts failed (does not start: 1, holes: 1), in 1 of",
            "Power cuts lost or damaged nothing under full durability: in 4 images of 2 cuts or more each, "
            "too few cuts to say how often one would.",
            "because of holes",
            "all 4 as expected",
            "1 trial void or failed",
        ):
            assert expected in said, expected
        assert "transactions/s" not in said
    assert page.count("<svg") >= 2
    shown = io.StringIO()
    print_terminal(view, Console(width=100, file=shown))
    assert "◆ fsync=off" in shown.getvalue()
    assert max(map(len, shown.getvalue().splitlines())) <= 100


def test_more_cuts_not_more_images_make_it_surer() -> None:
    """Images of one cut share its moment: the bound is 3 over the cuts, in every part of the report."""
    (said,) = build_view(*cut_run()).what_would_help
    assert said == (
        "More rounds: where none of n cuts failed, less than 3/n of all cuts do, with 95 % confidence; "
        "more images of one cut prove no more."
    )


def test_machines_get_counts_and_bounds() -> None:
    run, trials = cut_run()
    document = json.loads(to_json(build_view(run, trials)))
    safe, off, _, fsync = document["power_cuts"]
    assert safe["counts"] == {
        state.value: {"clean": 3, "benign": 1}.get(state.value, 0) for state in ImageState
    }
    assert safe["failure_rate_most"] == 0.75
    assert (off["window_ms_median"], off["bound_ms"]) == (150.0, 600.0)
    assert (fsync["failed"], fsync["failure_rate_most"]) == (2, None)
    assert [summary["survives"] for summary in (safe, off, fsync)] == ["yes", "loses last commits", "no"]
    assert document["trials"][0]["cut"]["moment"] == "wal flush 812"


def test_a_missing_flush_is_named() -> None:
    run, trials = cut_run()
    first = replace(trials[0], cut=cut(image(1, ImageState.CLEAN), unflushed=("pg_xact/0000",)))
    page = to_html(build_view(run, (first, *trials[1:])))
    assert "files that the last two checkpoints should have flushed and did not" in page
    assert "pg_xact/0000" in page.replace("<wbr>", "")


def test_cuts_before_two_checkpoints_are_not_audited() -> None:
    run, trials = cut_run()
    assert "after the last two checkpoints before each of 6 cuts" in to_html(build_view(run, trials))

    def early(trial: Trial) -> Trial:
        return replace(trial, cut=replace(trial.cut, checkpoints=1)) if trial.cut is not None else trial

    one = to_html(build_view(run, (early(trials[0]), *trials[1:])))
    assert "after the last two checkpoints before each of 5 cuts" in one
    assert "no cut came after two checkpoints" in to_html(build_view(run, tuple(map(early, trials))))


def test_cuts_beside_throughput_are_a_section() -> None:
    facts = make_facts()
    plan = replace(facts.run.plan, kind=Throughput(PowerCut(1)))
    cut_trial = cut(image(1, ImageState.CLEAN))
    trials = tuple(replace(trial, cut=cut_trial) for trial in facts.trials)
    page = to_html(build_view(replace(facts.run, plan=plan), trials, facts.series))
    assert "Survives a power cut?" in page
    assert "How much throughput does each variant give" in page


def test_the_results_say_beside_each_ratio_what_survives() -> None:
    facts = make_facts()
    plan = replace(facts.run.plan, kind=Throughput(PowerCut(2)))
    sound = cut(image(1, ImageState.CLEAN), image(2, ImageState.BENIGN))
    cuts = {
        "fsync=off": cut(image(1, ImageState.NO_START), image(2, ImageState.CLEAN)),
        "synchronous_commit=off": cut(image(1, ImageState.LOST, 3, 100.0), image(2, ImageState.CLEAN)),
    }
    trials = tuple(
        replace(trial, cut=cuts.get(trial.variant, sound)) if trial.state is TrialState.DONE else trial
        for trial in facts.trials
    )
    view = build_view(replace(facts.run, plan=plan), trials, facts.series)
    (results,) = (section for section in view.sections if section.id == "results")
    first = next(block for block in results.blocks if isinstance(block, Table))
    titles = [column.title for column in first.columns]
    place = titles.index("survives a power cut")
    assert titles[place - 1] == "ratio to baseline"
    assert {row[0].text: row[place].text.replace("\N{NO-BREAK SPACE}", " ") for row in first.rows} == {
        **dict.fromkeys((variant.name for variant in plan.variants), "yes, 0 of 10; below 60 % of cuts"),
        "fsync=off": "no, 5 of 10",
        "synchronous_commit=off": "loses last commits, 5 of 10",
    }
    answer = view.answers[0]
    (lost,) = (sentence for sentence in answer.sentences if "newest acknowledged" in sentence)
    assert "in 5 of 5 cuts: 3 at most" in lost
    assert any(sentence.startswith("fsync=off: 5 of 10 images") for sentence in answer.sentences)
    shown = io.StringIO()
    print_terminal(view, Console(width=100, file=shown))
    assert max(map(len, shown.getvalue().splitlines())) <= 100
    for said in (shown.getvalue(), to_html(view).replace("<wbr>", ""), to_markdown(view)):
        assert "no, 5 of 10" in said
        assert "survives a power cut" in said
    without = build_view(facts.run, facts.trials, facts.series)
    assert "survives a power cut" not in to_markdown(without)


def test_nothing_yet_is_said_so() -> None:
    run, _ = cut_run()
    assert "there is no answer yet" in to_html(build_view(run, ()))


def test_an_emulated_disk_is_named_everywhere() -> None:
    facts = make_facts()
    environment = replace(
        facts.run.environment, facts={**facts.run.environment.facts, "emulated_device": "slow (flush 2 ms)"}
    )
    run = replace(facts.run, plan=replace(facts.run.plan, device="slow"), environment=environment)
    view = build_view(run, facts.trials, facts.series)
    assert "emulated disk slow (flush 2 ms)" in view.dateline
    figures = [
        block for section in view.sections for block in section.blocks if type(block).__name__ == "Figure"
    ]
    assert figures
    for figure in (*view.overview, *figures):
        assert "emulated: slow (flush 2 ms)" in figure.caption  # type: ignore[union-attr]
    apart = {"failures", "setup", "repeat"}
    tables = [
        (section.id, block)
        for section in view.sections
        for block in section.blocks
        if isinstance(block, Table)
    ]
    assert {id_ for id_, _ in tables} >= {"results", "published", "causes", "certainty", "setup"}
    for id_, table in tables:
        assert ("Emulated disk: slow (flush 2 ms)." in (table.note or "")) is (id_ not in apart), table.title
    real = build_view(facts.run, facts.trials, facts.series)
    assert "mulated disk" not in to_markdown(real)
    page = to_html(view)
    assert "The published machine, from this one" in page
    assert "predicted there" in page
