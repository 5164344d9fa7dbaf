"""Reports of backups: what the load kept, the way back in its parts, and what two rounds cannot say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.report.facts import make_facts
from walproof.facts import Run, Series, Trial, TrialState, Variant
from walproof.facts.codec import from_json, to_json
from walproof.facts.kinds import Backup, BackupConditions
from walproof.facts.plan import Plan
from walproof.report.blocks import Table
from walproof.report.figures.figure import Figure
from walproof.report.figures.ratios import RatioData
from walproof.report.html import to_html
from walproof.report.json import to_json as to_machine_form
from walproof.report.kinds.registry import report_kind
from walproof.report.layout import ReportView
from walproof.report.markdown import to_markdown
from walproof.report.view import build_view

VARIANTS = (
    Variant("full", {}),
    Variant("paused", {}, conditions=BackupConditions(is_loaded=False)),
    Variant("slow", {}, conditions=BackupConditions(checkpoint="spread", rate_bytes_per_s=32 << 20)),
    Variant("incremental", {}, conditions=BackupConditions("incremental", compress="gzip")),
)
KEPT, SIZE, BACK = (0.7, None, 0.95, 0.65), (200e6, 200e6, 200e6, 20e6), (10.0, 4.0, 11.0, 9.0)
WOBBLE = (0.99, 1.0, 1.01, 1.02)


def backup_facts(baseline: str = "full", rounds: int = 4) -> tuple[Run, list[Trial], list[Series]]:
    """``slow`` keeps more, ``paused`` is back sooner, ``incremental`` is smallest; all else is spread."""
    facts = make_facts()
    workloads = tuple(replace(workload, duration_s=6.0) for workload in facts.run.plan.workloads[:1])
    plan = replace(
        facts.run.plan,
        kind=Backup(5.0),
        workloads=workloads,
        variants=VARIANTS,
        baseline=baseline,
        references=(),
    )
    trials: list[Trial] = []
    series: list[Series] = []
    for round, wobble in enumerate(WOBBLE[:rounds], start=1):
        for place, cell in enumerate(plan.cells):
            number = len(trials) + 1
            off = wobble * (1 + 0.002 * ((number * 7) % 5))
            combine_s = 2.0 if cell.variant == "incremental" else 0.0
            metrics = {
                "back_s": BACK[place] * off, "restore_s": 1.0, "recover_s": BACK[place] * off - 1 - combine_s,
                "replayed_wal_bytes": 64e6, "restored_commits": 100.0, "backup_s": 3.0 * off, "verify_s": 0.1,
                "backup_bytes": SIZE[place] * off, "backup_wal_bytes": 32e6, "before_tps": 2000.0,
                "backup_archived_wal_bytes": 48e6, "backup_needed_wal_bytes": 20e6,
                "before_latency_ms_p99": 12.0,
            }  # fmt: skip
            if (kept := KEPT[place]) is not None:
                metrics |= {"backup_tps": 2000 * kept * off, "backup_tps_share": kept * off}
                metrics["backup_latency_ms_p99"] = 30.0
                series.append(Series(number, "tps", (0.0, 1.0, 2.0), (2000.0, 2000.0 * kept, 2000.0)))
            if combine_s:
                metrics |= {"combine_s": combine_s, "full_backup_bytes": 190e6, "wal_summary_bytes": 20e3}
            trials.append(Trial(number, round, *cell, TrialState.DONE, 0.0, 30.0, 0.0, 14.0, metrics, {}))
    return replace(facts.run, plan=plan), trials, series


def _said(view: ReportView) -> list[str]:
    return [sentence for answer in view.answers for sentence in answer.sentences]


def _tables(view: ReportView, section: str) -> list[Table]:
    (found,) = [found for found in view.sections if found.id == section]
    return [block for block in found.blocks if isinstance(block, Table)]


def _figures(view: ReportView) -> dict[str, Figure]:
    blocks = [block for section in view.sections for block in section.blocks]
    return {block.id: block for block in (*view.overview, *blocks) if isinstance(block, Figure)}


def test_two_sentences_come_first() -> None:
    cost, back = _said(build_view(*backup_facts()))
    assert cost.startswith("With full the load kept 71 % of its throughput for the 3.0")
    assert "; with slow 1.36x (1.3" in cost
    assert back.startswith(
        "A server is back 10.1 s after the restore of its 192 MB begins; with paused in 0.40"
    )
    assert "; the smallest backup is that of incremental, 0.1" in back


def test_two_shares_are_both_named() -> None:
    run, trials, series = backup_facts()
    rounds = sorted({trial.round for trial in trials})[:2]
    few = [trial for trial in trials if trial.round in rounds]
    shares = sorted(each.metrics["backup_tps_share"] for each in few if each.variant == "full")
    cost, _ = _said(build_view(run, few, series))
    low, high = (f"{100 * share:.0f} %" for share in shares)
    assert f" % ({low} and {high}) of its throughput" in cost


def _differing(change: Callable[[int], float]) -> list[str]:
    """The two sentences where figures differ by chance alone: by the ``change`` of 0, 1 and 2 in turn."""
    run, trials, series = backup_facts()
    alike = [
        replace(
            trial,
            metrics={
                **trial.metrics,
                "back_s": 5 * change(place % 3),
                "backup_bytes": 1e6 * change(place % 3),
            }
            | ({"backup_tps_share": 0.7 * change(place % 3)} if "backup_tps" in trial.metrics else {}),
        )
        for place, trial in enumerate(trials)
    ]
    return _said(build_view(run, alike, series))


def test_what_is_not_measurable_is_not_claimed() -> None:
    cost, back = _differing(lambda place: 1 + place / 1000)
    assert cost.endswith("; with no variant measurably more.")
    assert back.endswith("; with no variant measurably sooner.")


def test_what_is_not_known_is_not_denied() -> None:
    """Where 0.4x to 2.5x fits, "no variant is measurably sooner" would sound like an answer."""
    cost, back = _differing(lambda place: 4.0**place)
    for said, whether in ((cost, "whether a variant keeps more"), (back, "whether a variant is sooner")):
        assert f"; {whether} is not known yet: 0." in said
        assert " fits what was measured (" in said
        assert "measurably" not in said


def test_one_round_denies_nothing() -> None:
    cost, back = _said(build_view(*backup_facts(rounds=1)))
    assert cost.endswith("; whether a variant keeps more is not known from one round.")
    assert back.endswith("; whether a variant is sooner is not known from one round.")


def test_a_baseline_without_a_load_has_no_share_of_it() -> None:
    view = build_view(*backup_facts(baseline="paused"))
    cost, _ = _said(view)
    assert cost.startswith("With paused the backup took 3.0")
    assert cost.endswith("without a load beside it.")
    assert "kept" not in _figures(view)
    assert {"ratios", "sizes", "lengths", "seconds"} <= set(_figures(view))


def test_nothing_finished_is_no_answer() -> None:
    run, trials, _ = backup_facts()
    failed = [replace(trial, state=TrialState.FAILED, metrics={}, reason="no room") for trial in trials]
    assert _said(build_view(run, failed)) == ["No trial of full finished: there is no answer yet."]
    assert _said(build_view(run, [])) == ["No trial of full finished: there is no answer yet."]


def test_figures_compare_what_can_be_compared() -> None:
    figures = _figures(build_view(*backup_facts()))
    rows = {
        name: [row.label for panel in figure.data.panels for row in panel.rows]
        for name, figure in figures.items()
        if isinstance(figure.data, RatioData)
    }
    assert rows["ratios"] == rows["sizes"] == rows["lengths"] == ["paused", "slow", "incremental"]
    assert rows["kept"] == ["slow", "incremental"], "paused has no throughput meanwhile"
    assert "time until back relative to full" in figures["ratios"].alt
    assert "The backup begins where the load before it ends: scale 1, second 6." in figures["seconds"].note
    assert all(figure.data.draw()["config"] for figure in figures.values())


def test_tables_have_the_way_back_in_its_parts() -> None:
    view = build_view(*backup_facts())
    (results,) = _tables(view, "results")
    cost = {row[0].text: [cell.text for cell in row] for row in results.rows}
    assert cost["paused"][3:5] == ["-", "-"]
    assert cost["full"][8] == "1x"
    (back,) = _tables(view, "back")
    titles = [column.title for column in back.columns]
    parts = {row[0].text: dict(zip(titles, (cell.text for cell in row), strict=True)) for row in back.rows}
    assert parts["incremental"]["combine s"] == "2.00"
    assert parts["incremental"]["full before it"] == "181 MB"
    assert parts["full"]["combine s"] == "-"
    assert parts["full"]["commits checked"] == "400"
    (load,) = _tables(view, "load")
    assert [row[-1].text for row in load.rows] == ["-", "-", "-", "19.5 kB"]
    (known, *_) = _tables(view, "certainty")
    assert known.columns[-1].title == "time until back is"


def test_columns_that_nobody_has_are_left_out() -> None:
    """Of full backups alone nothing was combined."""
    run, trials, series = backup_facts()
    plan = replace(run.plan, variants=VARIANTS[:3])
    others = [others for others in trials if others.variant != "incremental"]
    (back,) = _tables(build_view(replace(run, plan=plan), others, series), "back")
    assert {"combine s", "full before it"} & {column.title for column in back.columns} == set()


@pytest.mark.parametrize("render", [to_html, to_markdown, to_machine_form])
def test_every_form_has_it(render: Callable[[ReportView], str]) -> None:
    text = render(build_view(*backup_facts()))
    assert "With full the load kept 71 %" in text
    assert "incremental" in text


def test_words_of_the_plan_and_of_a_trial() -> None:
    run, trials, _ = backup_facts()
    words = report_kind(run.plan.kind)
    assert words.conditions(VARIANTS[0]) == {}
    assert words.conditions(VARIANTS[1]) == {"load": "off"}
    assert words.conditions(VARIANTS[2]) == {"checkpoint": "spread", "rate": "32.0 MB/s"}
    assert words.conditions(VARIANTS[3]) == {"mode": "incremental", "compress": "gzip"}
    assert words.outcome(trials[0]).endswith("s until back, 190 MB")
    (added,) = words.added_lines(run.plan)
    assert "then a base backup, 5 s more of the load beside a ledger, and a restore to that moment" in added
    assert "it goes on for 5 s after it" in words.driven_by(run.plan)


def test_it_is_stored_as_what_it_is() -> None:
    plan = backup_facts()[0].plan
    assert from_json(Plan, to_json(plan)) == plan
