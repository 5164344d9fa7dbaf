"""The table of recoveries from facts alone."""

from __future__ import annotations

from dataclasses import replace

from tests.report.facts import durability
from walproof.facts import Crash, Reference
from walproof.report import build_view
from walproof.report.blocks import Table
from walproof.report.markdown import to_markdown


def tables(*, cold: bool, references: tuple[Reference, ...] = ()) -> list[Table]:
    facts = durability()
    plan = replace(facts.run.plan, crash=Crash(cold), references=references)
    trials = [
        replace(
            trial,
            metrics={
                **trial.metrics, "recovery_wal_bytes": 1e8 * trial.round,
                "recovery_redo_s": float(trial.round), "recovery_cpu_s": 0.5 * trial.round,
                "recovery_checkpoint_s": 0.25, "recovery_s": trial.round + 0.5,
                "recovery_cold_redo_s": 2.0 * trial.round, "recovery_cold_s": 2.0 * trial.round + 0.5,
            },
        )
        for trial in facts.trials
    ]  # fmt: skip
    view = build_view(replace(facts.run, plan=plan), trials)
    assert "Away after a crash" in to_markdown(view)
    assert any("Back first after a crash: " in text for one in view.answers for text in one.sentences)
    section = next(one for one in view.sections if one.id == "recovery")
    return [block for block in section.blocks if isinstance(block, Table)]


def test_predictions_stand_beside_what_was_measured() -> None:
    facts = durability()
    plan = replace(facts.run.plan, crash=Crash(False, predict=True))
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
    section = next(one for one in view.sections if one.id == "recovery")
    table = next(b for b in section.blocks if isinstance(b, Table) and b.title.startswith("Predicted from"))
    row = next(row for row in table.rows if row[0].text == other)
    assert [one.text for one in row[1:]] == ["191 MB", "210 MB", "+10.0 %", "100", "90.0", "-10.0 %"]


def cell(table: Table, variant: str, column: str) -> str:
    names = [one.title for one in table.columns]
    (row,) = (row for row in table.rows if row[0].text == variant)
    return row[names.index(column)].text


def test_medians_and_the_most() -> None:
    table = tables(cold=False)[0]
    baseline = table.rows[0][0].text
    # Rounds 1 to 5.
    assert cell(table, baseline, "WAL replayed") == "286 MB"
    assert cell(table, baseline, "redo s") == "3.00"
    assert cell(table, baseline, "MB per CPU s") == "200"
    assert cell(table, baseline, "away s") == "3.50"
    assert not any("cold" in one.title for one in table.columns)


def test_a_cold_cache_has_columns_of_its_own() -> None:
    table = tables(cold=True)[0]
    assert cell(table, table.rows[0][0].text, "cold redo s") == "6.00"
    assert "as after a reboot" in (table.note or "")


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
