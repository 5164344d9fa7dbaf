"""A study is of one kind; what can be added to its trials follows from that, and what is said of them."""

from __future__ import annotations

import itertools
import os
import re
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import psycopg
import pytest

import walproof
from walproof.cli.plan import plan_text
from walproof.errors import DiskError, StoreError, StudyError
from walproof.facts import (
    Install,
    Kind,
    LoadMethod,
    Plan,
    PowerCuts,
    Throughput,
    TrialState,
)
from walproof.facts.codec import from_json, to_json
from walproof.lab.asked import Overrides
from walproof.lab.kinds import registry as lab_registry
from walproof.lab.reading import check_study
from walproof.lab.schedule import Unseen
from walproof.lab.session import opened_bench, ready_to_run
from walproof.lab.study import built_in_names, read_study, resolve
from walproof.lab.trial import Bench, TrialOrder, run_trial
from walproof.postgres.cluster import Cluster
from walproof.report.kinds import registry as report_registry
from walproof.report.kinds.registry import report_kind


def _tables() -> dict[str, dict[str, Any]]:
    """Sign of a kind -> what its first built-in study has beside variants and settings."""
    found: dict[str, dict[str, Any]] = {}
    for name in built_in_names():
        study, text, _ = read_study(name)
        typed = tomllib.loads(text)
        for half in lab_registry.KINDS:
            sign = half.sign(study)
            if sign is not None and sign not in found:
                workload = {"workload": typed["workload"]} if "workload" in sign else {}
                found[sign] = {**{table: typed[table] for table in half.tables if table in typed}, **workload}
    return found


TABLES = _tables()


def _plan(install: Install, changes: dict[str, Any], **overrides: Any) -> Plan:
    study = {"name": "mine", "title": "?", "workload": [{"name": "w"}], "variant": [{"name": "default"}]}
    checked = check_study({**study, **changes}, "test")
    return resolve(checked, Overrides(**overrides), folder=Path("/somewhere"), given=(install,))


def _built_in(install: Install, name: str, **overrides: Any) -> Plan:
    study, _, scripts = read_study(name)
    asked = Overrides(**overrides)
    return resolve(study, asked, folder=Path("/somewhere"), scripts=scripts, given=(install,))


def test_every_kind_has_both_halves_and_a_built_in_study(embedded: Install) -> None:
    union = set(get_args(Kind))
    assert {half.kind for half in lab_registry.KINDS} == union
    assert {half.kind for half in report_registry.KINDS} == union
    assert {type(_built_in(embedded, name).kind) for name in built_in_names()} == union
    # A study of throughput has no sign of its own.
    assert len(TABLES) == len(union) - 1


def test_halves_lie_in_folders_of_the_same_name() -> None:
    def folders(half: str) -> set[str]:
        kinds = Path(walproof.__file__).parent / half / "kinds"
        return {path.name for path in kinds.iterdir() if (path / "kind.py").is_file()}

    assert folders("lab") == folders("report")
    assert len(folders("lab")) == len(get_args(Kind))


def test_conditions_are_those_of_the_kind(embedded: Install) -> None:
    """A plan whose variants have another kind's conditions cannot be made, read or resolved."""
    plan = _built_in(embedded, "replay")
    strange = replace(plan.variants[0], conditions=LoadMethod())
    with pytest.raises(ValueError, match="of a study of replay has conditions of loading"):
        replace(plan, variants=(strange,))
    with pytest.raises(StoreError, match="stored plan cannot be read"):
        from_json(Plan, to_json(plan).replace('"name":"replay"', '"name":"loading"'))
    with pytest.raises(TypeError, match="expected LoadMethod"):
        plan.variants[0].conditions_as(LoadMethod)
    for table in ("cut", "load"):
        variant = {"name": "a", table: {}}
        with pytest.raises(
            StudyError, match=rf"\[variant.{table}\], which has no meaning in a study of replay"
        ):
            _plan(embedded, {"replay": {}, "variant": [variant]})
    with pytest.raises(StudyError, match=r"has \[variant.cut\], but the study has no power cuts"):
        _plan(embedded, {"variant": [{"name": "a", "cut": {}}]})


def test_a_study_of_statements_has_no_load_beside_them(embedded: Install) -> None:
    mixed = [*TABLES["[[workload.statement]]"]["workload"], {"name": "load"}]
    with pytest.raises(StudyError, match='workload "load" of a study of statements has none'):
        _plan(embedded, {"workload": mixed})


@pytest.mark.parametrize(("kind", "other"), list(itertools.combinations(TABLES, 2)))
def test_a_study_of_two_kinds_is_refused(embedded: Install, kind: str, other: str) -> None:
    with pytest.raises(StudyError, match="a study is of one kind") as raised:
        _plan(embedded, {**TABLES[kind], **TABLES[other]})
    assert kind in raised.value.message
    assert other in raised.value.message


@pytest.mark.parametrize(("name", "table"), TABLES.items())
def test_what_cannot_be_added_is_refused(embedded: Install, name: str, table: dict[str, Any]) -> None:
    """It was carried out and then dropped by the report, or had no meaning."""
    with pytest.raises(StudyError, match=r"\[crash\] cannot be added|has \[crash\] or \[power_cut\]"):
        _plan(embedded, {**table, "crash": {}})
    if name == "[power_cut] only":
        return
    with pytest.raises(StudyError, match="--power-cut cannot be added to a study of") as raised:
        _plan(embedded, table, power_cut_images=2)
    assert name in str(raised.value.detail)
    with pytest.raises(StudyError, match=r"\[power_cut\] cannot be added to a study of"):
        _plan(embedded, {**table, "power_cut": {}})


def test_a_study_without_a_workload_has_the_load_of_its_kind(embedded: Install, tmp_path: Path) -> None:
    """As docs/studies.md has it."""
    path = tmp_path / "checksums.toml"
    typed = 'name = "checksums"\ntitle = "?"\n[replay]\n[factors]\ndata_checksums = ["off", "on"]\n'
    path.write_text(typed)
    plan = _built_in(embedded, str(path))
    assert [workload.name for workload in plan.workloads] == ["replay"]
    path.write_text(f'{typed}[[workload]]\nname = "replay"\n')
    assert _built_in(embedded, str(path)) == plan


def test_what_can_be_added(embedded: Install) -> None:
    assert isinstance(_plan(embedded, {"power_cut": {}}).kind, Throughput)
    assert isinstance(_plan(embedded, {"crash": {}}).kind, Throughput)
    assert isinstance(_plan(embedded, {}, power_cut_images=2).kind, Throughput)
    cuts = _plan(embedded, TABLES["[power_cut] only"], power_cut_images=2)
    assert isinstance(cuts.kind, PowerCuts)
    assert cuts.kind.cut_images == 2


def test_settings_of_a_variant_have_what_came_along(embedded: Install) -> None:
    changes = {
        "base": {"jit": "off"},
        "variant": [{"name": "default"}, {"name": "minimal", "settings": {"wal_level": "minimal"}}],
    }
    plan = _plan(embedded, changes)
    settings = plan.settings_of(plan.variant("minimal"))
    assert settings == {**plan.base_settings, "wal_level": "minimal", "max_wal_senders": "0"}


def test_a_server_is_started_with_words_that_the_lab_knows(embedded: Install) -> None:
    """A power cut of ``fsync = "no"`` accused PostgreSQL of missing flushes. What was typed is kept."""
    typed = {"FSYNC": "no", "synchronous_commit": "false"}
    plan = _plan(embedded, {"base": {"hot_standby": "0"}, "variant": [{"name": "free", "settings": typed}]})
    variant = plan.variant("free")
    assert variant.settings == typed
    assert plan.settings_of(variant) == {"hot_standby": "off", "fsync": "off", "synchronous_commit": "off"}


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("replay", ["rows into five partitioned tables", "by walproof itself", "data_checksums = on"]),
        ("replay-prefetch", ["cache = cold"]),
        ("replay-audit", ["kernel_audit = recording"]),
        ("synchronous", ["a ledger in 4 sessions", "distance = "]),
        ("replication-behind", ["inserts, ", "rows a commit into tables that hold", "replay_cpu = "]),
        ("bulk-load", ["rows into"]),
        ("wal-level", ["statements, each measured apart"]),
        ("durability", ["pgbench tpcb-like, scale 1, 50 clients"]),
    ],
)
def test_a_dry_run_says_what_a_trial_does(
    embedded: Install, monkeypatch: pytest.MonkeyPatch, name: str, says: list[str]
) -> None:
    monkeypatch.setattr("walproof.lab.kinds.replay.kind.audit_refusal", lambda: None)
    text = plan_text(_built_in(embedded, name), ["walproof"])
    assert [phrase for phrase in says if phrase not in text] == [], text
    assert "pgbench ," not in text


def test_the_report_names_the_load_of_each_kind(embedded: Install) -> None:
    found = {
        name: (words.script(plan, plan.workloads[0]), words.driven_by(plan))
        for name in ("bulk-load", "synchronous", "replay", "replication-live", "wal-level", "durability")
        for plan in [_built_in(embedded, name)]
        for words in [report_kind(plan.kind)]
    }
    assert {name: load for name, (load, _) in found.items()} == {
        "bulk-load": "rows into public.events",
        "synchronous": "ledger",
        "replay": "prepared INSERTs",
        "replication-live": "prepared INSERTs",
        "wal-level": "6 statements",
        "durability": "tpcb-like",
    }
    assert "quiet server" in found["wal-level"][1]
    assert found["durability"][1].startswith("Driven by pgbench")


@pytest.mark.live
@pytest.mark.parametrize(
    "error",
    [DiskError("the run is void: the machine was in the way"), psycopg.errors.DiskFull("the run is void")],
)
@pytest.mark.parametrize(
    ("changes", "broken"),
    [
        ({"crash": {}}, "kinds.throughput.kind.crash_and_recover"),
        ({"power_cut": {"images": 1}}, "power_cut.trials.cut_power"),
    ],
)
def test_what_is_added_and_fails_leaves_the_trial(
    embedded: Install,
    work: Path,
    monkeypatch: pytest.MonkeyPatch,
    changes: dict[str, Any],
    broken: str,
    error: Exception,
) -> None:
    """A window that was measured stays measured."""

    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(f"walproof.lab.{broken}", fail)
    monkeypatch.setattr("walproof.lab.power_cut.trials.run_self_test", lambda _lab: "")
    workload = [{"name": "w", "scale": 1, "clients": 1, "duration": "1s"}]
    study = {"name": "mine", "title": "?", "workload": workload, "variant": [{"name": "default"}], **changes}
    checked = check_study(study, "test")
    plan = resolve(checked, Overrides(rounds=1, probes=()), folder=work, given=(embedded,))
    with ready_to_run(plan, Unseen()) as trials:
        trial, _ = run_trial(trials, TrialOrder(1, 1, embedded.label, "w", "default"))
    assert trial.state is TrialState.DONE, trial.reason
    assert trial.metrics["tps"] > 0
    assert [warning for warning in trial.warnings if re.search("not measured: .*the run is void", warning)], (
        trial.warnings
    )


def test_a_statement_that_the_server_refuses_fails_the_trial(
    embedded: Install, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_bench: Bench, _order: TrialOrder, cluster: Cluster, *_: object) -> None:
        cluster.start({})
        with cluster.connect() as session:
            session.execute("SELECT 1 / 0")

    monkeypatch.setattr("walproof.lab.kinds.throughput.kind.open_server", refused)
    workload = [{"name": "w", "scale": 1, "clients": 1, "duration": "1s"}]
    study = {"name": "mine", "title": "?", "workload": workload, "variant": [{"name": "default"}]}
    plan = resolve(check_study(study, "test"), Overrides(rounds=1, probes=()), folder=work, given=(embedded,))
    with ready_to_run(plan, Unseen()) as trials:
        trial, _ = run_trial(trials, TrialOrder(1, 1, embedded.label, "w", "default"))
    assert trial.state is TrialState.FAILED
    assert trial.reason == "a statement failed: division by zero"
    assert "STATEMENT:  SELECT 1 / 0" in str(trial.server_log)


def test_the_end_of_a_run_removes_what_no_run_asked_for_in_two_weeks(
    embedded: Install, open_place: Path
) -> None:
    workload = [{"name": "w", "scale": 1, "clients": 1, "duration": "1s"}]
    study = {"name": "mine", "title": "?", "workload": workload, "variant": [{"name": "default"}]}
    plan = resolve(
        check_study(study, "test"), Overrides(rounds=1, probes=()), folder=open_place / "w", given=(embedded,)
    )
    with opened_bench(plan, Unseen()) as bench:
        old, used = bench.workspace.templates / "18.4-old", bench.workspace.templates / "18.4-used"
        old.mkdir()
        used.mkdir()
        os.utime(old, (1e9, 1e9))
    assert (old.exists(), used.exists()) == (False, True)
