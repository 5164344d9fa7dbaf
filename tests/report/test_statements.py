"""Reports of studies that are not about throughput: statements, compression, flush rates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.report.facts import NONE, make_facts
from walproof.facts import (
    Cell,
    LeftOut,
    Plan,
    Reference,
    Run,
    Statement,
    Statements,
    Trial,
    TrialState,
    Variant,
    Workload,
)
from walproof.report.blocks import Paragraph, Table
from walproof.report.cells import Cells
from walproof.report.html import to_html
from walproof.report.json import to_json
from walproof.report.kinds.statements.tables import _missing
from walproof.report.kinds.throughput.flushes import flush_blocks
from walproof.report.markdown import to_markdown
from walproof.report.numbers import number as shown
from walproof.report.view import build_view

LEVELS = ("minimal", "replica", "logical")
NAMES = ("INSERT 1000 rows", "CREATE TABLE q")


def statement_run() -> tuple[Run, tuple[Trial, ...]]:
    facts = make_facts()
    workload = Workload(
        "published", None, (), 1, 1, 1, None, 1, None, "simple", 0.0,
        statements=tuple(Statement(name, "SELECT 1") for name in NAMES),
    )  # fmt: skip
    plan = replace(
        facts.run.plan,
        study="wal-level",
        kind=Statements(),
        title="How much WAL does each wal_level write, and who counts what?",
        workloads=(workload,),
        variants=tuple(Variant(level, {"wal_level": level}, durability=NONE) for level in LEVELS),
        baseline="replica",
        references=(Reference("minimal", "published", metrics={"wal_bytes_lsn": 259784.0}),),
    )
    trials = []
    for number, level in enumerate(LEVELS * 2, start=1):
        metrics: dict[str, float] = {}
        totals = dict.fromkeys(("wal_bytes_lsn", "wal_bytes_decoded", "wal_bytes_statements"), 0.0)
        for place, name in enumerate(NAMES):
            image = 8241.0 if level == "minimal" and place else 0.0
            size = 71_000.0 if place == 0 else 9_000.0 + LEVELS.index(level)
            operations = {"Heap/INSERT": size, "Transaction/COMMIT": 34.0}
            if image:
                operations["XLOG/FPI"] = image
            decoded = sum(operations.values())
            own = {
                "wal_bytes_lsn": decoded + 100 + 24, "wal_bytes_decoded": decoded,
                "wal_records_decoded": 999.0 + len(operations), "wal_padding_bytes": 100.0,
                "wal_page_header_bytes": 24.0, "wal_bytes_statements": size,
                "wal_records_statements": 1000.0,
            }  # fmt: skip
            metrics |= {f"{key}.{name}": value for key, value in own.items()}
            for operation, value in operations.items():
                count = 1000.0 if operation == "Heap/INSERT" else 1.0
                metrics[f"wal_operation_records.{name}|{operation}"] = count
                metrics[f"wal_operation_bytes.{name}|{operation}"] = value
            for key in totals:
                totals[key] += own[key]
        label = plan.installs[0].label
        trials.append(
            Trial(
                number,
                (number + 2) // 3,
                label,
                "published",
                level,
                TrialState.DONE,
                0.0,
                1.0,
                0.0,
                1.0,
                {**metrics, **totals},
                {},
            )
        )
    return replace(facts.run, plan=plan), tuple(trials)


def test_a_study_of_statements_is_about_bytes() -> None:
    run, trials = statement_run()
    view = build_view(run, trials)
    page = to_html(view)
    text = to_markdown(view)
    for expected in ("Who counts what", "Why the counts differ", "XLOG/FPI 8,241", "259,784"):
        assert expected in page, expected
        assert expected in text, expected
    assert " tps" not in text.split("## What was run")[0]
    assert "throughput" not in page
    assert "accounted for to the byte in 12 of 12 measurements" in page
    assert "is named, to the byte, in 12 of 12" in page
    assert "came with PostgreSQL" not in page, "18 has every method"
    assert page.count("<svg") == 1
    assert '"metric": "wal_bytes_decoded"' in to_json(view)


def test_what_a_server_could_not_count_is_said_of_that_server() -> None:
    """Of one without a finished trial it was said that it lacks everything."""
    run, trials = statement_run()
    (install,) = run.plan.installs
    old = replace(run.plan, installs=(replace(install, version="13.7", version_num=130007),))

    def said(plan: Plan, of: Sequence[Trial]) -> list[str]:
        return [block.text for block in _missing(Cells(plan, of)) if isinstance(block, Paragraph)]

    assert said(run.plan, trials) == []
    assert said(old, trials) == [
        "PostgreSQL 18.3: pg_stat_wal came with PostgreSQL 14. "
        "PostgreSQL 18.3: pg_stat_get_backend_wal came with PostgreSQL 18."
    ]
    bare = [
        replace(trial, metrics={n: v for n, v in trial.metrics.items() if n != "wal_bytes_statements"})
        for trial in trials
    ]
    assert said(run.plan, bare) == [
        "PostgreSQL 18.3: pg_stat_statements is not installed, or the server did not load it."
    ]
    assert said(run.plan, [replace(trial, state=TrialState.FAILED) for trial in trials]) == []


@pytest.mark.parametrize("setting", ["wal_compression", "WAL_Compression"])
def test_compression_shows_split_and_total(setting: str) -> None:
    facts = make_facts()
    names = ("off", "pglz")
    plan = replace(
        facts.run.plan,
        variants=tuple(Variant(name, {setting: name}, durability=NONE) for name in names),
        baseline="off",
        references=(
            Reference(
                "off", "scale 1", metrics={"write_bytes.client_backend": 96e6, "write_bytes.walwriter": 33e6}
            ),
        ),
        left_out=(LeftOut("lz4", "PostgreSQL 18.3 was built without what wal_compression=lz4 needs"),),
    )
    trials = []
    for trial in facts.trials:
        if trial.variant in ("default", "pgtune"):
            name = names[("default", "pgtune").index(trial.variant)]
            writes = {
                "write_bytes.client_backend": 90e6, "write_bytes.walwriter": 30e6 if name == "off" else 5e6,
                "write_bytes.checkpointer": 40e6, "write_bytes.startup": 1e6,
            }  # fmt: skip
            trials.append(replace(trial, variant=name, metrics={**trial.metrics, **writes}))
    text = to_markdown(build_view(replace(facts.run, plan=plan), trials))
    assert "What compression buys and costs" in text
    assert "Who wrote how much, and the total" in text
    assert "154 MB" in text, "the total of off"
    assert "130 MB" in text, "the total of pglz"
    assert "91.6 MB + 31.5 MB" in text, "published parts"
    assert "Read the total first" in text
    assert "was built without what wal\\_compression=lz4 needs" in text


@pytest.mark.parametrize("setting", ["wal_sync_method", "Wal_Sync_Method"])
def test_flush_rates_beside_throughput(setting: str) -> None:
    facts = make_facts()
    methods = ("fdatasync", "open_sync")
    plan = replace(
        facts.run.plan,
        variants=tuple(Variant(name, {setting: name}, durability=NONE) for name in methods),
        baseline="fdatasync",
        references=(Reference("open_sync", metrics={"flushes_per_s": 468.57}, workload=None),),
    )
    environment = replace(
        facts.run.environment,
        flush_rates={"open_sync": 500.0, "fdatasync": 1000.0, "fsync_writethrough": None},
    )
    trials = [
        replace(t, variant=methods[("default", "pgtune").index(t.variant)])
        for t in facts.trials
        if t.variant in ("default", "pgtune")
    ]
    text = to_markdown(build_view(replace(facts.run, plan=plan, environment=environment), trials))
    lacking = replace(environment, flush_rates={"open_sync": None, "fdatasync": 1000.0})
    without = to_markdown(build_view(replace(facts.run, plan=plan, environment=lacking), trials))
    assert "| open\\_sync | not measured: no direct I/O |" in without
    assert "Does pg\\_test\\_fsync predict the throughput?" in text
    assert "not on this platform" in text
    assert "no direct I/O" not in text
    assert "open\\_sync were measured with direct I/O" in text
    assert "| open\\_sync | 500 | 2000 | 469 |" in text


def test_a_flush_stands_beside_the_variant_that_differs_in_nothing_else() -> None:
    """Of all variants with the default method the last counted, whatever else it had."""
    facts = make_facts()
    plan = facts.run.plan
    environment = replace(facts.run.environment, flush_rates={"fdatasync": 1000.0})
    cells = Cells(plan, facts.trials)
    table = flush_blocks(replace(facts.run, environment=environment), cells)[0]
    assert isinstance(table, Table)
    (row,) = table.rows
    tps = cells.median(Cell(plan.installs[0].label, "scale 1", "default"), "tps")
    assert [cell.text for cell in row][:4] == ["fdatasync", shown(1000.0), shown(1000.0), shown(tps)]
    assert table.note is not None
    assert "Variants that differ from default in more than wal_sync_method are left out." in table.note
