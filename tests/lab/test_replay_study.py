"""A study of replay becomes a plan: what is no setting is taken apart, what has no meaning is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from walproof.cli.plan import plan_text
from walproof.errors import StudyError
from walproof.facts import Install, Plan, Replay, ReplayConditions
from walproof.lab.asked import Overrides
from walproof.lab.kinds.replay.recording import checksum_options
from walproof.lab.preflight import check
from walproof.lab.reading import check_study
from walproof.lab.study import read_study, resolve

STUDY: dict[str, Any] = {
    "name": "mine",
    "title": "?",
    "replay": {"rows": 1200, "preloaded_rows": 1000, "rows_per_commit": 500, "quick_rows": 400},
    "workload": [{"name": "inserts"}],
    "factors": {
        "data_checksums": ["off", "on"],
        "cache": ["warm", "cold"],
        "wal_level": ["replica", "logical"],
    },
}


def _plan(install: Install, changes: dict[str, Any] | None = None, **overrides: Any) -> Plan:
    study = check_study({**STUDY, **(changes or {})}, "test")
    return resolve(study, Overrides(**overrides), folder=Path("/somewhere"), given=(install,))


def test_checksums_and_cache_are_conditions_and_stay_factors(install: Install) -> None:
    plan = _plan(install)
    assert plan.kind == Replay(1200, 1000, 500)
    assert len(plan.variants) == 8
    for variant in plan.variants:
        assert set(variant.settings) == {"wal_level"}
        assert variant.conditions == ReplayConditions(
            checksums=variant.levels["data_checksums"] == "on", is_cold=variant.levels["cache"] == "cold"
        )
    assert plan.workloads[0].transactions == 3
    assert plan.workloads[0].builtin is None


def test_the_quick_form_has_fewer_rows(embedded: Install) -> None:
    assert _plan(embedded, quick=True).kind == Replay(400, 1000, 500)


def test_checksums_are_an_option_of_initdb(install: Install) -> None:
    assert checksum_options(install, True) == ("--data-checksums",)
    assert bool(checksum_options(install, False)) == (install.version_num >= 180000)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"factors": {"cache": ["warm", "tepid"]}}, 'cache cannot be "tepid"'),
        ({"factors": {"kernel_audit": ["off", "on"]}}, 'kernel_audit cannot be "on"'),
        ({"factors": {"wal_level": ["minimal", "replica"]}}, "cannot be made with wal_level=minimal"),
        ({"base": {"wal_level": "MINIMAL"}}, "cannot be made with wal_level=MINIMAL"),
        ({"base": {"recovery_min_apply_delay": "1h"}}, "does not replay all WAL at once with"),
        ({"base": {"synchronous_standby_names": "*"}}, "wait for a standby that does not exist"),
        ({"initdb": ["--data-checksums"]}, "initdb has --data-checksums, but data checksums are a condition"),
        (
            {"base": {"recovery_target": "immediate"}},
            "does not replay all WAL with recovery_target=immediate",
        ),
        ({"workload": [{"name": "w", "builtin": "tpcb-like"}]}, "one workload, without scripts"),
        ({"workload": [{"name": "a"}, {"name": "b"}]}, "one workload"),
        ({"workload": [{"name": "w", "clients": 8, "scale": 100}]}, "has clients and scale"),
        ({"replay": {"rows": 0}}, "mistake"),
    ],
)
def test_what_has_no_meaning_is_refused(embedded: Install, changes: dict[str, Any], says: str) -> None:
    with pytest.raises(StudyError, match=says):
        _plan(embedded, changes)


def test_kernel_audit_is_a_condition(embedded: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be audited here is refused before the first trial, by name."""
    monkeypatch.setenv("PATH", "/nonexistent")
    plan = _plan(embedded, {"factors": {"kernel_audit": ["off", "quiet"], "wal_compression": ["off", "on"]}})
    assert {variant.conditions_as(ReplayConditions).kernel_audit for variant in plan.variants} == {
        "off",
        "quiet",
    }
    assert all(set(variant.settings) == {"wal_compression"} for variant in plan.variants)
    with pytest.raises(StudyError, match="cannot run here") as refused:
        check(plan)
    lines = str(refused.value.detail).splitlines()
    assert lines == [
        f"kernel_audit=quiet, wal_compression={value}: kernel audit: auditctl is not installed"
        for value in ("off", "on")
    ]
    assert "CAP_AUDIT_CONTROL" in str(refused.value.hint)


def test_a_library_may_be_a_factor(embedded: Install) -> None:
    factors = {"shared_preload_libraries": ["", "pgaudit"], "wal_level": ["replica", "logical"]}
    plan = _plan(embedded, {"factors": factors, "base": {"pgaudit.log": "all"}})
    assert len(plan.variants) == 4
    with pytest.raises(StudyError, match="cannot run here") as refused:
        check(plan)
    assert 'has no library "pgaudit"' in str(refused.value.detail)


def test_the_study_of_auditing_leaves_out_what_is_not_here(
    embedded: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    study, _, folder = read_study("replay-audit")
    plan = resolve(study, Overrides(), folder=Path("/somewhere"), scripts=folder, given=(embedded,))
    assert [variant.name for variant in plan.variants] == ["no audit"]
    reasons = {left.variant: left.reason for left in plan.left_out}
    assert 'has no library "pgaudit"' in reasons["pgaudit"]
    said = plan_text(plan, ["walproof", "run", "replay-audit"])
    assert "transactions" not in said  # its trials are as long as replay takes
    assert f"\nleft out\n  pgaudit: {reasons['pgaudit']}\n" in said
    assert reasons["kernel audit, recording"] == "kernel audit: auditctl is not installed"
