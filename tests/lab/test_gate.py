"""From promises to a plan: what a gate may compare, what it measures by, how long it may take."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from walproof.errors import StudyError
from walproof.facts import Design, Install, Plan
from walproof.facts.gate import BUDGET_S, ROUNDS_MOST, parse_promises
from walproof.lab.asked import Overrides
from walproof.lab.reading import check_study
from walproof.lab.study import Version, ad_hoc, read_study, resolve
from walproof.postgres import install as installs

WAL = ("wal_bytes_per_txn > 1.02x",)
OFF = {"synchronous_commit": "off"}
LOAD: dict[str, object] = {"name": "w", "clients": 4, "duration": 10}


@pytest.fixture(scope="module")
def given() -> Install:
    return installs.find("embedded")


def planned(
    given: Install,
    sets: list[dict[str, str]],
    *promises: str,
    more: tuple[Install, ...] = (),
    against: Version | None = None,
    **overrides: Any,
) -> Plan:
    asked = Overrides(fail_if=parse_promises(promises), **overrides)
    study = ad_hoc(sets, LOAD, against=against)
    return resolve(study, asked, folder=Path("/tmp"), given=tuple(installs.label_all([given, *more])))


def test_a_gate_measures_for_ten_minutes_at_most_unless_more_is_said(given: Install) -> None:
    plan = planned(given, [OFF], "tps < 0.97x", *WAL)
    assert plan.gate is not None
    assert [promise.text for promise in plan.gate.promises] == ["tps < 0.97x", *WAL]
    assert (plan.rounds, plan.budget_s, plan.half_width) == (ROUNDS_MOST, BUDGET_S, None)
    assert plan.toggling is not None
    assert plan.toggling.starts == plan.rounds
    plan = planned(given, [OFF], *WAL, rounds=7, budget_s=60.0)
    assert (plan.rounds, plan.budget_s) == (7, 60.0)
    assert planned(given, [OFF]).gate is None


def test_the_design_follows_the_metrics(given: Install) -> None:
    """Slices have no quantile of a whole window: then every trial has a server of its own."""
    assert planned(given, [OFF], "tps < 0.97x").variant("synchronous_commit=off").design is Design.TOGGLED
    plan = planned(given, [OFF], "latency_ms_p99 > 1.1x")
    assert plan.toggling is None
    assert "latency_ms_p99" in (plan.variant("synchronous_commit=off").design_reason or "")
    with pytest.raises(StudyError, match="cannot be toggled"):
        planned(given, [OFF], "latency_ms_p99 > 1.1x", design="toggled")
    with pytest.raises(StudyError, match="server_cpu_us_per_txn is not measured here"):
        planned(given, [OFF], "server_cpu_us_per_txn > 1.1x", design="fresh")
    planned(given, [OFF], "server_cpu_us_per_txn > 1.1x")


def test_what_has_no_such_metric_names_those_that_it_has(given: Install) -> None:
    with pytest.raises(StudyError) as caught:
        planned(given, [OFF], "load_s > 1.1x")
    assert "wal_bytes_per_txn" in (caught.value.detail or "")
    assert "checkpoint_sync_s" not in (caught.value.detail or "")


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("tpz", "tps"),
        ("wal_byte_per_txn", "wal_bytes_per_txn"),
        ("cpu_us_per_txn", "cpu_us_per_txn.<process>"),
        ("servr_cpu_us_per_txn", "server_cpu_us_per_txn"),
    ],
)
@pytest.mark.parametrize("design", [None, "toggled"])
def test_a_metric_that_is_none_is_told_with_all_that_there_are(
    given: Install, name: str, near: str, design: str | None
) -> None:
    with pytest.raises(StudyError, match=f'"{name} < 0.97x": {name} is not measured here') as caught:
        planned(given, [OFF], f"{name} < 0.97x", design=design)
    assert (caught.value.detail or "").startswith(f"Measured are {near}")
    assert "latency_ms_p99" in (caught.value.detail or "")
    listed = [word.partition("[")[0] for word in (caught.value.detail or "").split(", ")[1:]]
    assert len(listed) == len(set(listed))
    assert (caught.value.hint or "").startswith("docs/metrics.md says what each of them means.")


def test_a_statement_or_a_script_that_there_is_not_is_refused(given: Install) -> None:
    """No trial would have its metric, which was found out after the whole run."""
    statements = [{"name": name, "sql": "SELECT 1"} for name in ("insert", "a.b c")]
    scripts = [{"sql": "SELECT 1"}, {"sql": "SELECT 2"}]
    cases: list[tuple[dict[str, Any], str, str | None]] = [
        ({"statement": statements}, "wal_bytes_stat.isnert", 'has no statement "isnert"'),
        ({"statement": statements}, "wal_operation_bytes.isnert|Heap/INSERT", 'has no statement "isnert"'),
        ({"statement": statements}, "wal_bytes_stat.a.b c", None),
        ({"statement": statements}, "wal_operation_bytes.a.b c|Heap/INSERT", None),
        ({"statement": statements}, "wal_bytes_stat", None),
        ({"script": scripts}, "tps.script7", 'has no script "script7"'),
        ({"script": scripts}, "tps.script1", None),
        ({"script": scripts[:1]}, "latency_ms_avg.script0", 'has no script "script0"'),
    ]
    for load, metric, said in cases:
        study = check_study(
            {
                "name": "mine",
                "title": "?",
                "workload": [{"name": "w", **load}],
                "variant": [{"name": "default"}, {"name": "off", "settings": OFF}],
            },
            "mine",
        )
        asked = Overrides(fail_if=parse_promises([f"{metric} > 1.05x"]))
        if said is None:
            plan = resolve(study, asked, folder=Path("/tmp"), given=(given,))
            assert plan.gate is not None
            continue
        with pytest.raises(StudyError, match=said) as caught:
            resolve(study, asked, folder=Path("/tmp"), given=(given,))
        assert caught.value.message.startswith(f'--fail-if "{metric} > 1.05x": workload "w" has no ')


def test_one_sort_of_thing_is_compared(given: Install) -> None:
    older = installs.find("embedded-16")
    other = Version({**LOAD, "name": "other"})
    plan = planned(given, [], *WAL, against=other)
    assert plan.gate is not None
    assert plan.gate.against == "other"
    assert [workload.name for workload in plan.workloads] == ["other", "w"]
    assert len(planned(given, [], *WAL, more=(older,)).installs) == 2
    with pytest.raises(StudyError, match="nothing to compare"):
        planned(given, [], *WAL)
    with pytest.raises(StudyError, match="settings and installs at once"):
        planned(given, [OFF], *WAL, more=(older,))
    with pytest.raises(StudyError, match="settings and two versions of a workload at once"):
        planned(given, [OFF], *WAL, against=other)


def test_two_rules_for_the_end_are_refused(given: Install) -> None:
    with pytest.raises(StudyError, match="--within and --fail-if"):
        planned(given, [OFF], *WAL, within=0.03)


def test_studies_of_other_kinds_have_no_gate(given: Install) -> None:
    study, _, folder = read_study("replay")
    asked = Overrides(fail_if=parse_promises(["startup_us_per_row > 1.1x"]))
    with pytest.raises(StudyError, match="a study of replay has no gate"):
        resolve(study, asked, folder=Path("/tmp"), scripts=folder, given=tuple(installs.label_all([given])))


def test_a_promise_on_throughput_at_an_offered_rate_is_told_of(given: Install) -> None:
    """Both sides do what is offered: the gate is green, however slow a transaction has become."""
    promises = parse_promises(("tps < 0.97x", "latency_ms_avg > 1.1x"))
    study = ad_hoc([OFF], {**LOAD, "rate": 300.0})
    plan = resolve(study, Overrides(fail_if=promises), folder=Path("/tmp"), given=(given,))
    assert plan.notes == (
        "The load offers 300 transactions/s: throughput is that on both sides, as long as they keep up. "
        "A promise on latency_ms_avg shows what a change costs.",
    )
    plan = resolve(study, Overrides(fail_if=promises[1:]), folder=Path("/tmp"), given=(given,))
    assert plan.notes == ()
    assert planned(given, [OFF], "tps < 0.97x").notes == ()
