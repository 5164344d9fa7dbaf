"""A study of loading becomes a plan; what cannot be loaded that way is refused, or left out by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from walproof.errors import StudyError
from walproof.facts import Install, Load, LoadMethod, Plan
from walproof.lab.asked import Overrides
from walproof.lab.kinds.loading.advice import only_table
from walproof.lab.reading import check_study
from walproof.lab.study import read_study, resolve
from walproof.settings.durability import DurabilityClass

STUDY: dict[str, Any] = {
    "name": "mine",
    "title": "?",
    "workload": [{"name": "rows"}],
    "load": {"table": "t", "ddl": "CREATE TABLE t (x int)", "rows": 500, "quick_rows": 100},
    "variant": [{"name": "a"}],
}


def _plan(install: Install, load: dict[str, Any], **overrides: Any) -> Plan:
    study = {**STUDY, "variant": [{"name": "a"}, {"name": "b", "load": load}]}
    return resolve(check_study(study, "test"), Overrides(**overrides), folder=Path("/x"), given=(install,))


def test_methods_and_their_classes(embedded: Install) -> None:
    plan = _plan(embedded, {"feed": "values", "steps": ["unlogged"]}, quick=True)
    assert plan.kind_as(Load).rows == 100
    assert plan.variant("b").conditions == LoadMethod("values", 1_000, 1, ("unlogged",))
    assert plan.variant("b").durability is DurabilityClass.TABLE
    assert plan.variant("a").durability is DurabilityClass.NONE


@pytest.mark.parametrize(
    ("load", "says"),
    [
        ({"steps": ["freeze"]}, 'has the step "freeze" without "truncate"'),
        ({"steps": ["truncate"], "sessions": 2}, "needs one COPY in one transaction"),
        ({"feed": "insert", "steps": ["truncate"]}, "needs one COPY in one transaction"),
        ({"feed": "adbc", "batch_rows": 5}, "all rows at once"),
        ({"feed": "carrier pigeon"}, "mistake"),
        ({"sessions": 0}, "mistake"),
    ],
)
def test_what_makes_no_load_is_refused(embedded: Install, load: dict[str, Any], says: str) -> None:
    with pytest.raises(StudyError, match=says):
        _plan(embedded, load)


def test_a_load_stands_alone(embedded: Install) -> None:
    others: tuple[dict[str, Any], ...] = (
        {"replay": {}},
        {"workload": [{"name": "w", "builtin": "tpcb-like"}]},
    )
    for changes in others:
        study = check_study({**STUDY, **changes}, "test")
        with pytest.raises(StudyError):
            resolve(study, Overrides(), folder=Path("/x"), given=(embedded,))


def test_wal_elsewhere_is_a_variant_of_the_baseline(embedded: Install) -> None:
    plan = _plan(embedded, {}, waldir=Path("/mnt/wal"))
    assert [(variant.name, variant.waldir) for variant in plan.variants] == [
        ("a", None), ("b", None), ("a, WAL in /mnt/wal", "/mnt/wal"),
    ]  # fmt: skip
    with pytest.raises(StudyError, match="cannot be on a simulated disk"):
        _plan(embedded, {}, waldir=Path("/mnt/wal"), device="flush=1ms")


def test_its_power_is_not_cut(embedded: Install) -> None:
    with pytest.raises(StudyError, match="--power-cut cannot be added to a study of loading"):
        _plan(embedded, {}, power_cut_images=1)


def test_the_built_in_study_resolves_on_every_version(install: Install) -> None:
    study, _, folder = read_study("bulk-load")
    plan = resolve(study, Overrides(quick=True), folder=folder, given=(install,))
    names = {variant.name for variant in plan.variants}
    assert {left.variant for left in plan.references} <= names | {left.variant for left in plan.left_out}
    assert ("staging table, MERGE" in names) == (install.version_num >= 150000)


@pytest.mark.parametrize(
    ("ddl", "found"),
    [
        ('CREATE TABLE "My t" (x int)', '"My t"'),
        ("create unlogged table if not exists s.t (x int); CREATE TABLE p PARTITION OF s.t DEFAULT", "s.t"),
    ],
)
def test_the_only_table_needs_no_name(ddl: str, found: str) -> None:
    assert only_table(ddl) == found


@pytest.mark.parametrize("ddl", ["SELECT 1", "CREATE TABLE a (x int); CREATE TABLE b (x int)"])
def test_of_several_tables_one_has_to_be_named(ddl: str) -> None:
    with pytest.raises(StudyError):
        only_table(ddl)
