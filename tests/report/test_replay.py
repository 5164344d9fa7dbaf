"""Reports of replay and of failover: what is compared, what is named largest, what was lost."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.report.facts import NONE, factorial_facts, make_facts
from walproof.analysis.interval import Interval
from walproof.analysis.summary import analyse
from walproof.facts import Cell, Failover, Replay, Trial, TrialState, Variant
from walproof.report.cells import Cells
from walproof.report.json import to_json
from walproof.report.kinds.replay.tables import REPLAY_METRIC, replay_answers
from walproof.report.markdown import to_markdown
from walproof.report.view import build_view

WOBBLE = (0.99, 1.0, 1.01, 1.02, 0.98)


def _trial(number: int, round: int, cell: Cell, metrics: dict[str, float]) -> Trial:
    return Trial(number, round, *cell, TrialState.DONE, 0.0, 1.0, 0.0, 1.0, metrics, {})


def _replay_trials(costs: dict[str, float], plan_cells: tuple[Cell, ...]) -> tuple[Trial, ...]:
    trials: list[Trial] = []
    for round, wobble in enumerate(WOBBLE, start=1):
        for cell in plan_cells:
            us = costs[cell[2]] * wobble * (1 + 0.001 * len(trials) / 100)
            metrics = {
                "startup_us_per_row": us, "startup_us_per_record": us / 2, "rows_per_s_max": 1e6 / us,
                "startup_cpu_s": us / 10, "run_queue_s": us / (5 if round == 1 else 100),
                "replay_mb_per_cpu_s": 100.0, "wal_bytes_per_row": 250.0, "fpi_per_row": 0.01,
            }  # fmt: skip
            if round == 1:
                metrics["syscalls_per_record"], metrics["lseek_per_record"] = 1.14, 1.12
            trials.append(_trial(len(trials) + 1, round, cell, metrics))
    return tuple(trials)


def test_the_largest_factor_of_replay_is_named() -> None:
    facts = factorial_facts()
    plan = replace(facts.run.plan, kind=Replay(1000, 1000, 500), workloads=facts.run.plan.workloads[:1])
    costs = {
        variant.name: 2.0
        * (1.5 if variant.levels["wal_compression"] == "pglz" else 1.0)
        * (1.1 if variant.levels["fsync"] == "off" else 1.0)
        for variant in plan.variants
    }
    view = build_view(replace(facts.run, plan=plan), _replay_trials(costs, plan.cells))
    said = " ".join(sentence for answer in view.answers for sentence in answer.sentences)
    assert "one core replays" in said
    assert "The largest factor is wal_compression=pglz (against off): 1.5" in said
    assert any("In 4 trials of 20 the startup process waited for a core" in line for line in view.how_sure)
    text = to_markdown(view).replace("\\", "")
    assert "effect on replay CPU a row" in text
    assert "System calls a record" in text
    assert "effect on tps" not in text
    assert json.loads(to_json(view))["analysis"]["metric"] == "startup_us_per_row"


@pytest.mark.parametrize(
    ("together", "said"),
    [(0.3, "No interaction makes a measurable difference."), (0.04, "The largest interaction is")],
)
def test_the_largest_of_many_terms_is_judged_with_all_counted(together: float, said: str) -> None:
    """Of ten interactions that are none, one looked like one in 40 % of the runs, and was named."""
    facts = factorial_facts()
    plan = replace(facts.run.plan, kind=Replay(1000, 1000, 500), workloads=facts.run.plan.workloads[:1])
    trials = _replay_trials({variant.name: 2.0 for variant in plan.variants}, plan.cells)
    analysis = analyse(plan, trials, REPLAY_METRIC)
    (model,) = analysis.factors
    terms = tuple(
        replace(term, ratio=1.01, interval=Interval(1.001, 1.02, 0.95, "t"), p=0.02, p_holm=together)
        for term in model.terms
    )
    (answer,) = replay_answers(Cells(plan, trials), replace(analysis, factors=(replace(model, terms=terms),)))
    assert any(sentence.startswith(said) for sentence in answer.sentences)


def test_one_round_says_nothing_of_factors() -> None:
    facts = factorial_facts()
    plan = replace(facts.run.plan, kind=Replay(1000, 1000, 500), workloads=facts.run.plan.workloads[:1])
    every = _replay_trials({variant.name: 2.0 for variant in plan.variants}, plan.cells)
    view = build_view(replace(facts.run, plan=plan), tuple(trial for trial in every if trial.round == 1))
    said = " ".join(sentence for answer in view.answers for sentence in answer.sentences)
    assert "Not known yet what each factor does: too few trials to judge the spread by." in said
    assert "measurable difference" not in said


def test_what_is_not_known_of_replay_is_not_denied() -> None:
    """A ratio of 0.4x to 2.5x is "not known yet" in the table: the sentence above it says no other."""
    facts = factorial_facts()
    plan = replace(facts.run.plan, kind=Replay(1000, 1000, 500), workloads=facts.run.plan.workloads[:1])
    every = _replay_trials({variant.name: 2.0 for variant in plan.variants}, plan.cells)

    def said(trials: Sequence[Trial], factor: float) -> str:
        """What is said of trials that differ by powers of the factor, in each round otherwise."""
        differing = [
            replace(trial, metrics={**trial.metrics, REPLAY_METRIC: factor ** (trial.number % 3)})
            for trial in trials
        ]
        view = build_view(replace(facts.run, plan=plan), differing)
        return " ".join(sentence for answer in view.answers for sentence in answer.sentences)

    little = said(every, 1.001)
    assert "No variant differs measurably from the baseline." in little
    assert "No factor makes a measurable difference." in little
    much = said(every, 3.0)
    assert "measurabl" not in much
    assert "Whether a variant differs from the baseline is not known yet: 0." in much
    assert "Whether any factor makes a difference is not known yet: 0." in much
    first = said([trial for trial in every if trial.round == 1], 3.0)
    assert "Whether a variant differs from the baseline is not known from one round." in first


def test_what_the_kernels_audit_built_is_told() -> None:
    facts = factorial_facts()
    plan = replace(facts.run.plan, kind=Replay(1000, 1000, 500), workloads=facts.run.plan.workloads[:1])
    trials = _replay_trials({variant.name: 2.0 for variant in plan.variants}, plan.cells)
    audited, quiet = plan.variants[1].name, plan.variants[2].name
    built = {audited: 3.4, quiet: 0.0}
    trials = tuple(
        replace(trial, metrics={**trial.metrics, "audit_records_per_record": built[trial.variant]})
        if trial.variant in built else trial
        for trial in trials
    )  # fmt: skip
    view = build_view(replace(facts.run, plan=plan), trials)
    said = " ".join(sentence for answer in view.answers for sentence in answer.sentences)
    assert f"With {audited} the kernel built 3.40 audit records for each record of WAL." in said
    assert said.count("audit records") == len(plan.installs)


def test_what_a_failover_lost_is_summed_and_its_worst_shown() -> None:
    facts = make_facts()
    plan = replace(
        facts.run.plan,
        kind=Failover(5.0, 4),
        workloads=facts.run.plan.workloads[:1],
        variants=tuple(
            Variant(level, {"synchronous_commit": level}, durability=NONE) for level in ("on", "local")
        ),
        baseline="on",
        references=(),
    )
    trials: list[Trial] = []
    for round, lost in enumerate((0.0, 7.0, 40.0), start=1):
        for cell in plan.cells:
            metrics = {
                "tps": 100.0 + round, "latency_ms_p50": 2.0, "latency_ms_p99": 9.0,
                "commits_acknowledged": 500.0, "commits_lost": lost if cell[2] == "local" else 0.0,
            }  # fmt: skip
            if metrics["commits_lost"]:
                metrics["loss_window_ms"] = 3 * lost
            trials.append(_trial(len(trials) + 1, round, cell, metrics))
    view = build_view(replace(facts.run, plan=plan), trials)
    # No probe runs beside a failover: the table would be dashes only.
    assert "Cost and limit" not in to_markdown(view)
    (section,) = [section for section in view.sections if section.id == "failover"]
    (table,) = section.blocks
    rows = [[cell.text for cell in row] for row in table.rows]  # type: ignore[union-attr]
    assert [row[0] for row in rows] == ["on", "local"]
    for answer in view.answers:
        assert answer.sentences[:2] == (
            "No acknowledged commit was lost under on in 3 failovers (1,500 commits).",
            "local lost 47 of 1,500 acknowledged commits, in 2 of 3 failovers.",
        )
    safe = [trial for trial in trials if trial.variant == "on"]
    (answer, *_) = build_view(replace(facts.run, plan=plan), safe).answers
    assert answer.sentences[0] == "No acknowledged commit was lost in 3 failovers (1,500 commits)."
    assert rows[0][2:8] == ["3", "0", "1500", "0", "0", "-"]
    assert rows[1][2:8] == ["3", "2", "1500", "47.0", "40.0", "120"]
