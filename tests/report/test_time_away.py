"""The table of recoveries from facts alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.report.facts import durability
from walproof.analysis.crashes import predicted_crashes
from walproof.facts import Crash, Reference, Throughput
from walproof.report.blocks import Table
from walproof.report.figures.figure import Figure
from walproof.report.kinds.throughput.measured import MeasuredData, MeasuredPanel, MeasuredRow
from walproof.report.layout import ReportView
from walproof.report.markdown import to_markdown
from walproof.report.view import build_view
from walproof.settings.durability import DurabilityClass
from walproof.wal.recovery import QUANTITIES


def tables(
    *, cold: bool, iops: int | None = None, power_cut: bool = False, references: tuple[Reference, ...] = ()
) -> list[Table]:
    facts = durability()
    plan = replace(
        facts.run.plan, kind=Throughput(Crash(cold, iops=iops, power_cut=power_cut)), references=references
    )
    trials = [
        replace(
            trial,
            metrics={
                **trial.metrics, "recovery_wal_bytes": 1e8 * trial.round,
                "recovery_redo_s": float(trial.round), "recovery_cpu_s": 0.5 * trial.round,
                "recovery_checkpoint_s": 0.25, "recovery_s": trial.round + 0.5,
                "recovery_cold_redo_s": 2.0 * trial.round, "recovery_cold_s": 2.0 * trial.round + 0.5,
                "recovery_limited_redo_s": 7.0 * trial.round, "recovery_limited_s": 7.0 * trial.round + 0.5,
                "recovery_cut_redo_s": 4.0 * trial.round, "recovery_cut_s": 4.0 * trial.round + 0.5,
            },
        )
        for trial in facts.trials
    ]  # fmt: skip
    view = build_view(replace(facts.run, plan=plan), trials)
    assert "Away after a crash" in to_markdown(view)
    section = next(section for section in view.sections if section.id == "recovery")
    return [block for block in section.blocks if isinstance(block, Table)]


def answered(rounds: int, away: Callable[[str, int], float], **crash: Any) -> tuple[str, ...]:
    """The sentences of the first workload on recovery, whose times are ``away(variant, round)``; from a cold
    cache ten times as long, in the opposite order."""
    facts = durability()
    plan = replace(facts.run.plan, kind=Throughput(Crash(**crash)))
    trials = [
        replace(
            trial,
            metrics={
                **trial.metrics, "recovery_wal_bytes": 2.0**20, "recovery_redo_s": 0.25,
                "recovery_s": away(trial.variant, trial.round), "recovery_cold_redo_s": 1.0,
                "recovery_cold_s": 10 / away(trial.variant, trial.round),
            },
        )
        for trial in facts.trials
        if trial.round <= rounds
    ]  # fmt: skip
    return build_view(replace(facts.run, plan=plan), trials).answers[0].sentences


def _by_variant(variant: str, number: int) -> float:
    """The later in the study, the longer."""
    names = [variant.name for variant in durability().run.plan.variants]
    return 1.0 + names.index(variant) + number / 100


def test_who_is_back_first_is_said_for_each_state_of_the_page_cache() -> None:
    names = [variant.name for variant in durability().run.plan.variants]
    warm, cold = answered(5, _by_variant, cold=True)
    assert warm.startswith(
        f"Back first after a crash, with a warm page cache: {names[0]}, away for 1.03 s, 0.250 s of them "
        f"redo of 1.00 MB of WAL. Last: {names[-1]}, away for "
    )
    assert cold.startswith(f"Back first after a crash, with a cold page cache: {names[-1]}, away for ")


@pytest.mark.parametrize(("rounds", "noise"), [(1, 0.0), (2, 0.0), (5, 20.0)])
def test_an_order_that_chance_makes_is_not_known(rounds: int, noise: float) -> None:
    """One crash of each ranked them, and a round where the last was back before the first."""

    def away(variant: str, number: int) -> float:
        return _by_variant(variant, number) + noise * (number == 2) / _by_variant(variant, 0)

    (said,) = answered(rounds, away, cold=False)
    assert said.startswith(
        f"Not known from {rounds} round{'s' * (rounds > 1)} which variant is back first after a crash, "
        "with a warm page cache: medians are 1.0"
    )


def test_a_recovery_that_is_not_there_is_told_with_its_reason() -> None:
    facts = durability()
    plan = replace(facts.run.plan, kind=Throughput(Crash(False, power_cut=True)))
    name = plan.variants[1].name
    trials = [
        replace(trial, warnings=("recovery: no room",) if trial.variant == name else ("load: slow",))
        for trial in facts.trials
    ]
    section = next(
        section
        for section in build_view(replace(facts.run, plan=plan), trials).sections
        if section.id == "recovery"
    )
    table = next(b for b in section.blocks if isinstance(b, Table) and b.title.startswith("Away with less"))
    assert table.note is not None
    assert table.note.endswith(f" {name}, in 5 crashes: no room.")
    assert "slow" not in table.note


def test_predictions_stand_beside_what_was_measured() -> None:
    facts = durability()
    plan = replace(facts.run.plan, kind=Throughput(Crash(False, predict=True)))
    other = next(v.name for v in plan.variants if v.name != plan.baseline)
    trials = [
        replace(
            trial,
            metrics={
                **trial.metrics, "recorded_wal_bytes": 2e8 if trial.variant == other else 4e8,
                "recorded_images": 100.0, f"predicted_wal_bytes.{other}": 2.2e8,
                f"predicted_images.{other}": 90.0,
            },
        )
        for trial in facts.trials
    ]  # fmt: skip
    view = build_view(replace(facts.run, plan=plan), trials)
    section = next(section for section in view.sections if section.id == "recovery")
    table = next(b for b in section.blocks if isinstance(b, Table) and b.title.startswith("Predicted from"))
    row = next(row for row in table.rows if row[0].text == other)
    assert [cell.text for cell in row[1:]] == ["191 MB", "210 MB", "+10.0 %", "100", "90.0", "-10.0 %"]
    (chart,) = (block for block in section.blocks if isinstance(block, Figure) and block.id == "written")
    assert f"{other} (" in chart.alt
    assert "measured median 191 MB of 5, predicted 210 MB" in chart.alt, "as the table has it"


def crash_view() -> ReportView:
    """Of the baseline 1 s of redo, 0.5 s of checkpoint, 2 s away; of another variant twice the work."""
    facts = durability()
    plan = replace(facts.run.plan, kind=Throughput(Crash(False, predict=True)))
    other = next(v.name for v in plan.variants if v.name != plan.baseline)
    measured = {"recovery_redo_s": 1.0, "recovery_checkpoint_s": 0.5, "recovery_s": 2.0}
    work = dict.fromkeys(
        (*QUANTITIES, "resident", "spilled", "runs", "segments", "recovery_wal_bytes"), 1000.0
    )
    said = {f"predicted_{name}.{plan.baseline}": count for name, count in work.items()}
    said |= {f"predicted_{name}.{other}": 2 * count for name, count in work.items()}
    trials = [
        replace(
            trial,
            metrics={
                **trial.metrics, **measured, "recovery_s": 4.0 if trial.variant == other else 2.0,
                **(said if trial.variant == plan.baseline else {}),
            },
        )
        for trial in facts.trials
    ]  # fmt: skip
    return build_view(replace(facts.run, plan=plan), trials)


def test_recoveries_are_predicted_from_the_baseline() -> None:
    view = crash_view()
    baseline = view.run.plan.baseline
    other = next(v.name for v in view.run.plan.variants if v.name != baseline)
    found = {
        (crash.workload, crash.variant): crash for crash in predicted_crashes(view.run.plan, view.trials)
    }
    workload = view.run.plan.workloads[0].name
    assert {variant for _, variant in found} == {baseline, other}
    assert found[workload, baseline].away_s == pytest.approx(2.0)
    twice = found[workload, other]
    # What is not replay stays: 2 s - 1 s - 0.5 s.
    assert (twice.redo_s, twice.checkpoint_s, twice.away_s) == pytest.approx((2.0, 1.0, 3.5))
    section = next(section for section in view.sections if section.id == "recovery")
    table = next(
        b for b in section.blocks if isinstance(b, Table) and b.title.startswith("Recovery predicted from")
    )
    assert cell(table, other, "error") == "-12.5 %"
    assert cell(table, baseline, "error") == "+0.0 %"


def test_a_note_names_the_baseline() -> None:
    """It was printed as "{baseline}"."""
    view = crash_view()
    assert f"predicted time of {view.run.plan.baseline}, whose own" in to_markdown(view)
    assert "{baseline}" not in to_markdown(view)


def test_every_way_to_recover_is_drawn() -> None:
    ways = ("warm cache", "cold cache", "cold, 3,000 reads a second", "after a power cut")
    row = MeasuredRow("v", DurabilityClass.NONE, ((1.0,), (2.0,), (11.0,), (3.0,)))
    assert _kinds(MeasuredData("away", "s", ways, (MeasuredPanel("p", (row,)),))) == {*ways, "median"}


def test_the_report_leads_with_how_long_servers_were_away() -> None:
    view = crash_view()
    figure = view.overview[0]
    assert figure.id == "away"
    assert isinstance(figure.data, MeasuredData)
    other = next(v.name for v in view.run.plan.variants if v.name != view.run.plan.baseline)
    row = next(row for row in figure.data.panels[0].rows if row.variant == other)
    assert set(row.values[0]) == {4.0}
    assert row.predicted == pytest.approx(3.5)
    assert f"{other} (" in figure.alt
    assert "predicted 3.50 s" in figure.alt
    assert _kinds(figure.data) == {"warm cache", "median", "predicted"}


def _kinds(data: MeasuredData) -> set[str]:
    """Of marks in the chart."""
    return {
        value["kind"]
        for panel in data.draw()["vconcat"]
        for layer in panel["layer"]
        for value in layer["data"]["values"]
    }


def cell(table: Table, variant: str, column: str) -> str:
    names = [column.title for column in table.columns]
    (row,) = (row for row in table.rows if row[0].text == variant)
    return row[names.index(column)].text


def test_medians_and_the_most() -> None:
    table = tables(cold=False)[0]
    baseline = table.rows[0][0].text
    # Rounds 1 to 5.
    assert cell(table, baseline, "WAL replayed") == "286 MB"
    assert cell(table, baseline, "redo s") == "3.00"
    assert cell(table, baseline, "MB per CPU s") == "191"
    assert cell(table, baseline, "away s") == "3.50"
    assert not any("cold" in column.title for column in table.columns)


def test_a_cold_cache_has_columns_of_its_own() -> None:
    table = tables(cold=True)[1]
    assert cell(table, table.rows[0][0].text, "cold redo s") == "6.00"
    assert "as after a reboot" in (table.note or "")


def test_a_limited_disk_has_columns_of_its_own() -> None:
    table = tables(cold=False, iops=3000)[1]
    assert cell(table, table.rows[0][0].text, "limited away s") == "21.5"
    assert "3,000 reads a second" in (table.note or "")
    assert not any("cold" in column.title for column in table.columns)


def test_a_power_cut_has_columns_of_its_own() -> None:
    table = tables(cold=False, power_cut=True)[1]
    assert cell(table, table.rows[0][0].text, "cut redo s") == "12.0"
    assert cell(table, table.rows[0][0].text, "cut away s") == "12.5"
    assert "only what was flushed" in (table.note or "")


def test_published_recoveries_stand_beside() -> None:
    plan = durability().run.plan
    workload, variant = plan.workloads[0].name, plan.baseline
    published = Reference(
        variant, workload, None, metrics={"recovery_wal_bytes": 7.1e9, "recovery_redo_s": 49.73}
    )
    beside = [table for table in tables(cold=False, references=(published,)) if "published" in table.title]
    assert len(beside) == len(plan.installs)
    assert cell(beside[0], variant, "redo s published") == "49.7"
    assert cell(beside[0], variant, "MB/s published") == "143"
    assert cell(beside[0], variant, "MB/s here") == "100"
    other = next(v.name for v in plan.variants if v.name != variant)
    assert cell(beside[0], other, "redo s published") == "-"
