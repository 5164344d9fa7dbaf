"""What a report says of slices: designs, place, what is left to the next slice; nothing of it elsewhere."""

from __future__ import annotations

import io
import json
import random
import re
from dataclasses import replace

import pytest
from rich.console import Console

from tests.analysis.facts import DEFAULT, INSTALL, OLDER, fail, make_plan
from tests.analysis.slices import start, taking_turns, toggled_plan
from tests.facts.plans import ENVIRONMENT
from tests.report.facts import durability
from walproof.analysis.carry_over import CarryOver
from walproof.analysis.interval import Interval
from walproof.facts import Design, Placing, Plan, Run, Slice, Trial, TrialState
from walproof.report.blocks import Table
from walproof.report.figures.figure import Figure
from walproof.report.figures.ratios import RatioData
from walproof.report.html import to_html
from walproof.report.json import to_json
from walproof.report.kinds.registry import report_kind
from walproof.report.kinds.throughput.course import CourseData, CoursePanel, CoursePoint
from walproof.report.layout import ReportView
from walproof.report.markdown import to_markdown
from walproof.report.slices import carry_over_sentences, lasting_sentences
from walproof.report.terminal import print_terminal

PLAN = toggled_plan("default", "same", "off")


def _view(plan: Plan, trials: list[Trial]) -> ReportView:
    run = Run("r-1", plan, ("walproof", "compare"), 1.0, "1.0", ENVIRONMENT, None, 9.0)
    return report_kind(plan.kind).view(run, trials, ())


def _table(view: ReportView, title: str) -> Table:
    return next(
        block
        for section in view.sections
        for block in section.blocks
        if isinstance(block, Table) and block.title.startswith(title)
    )


def test_a_report_of_slices() -> None:
    rng = random.Random(1)
    trials = [start(PLAN, number, rng, effects={"off": 0.3}, noise=0.05) for number in (1, 2)]
    view = _view(PLAN, trials)
    speed = _table(view, "w")
    place = [column.title for column in speed.columns].index("design")
    assert [row[place].text for row in speed.rows] == ["toggled"] * 3
    slices = _table(view, "Slices")
    assert [row[1].text for row in slices.rows] == ["same", "off"]
    assert slices.rows[0][3].text == "80 of 2"
    assert [trial.slices for trial in view.trials] == [trial.slices for trial in trials], "as stored"
    sure = " ".join(view.how_sure)
    assert "2 trials in 2 rounds" in sure
    assert "intervals of the ratio within passes" in sure
    assert "Slices lie 1.50 to 41.7 s after the checkpoint before the load" in sure
    assert "no other checkpoint began meanwhile" in sure
    assert any("more start" in line or "reached" in line for line in view.what_would_help)
    for text in (to_html(view), to_markdown(view)):
        assert "Slices" in text
        assert "a reload" in text, "why the design was chosen"
    document = json.loads(to_json(view))
    assert [effect["design"] for effect in document["analysis"]["effects"]] == ["toggled", "toggled"]
    assert document["analysis"]["places"][0]["checkpoints"] == 0
    assert [over["variant"] for over in document["analysis"]["carry_overs"]] == ["same", "off"]


def test_charts_say_what_the_ratio_of_a_toggled_variant_is_the_mean_of() -> None:
    rng = random.Random(1)
    view = _view(PLAN, [start(PLAN, number, rng, noise=0.05) for number in (1, 2)])
    (chart,) = [figure for figure in view.overview if isinstance(figure.data, RatioData)]
    assert "geometric mean over groups of passes" in chart.note
    assert "circle: the ratio of one start" in chart.note
    shown = io.StringIO()
    print_terminal(view, Console(width=100, file=shown))
    for text in (shown.getvalue(), to_markdown(view)):
        assert "· a start  × geometric mean  ─ interval  │ 1x\n" in text
    assert isinstance(chart.data, RatioData)
    assert [row.text.rpartition(", ")[2] for row in chart.data.panels[0].rows] == ["n = 16 groups"] * 2
    assert "geometric mean over groups of passes" in (_table(view, "w").note or "")


def test_one_report_has_one_correlation_of_a_pass_with_the_next() -> None:
    view = _view(PLAN, [start(PLAN, number, random.Random(number), noise=0.05) for number in (1, 2)])
    (found,) = [effect for effect in view.analysis.effects if effect.variant == "off"]
    assert found.toggled is not None
    assert found.components is not None
    assert found.toggled.pair_correlation == pytest.approx(found.components.correlation)


def test_the_caption_of_trials_in_order_is_of_what_is_drawn() -> None:
    point = CoursePoint(1, 1, "off", 0.0, 1.0)
    tps = CoursePanel("w", "transactions/s", (point,))
    assert CourseData("", (), (tps,)).note == ""
    relative = CoursePanel("all", "relative (x)", (point,))
    assert CourseData("", (), (tps, relative)).note == " The last panel puts all points on one scale."
    trend = replace(relative, line=((0.0, 1.0), (1.0, 1.0)))
    assert CourseData("", (), (tps, trend)).note.endswith("; dashed: the trend.")
    view = _view(PLAN, [start(PLAN, 1, random.Random(1))])
    assert "The last panel" not in to_markdown(view)


def test_points_of_starts_are_not_called_trials() -> None:
    """Two starts of three variants are six points: the caption has n = 2 trials."""
    view = _view(PLAN, [start(PLAN, number, random.Random(number)) for number in (1, 2)])
    (chart,) = [
        block
        for section in view.sections
        for block in section.blocks
        if isinstance(block, Figure) and isinstance(block.data, CourseData)
    ]
    assert chart.note.startswith("A point stands for the slices of one variant in one start.")
    assert "w: 6 points, transactions/s " in chart.alt
    assert chart.caption.startswith("n = 2 trials")


def test_a_start_that_failed_is_counted_once_and_is_what_to_mend() -> None:
    """Three variants share it; no further start would say anything of the spread."""
    starts = fail([start(PLAN, number, random.Random(1)) for number in (1, 2)], lambda _: True, "no table")
    view = _view(PLAN, list(starts))
    assert " 2 of 2 trials failed and are left out." in (_table(view, "w").note or "")
    assert view.what_would_help == ("Mend what made 2 of 2 trials fail: no table.",)


def test_a_variant_that_leaves_something_is_named() -> None:
    rng = random.Random(2)
    trials = [start(PLAN, n, rng, left={"off": 0.06}, noise=0.02, stalls=0) for n in (1, 2)]
    view = _view(PLAN, trials)
    same, off = (row[-1].text for row in _table(view, "Slices").rows)
    assert off.endswith("(!)")
    assert not same.endswith("(!)")
    sure = " ".join(view.how_sure)
    assert "off leaves something to the slice after it: 1.05x" in sure
    assert "--design fresh measures it on separate servers" in sure


def test_a_mixed_study_has_both_designs() -> None:
    rng = random.Random(3)
    toggling = replace(PLAN.toggling, baseline="default, toggled")  # type: ignore[type-var]
    base, same, off = PLAN.variants
    fresh = replace(base, design=Design.FRESH, design_reason=None)
    toggled = replace(base, name="default, toggled")
    large = replace(fresh, name="large", design_reason="max_wal_size acts at checkpoints")
    plan = replace(PLAN, variants=(fresh, toggled, same, off, large), toggling=toggling)
    short = replace(PLAN, variants=(toggled, same, off), toggling=toggling)
    starts = [start(short, number, rng) for number in (1, 4)]
    starts[1] = replace(starts[1], round=2)
    others = [
        replace(starts[0], number=number, round=round_, variant=variant, slices=(), metrics={"tps": tps})
        for number, round_, variant, tps in (
            (2, 1, "default", 100.0), (3, 1, "large", 110.0), (5, 2, "default", 90.0), (6, 2, "large", 98.0),
        )
    ]  # fmt: skip
    view = _view(plan, sorted([*starts, *others], key=lambda trial: trial.number))
    speed = _table(view, "w")
    titles = [column.title for column in speed.columns]
    design, ratio = titles.index("design"), titles.index("ratio to baseline")
    assert [row[design].text for row in speed.rows] == ["fresh", "toggled", "toggled", "toggled", "fresh"]
    assert [row[ratio].text for row in speed.rows][:2] == ["baseline", "baseline"]
    assert speed.rows[4][ratio].text.startswith("1.09x")
    assert "within rounds, or within passes where settings are toggled" in " ".join(view.how_sure)


def test_a_report_without_slices_says_nothing_of_designs() -> None:
    facts = durability()
    view = report_kind(facts.run.plan.kind).view(facts.run, facts.trials, facts.series)
    assert "toggled" not in to_markdown(view).replace('"toggled": null', "").replace('"toggling": null', "")


def untimed(turn: Slice) -> Slice:
    """As it is stored of a load that is stopped between its slices."""
    return replace(turn, latency_ms_sum=0.0, latency_ms_p50=None, latency_ms_p95=None, latency_ms_p99=None)


def test_a_report_of_servers_that_take_turns() -> None:
    """What they did while they waited, what varies, and where their slices lie."""
    rng = random.Random(6)
    variants = tuple(replace(variant, design=Design.SLICED) for variant in PLAN.variants)
    plan = replace(PLAN, variants=variants, toggling=None, slicing=PLAN.toggling, place=Placing.STEADY)
    waiting = {
        "waiting_cpu_share": 0.03, "waiting_cpu_share_max": 0.2, "waiting_wal_bytes": 0.0,
        "waiting_written_bytes": 1e9,
    }  # fmt: skip
    draws = {name: rng.gauss(0, 0.1) for name in ("default", "same", "off")}
    trials = [
        replace(made, metrics={**made.metrics, **waiting}, slices=tuple(map(untimed, made.slices)))
        for made in (
            start(PLAN, number, rng, noise=0.03, stalls=0, own_effects=draws if number == 1 else None)
            for number in (1, 2, 3)
        )
    ]
    view = _view(plan, trials)
    speed = _table(view, "w")
    place = [column.title for column in speed.columns].index("design")
    assert [row[place].text for row in speed.rows] == ["sliced"] * 3
    assert not [column.title for column in speed.columns if column.title.endswith(" ms")], "none is known"
    cost = _table(view, "Cost")
    assert [column.title for column in cost.columns] == ["variant", "durability class", "WAL bytes/txn"]
    assert [row[3].text for row in _table(view, "Slices").rows] == ["120 of 3", "120 of 3"]
    sure = " ".join(view.how_sure)
    assert "Slices lie 1.50 to 13.5 s after the checkpoint before the load of each server" in sure
    assert "(steady)" in sure
    assert "intervals of the ratio within starts" in sure
    assert "Design sliced: a ratio varies by" in sure
    assert "more from start to start" in sure
    assert "more starts help most" in sure
    assert "took 3.0 % of a CPU together, more than the 2.0 % that are allowed (!)" in sure
    assert re.search(r"and wrote 0 B of WAL and [\d.]{3,4} [kM]B to disk in each second of slices\.", sure)


def test_a_report_of_builds_that_take_turns() -> None:
    labels = (OLDER.label, INSTALL.label)
    plan, trials = taking_turns(make_plan((DEFAULT,), installs=(OLDER, INSTALL)), labels, 0.18)
    view = _view(plan, [replace(t, slices=tuple(map(untimed, t.slices))) for t in trials])
    across = _table(view, f"Every install against PostgreSQL {OLDER.label}")
    assert "1.2" in " ".join(cell.text for cell in across.rows[0])
    slices = _table(view, "Slices")
    assert f"beside the slice of PostgreSQL {OLDER.label} in the same pass" in (slices.note or "")
    assert "64 of 8" in [cell.text for cell in slices.rows[0]]
    assert "ended no transaction" not in (slices.note or "")
    stalled = replace(trials[0].slices[0], transactions=0)
    still = replace(trials[0], slices=(stalled, *trials[0].slices[1:]))
    note = _table(_view(plan, [still, *trials[1:]]), "Slices").note or ""
    assert "1 of 128 slices ended no transaction: what such a start measured is from the sums" in note
    sure = " ".join(view.how_sure)
    assert "Design sliced: a ratio varies by" in sure
    assert "in each pass one of every server" in sure
    assert "Probes tell what limits a server, and none was on" in to_html(view)
    assert "No trial finished" not in to_html(view)
    failed = replace(trials[0], state=TrialState.FAILED, slices=(), metrics={}, reason="no disk")
    assert "No trial finished" in to_html(_view(plan, [failed]))


def test_what_is_left_is_said_as_its_interval_and_the_others_allow() -> None:
    view = _view(PLAN, [start(PLAN, 1, random.Random(1), noise=0.05)])

    def said(ratio: float, low: float, high: float, p: float) -> str:
        over = CarryOver("tps", "18.4", "w", "off", 80, ratio, Interval(low, high, 0.95, "t"), p)
        same = replace(
            over, variant="same", ratio=1.0, interval=Interval(0.99, 1.01, 0.95, "t"), p_family=1.0
        )
        (sentence,) = carry_over_sentences(replace(view.analysis, carry_overs=(same, over)))
        return sentence

    assert said(1.02, 0.99, 1.05, 0.3).startswith(
        "What variants leave to the slice after theirs cannot be told from zero: off, the most, 1.02x"
    )
    assert said(0.993, 0.989, 0.997, 0.001) == (
        "Where what variants leave to the slice after theirs can be told from zero, it is not more than 1.0 "
        "%: off, the most, 0.993x (0.989 to 0.997)."
    )
    doubtful = said(1.02, 1.003, 1.037, 0.06)
    assert doubtful.startswith("Whether variants leave something to the slice after theirs is in doubt: off")
    assert doubtful.endswith(", but of 2 such ratios one looks so by chance.")
    assert said(1.02, 1.003, 1.037, 0.04).startswith("off leaves something to the slice after it: 1.02")


def test_transactions_that_are_too_long_for_slices_are_named() -> None:
    trials = [start(PLAN, number, random.Random(number)) for number in (1, 2)]
    assert lasting_sentences(PLAN, trials) == []
    long = [
        replace(trial, slices=tuple(replace(slice_, latency_ms_p95=800.0) for slice_ in trial.slices))
        for trial in trials
    ]
    (said,) = lasting_sentences(PLAN, long)
    assert said.startswith(f"{PLAN.workloads[0].name}: 5 % of its transactions take 800 ms or more, too long")
    assert said.endswith("; --design fresh measures each variant on servers of its own.")
    assert said in _view(PLAN, long).how_sure


def test_transactions_that_failed_in_slices_are_the_first_doubt() -> None:
    """Of all variants together: what slices count are those that succeeded."""
    trials = [start(PLAN, number, random.Random(number)) for number in (1, 2)]
    failing = [
        replace(trial, metrics={**trial.metrics, "transactions": 700.0, "failed_transactions": 300.0})
        for trial in trials
    ]
    assert not _view(PLAN, trials).how_sure[0].startswith("Transactions failed")
    said = _view(PLAN, failing).how_sure[0]
    assert said.startswith("Transactions failed (deadlocks, serialization failures): 30 % in the starts of ")
    assert " slices, of all their variants together. Throughput and latencies are those of the others" in said
