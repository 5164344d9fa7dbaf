"""A study is of one kind; what can be added to its trials follows from that, and what is said of them."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from tests.lab.silence import Silence
from walproof.cli.plan import plan_text
from walproof.errors import DiskError, StudyError
from walproof.facts import (
    Failover,
    Install,
    Kind,
    Load,
    Plan,
    PowerCuts,
    Replay,
    Statements,
    Streaming,
    Throughput,
    TrialState,
)
from walproof.lab.session import ready_to_run
from walproof.lab.study import Overrides, built_in_names, read_study, resolve
from walproof.lab.studyfile import check_study
from walproof.lab.trial import TrialOrder
from walproof.report.experiment import driven_by, load_of

TABLES: dict[str, dict[str, Any]] = {
    "[failover]": {"failover": {}},
    "[load]": {"load": {"table": "t", "ddl": "CREATE TABLE t (x int)", "rows": 10}},
    "[power_cut] only": {"power_cut": {"only": True}},
    "[replay]": {"replay": {}},
    "[streaming]": {"streaming": {}},
    "[[workload.statement]]": {"workload": [{"name": "w", "statement": [{"name": "s", "sql": "SELECT 1"}]}]},
}
KINDS: dict[type[Kind], set[str]] = {
    Failover: {"synchronous", "synchronous-standby"},
    Load: {"bulk-load", "load-settings"},
    PowerCuts: {"power-cut"},
    Replay: {"replay", "replay-audit", "replay-prefetch", "replication-versions"},
    Statements: {"wal-level"},
    Streaming: {"replication-live", "replication-behind"},
    Throughput: {
        "checkpoints", "commit-delay", "durability", "recovery", "sync-methods", "wal-compression",
        "write-settings", "write-settings-together",
    },
}  # fmt: skip


def _plan(install: Install, changes: dict[str, Any], **overrides: Any) -> Plan:
    study = {"name": "mine", "title": "?", "workload": [{"name": "w"}], "variant": [{"name": "default"}]}
    checked = check_study({**study, **changes}, "test")
    return resolve(checked, Overrides(**overrides), folder=Path("/somewhere"), given=(install,))


def _built_in(install: Install, name: str, **overrides: Any) -> Plan:
    study, _, scripts = read_study(name)
    asked = Overrides(**overrides)
    return resolve(study, asked, folder=Path("/somewhere"), scripts=scripts, given=(install,))


def test_every_built_in_study_is_of_one_kind(embedded: Install) -> None:
    found: dict[type[Kind], set[str]] = {}
    for name in built_in_names():
        found.setdefault(type(_built_in(embedded, name).kind), set()).add(name)
    assert found == KINDS


@pytest.mark.parametrize(("one", "other"), list(itertools.combinations(TABLES, 2)))
def test_a_study_of_two_kinds_is_refused(embedded: Install, one: str, other: str) -> None:
    with pytest.raises(StudyError, match="a study is of one kind") as raised:
        _plan(embedded, {**TABLES[one], **TABLES[other]})
    assert one in raised.value.message
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


def test_what_can_be_added(embedded: Install) -> None:
    assert isinstance(_plan(embedded, {"power_cut": {}}).kind, Throughput)
    assert isinstance(_plan(embedded, {"crash": {}}).kind, Throughput)
    assert isinstance(_plan(embedded, {}, power_cut_images=2).kind, Throughput)
    cuts = _plan(embedded, TABLES["[power_cut] only"], power_cut_images=2)
    assert isinstance(cuts.kind, PowerCuts)
    assert cuts.power_cut is not None
    assert cuts.power_cut.images == 2


def test_settings_of_a_variant_have_what_came_along(embedded: Install) -> None:
    changes = {
        "base": {"jit": "off"},
        "variant": [{"name": "default"}, {"name": "minimal", "settings": {"wal_level": "minimal"}}],
    }
    plan = _plan(embedded, changes)
    settings = plan.settings_of(plan.variant("minimal"))
    assert settings == {**plan.base_settings, "wal_level": "minimal", "max_wal_senders": "0"}


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
    monkeypatch.setattr("walproof.lab.study.audit_refusal", lambda: None)
    text = plan_text(_built_in(embedded, name), ["walproof"])
    assert [phrase for phrase in says if phrase not in text] == [], text
    assert "pgbench ," not in text


def test_the_report_names_the_load_of_each_kind(embedded: Install) -> None:
    found = {
        name: (load_of(plan, plan.workloads[0]), driven_by(plan))
        for name in ("bulk-load", "synchronous", "replay", "replication-live", "wal-level", "durability")
        for plan in [_built_in(embedded, name)]
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
    ("changes", "broken"),
    [({"crash": {}}, "crash_and_recover"), ({"power_cut": {"images": 1}}, "cut_power")],
)
def test_what_is_added_and_fails_leaves_the_trial(
    embedded: Install, work: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], broken: str
) -> None:
    """A window that was measured stays measured."""

    def fail(*_: object, **__: object) -> None:
        raise DiskError("the run is void: the machine was in the way")

    monkeypatch.setattr(f"walproof.lab.trial.{broken}", fail)
    monkeypatch.setattr("walproof.lab.trial.run_self_test", lambda _lab: "")
    workload = [{"name": "w", "scale": 1, "clients": 1, "duration": "1s"}]
    study = {"name": "mine", "title": "?", "workload": workload, "variant": [{"name": "default"}], **changes}
    checked = check_study(study, "test")
    plan = resolve(checked, Overrides(rounds=1, probes=()), folder=work, given=(embedded,))
    with ready_to_run(plan, Silence()) as trials:
        trial, _ = trials.run(TrialOrder(1, 1, embedded.label, "w", "default"))
    assert trial.state is TrialState.DONE, trial.reason
    assert trial.metrics["tps"] > 0
    assert [one for one in trial.warnings if "not measured: the run is void" in one], trial.warnings
