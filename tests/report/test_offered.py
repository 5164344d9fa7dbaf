"""What is said of a load with an offered rate, and of transactions that failed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import pytest

from tests.report.facts import Facts, durability
from tests.report.test_html import Page
from tests.report.test_view import view_of
from walproof.analysis.drift import Steadiness
from walproof.errors import StudyError
from walproof.lab.tune.conduct import _require_rate
from walproof.report.blocks import Table
from walproof.report.html import to_html

LATENCY = {"default": 3.0, "synchronous_commit=off": 2.0, "pgtune": 3.0}
"""Mean latency in ms; of all others 9 ms."""


def at_rate(rate: float, tps: Mapping[str, float], **metrics: float) -> Facts:
    """The durability study with an offered rate."""
    facts = durability()
    workloads = tuple(replace(workload, rate_tps=rate) for workload in facts.run.plan.workloads)
    trials = tuple(
        replace(
            trial,
            metrics={
                **trial.metrics, **metrics, "tps": tps.get(trial.variant, rate), "transactions": 10 * rate,
                "latency_ms_avg": LATENCY.get(trial.variant, 9.0) * math.exp(0.01 * (trial.round % 3)),
            },
        )
        for trial in facts.trials
    )  # fmt: skip
    return replace(
        facts, run=replace(facts.run, plan=replace(facts.run.plan, workloads=workloads)), trials=trials
    )


def first_answer(facts: Facts) -> tuple[str, ...]:
    return view_of(facts).answers[0].sentences


def test_the_answer_is_of_latency() -> None:
    (said,) = first_answer(at_rate(300.0, {}))
    assert said.startswith(
        "At an offered 300 transactions/s, mean latency relative to default: measurably shorter: "
        "synchronous_commit=off 0.67x"
    )
    assert "; measurably longer: wal_level=minimal 3.00x" in said
    assert said.endswith("; no measurable difference: pgtune 1.00x (1.00 to 1.00).")


def test_an_interval_that_says_nothing_is_not_called_no_difference() -> None:
    facts = at_rate(300.0, {})
    spread = tuple(
        replace(
            trial,
            metrics={
                **trial.metrics,
                "latency_ms_avg": trial.metrics["latency_ms_avg"] * 9 ** (trial.round % 2),
            },
        )
        if trial.variant == "pgtune"
        else trial
        for trial in facts.trials
    )
    (said,) = first_answer(replace(facts, trials=spread))
    assert "; not known yet: pgtune 0." in said
    assert "no measurable difference" not in said


def test_charts_verdicts_and_intervals_are_of_latency() -> None:
    view = view_of(at_rate(300.0, {}))
    assert view.analysis.metric == "latency_ms_avg"
    effect = next(one for one in view.analysis.effects if one.variant == "synchronous_commit=off")
    assert effect.ratio == pytest.approx(2 / 3)
    (overview,) = view.overview
    assert overview.title == "How long does a transaction take under each variant, relative to default?"
    verdict = next(finding.sentence for finding in view.findings if finding.variant == "pgtune")
    assert verdict.startswith("no measurable difference (1.00x")
    tables = [block for section in view.sections for block in section.blocks if isinstance(block, Table)]
    titles = {column.title for table in tables for column in table.columns}
    assert "ratio of mean latency" in titles
    assert "ratio to baseline" not in titles


def test_the_page_has_the_verdicts_of_the_other_forms() -> None:
    view = view_of(at_rate(300.0, {}))
    text = to_html(view)
    assert '<a href="#verdicts">' in text
    assert '<section id="verdicts">' in text
    page = Page(text)
    said = [verdict.sentences[0] for group in view.verdicts for verdict in group.verdicts]
    assert len(said) > len(view.run.plan.variants)
    assert [sentence for sentence in said if sentence not in page.text] == []


def test_a_machine_whose_latencies_grow_became_slower() -> None:
    facts = at_rate(300.0, {})
    growing = tuple(
        replace(
            trial,
            metrics={
                **trial.metrics,
                "latency_ms_avg": trial.metrics["latency_ms_avg"] * 1.02**trial.number,
            },
        )
        for trial in facts.trials
    )
    found = view_of(replace(facts, trials=growing)).analysis.drift
    assert found.steadiness is Steadiness.SLOWING
    assert found.trend is not None
    assert found.trend > 1


def test_a_rate_that_was_not_reached_comes_first() -> None:
    (missed,) = first_answer(at_rate(300.0, {"default": 120.0, "fsync=off": 150.0}))
    assert missed.startswith(
        "THE OFFERED RATE WAS NOT REACHED: of 300 transactions/s, default 120, fsync=off 150. What is"
    )
    missed, of_latency = first_answer(at_rate(300.0, {"fsync=off": 150.0}))
    assert missed.startswith("Not all kept up with the offered rate: of 300 transactions/s, fsync=off 150. ")
    assert of_latency.startswith("At an offered 300 transactions/s, mean latency relative to default: ")


def test_failed_transactions_are_the_first_doubt() -> None:
    facts = at_rate(300.0, {})
    assert "Transactions failed" not in view_of(facts).how_sure[0]
    failing = replace(
        facts,
        trials=tuple(
            replace(trial, metrics={**trial.metrics, "failed_transactions": 1000.0 / 3})
            if trial.variant == "fsync=off"
            else trial
            for trial in facts.trials
        ),
    )
    said = view_of(failing).how_sure[0]
    assert said.startswith("Transactions failed (deadlocks, serialization failures): 10.0 % with fsync=off, ")


def test_a_tuning_ends_where_the_defaults_do_not_reach_the_rate() -> None:
    plan = at_rate(300.0, {}).run.plan
    plan = replace(plan, workloads=plan.workloads[:1])
    _require_rate(plan, {"tps": 290.0})
    with pytest.raises(StudyError) as caught:
        _require_rate(plan, {"tps": 100.0})
    assert caught.value.message == "the defaults reach 100 of the 300 transactions/s that are offered"
    assert caught.value.hint == "Offer less, such as --rate 70."
