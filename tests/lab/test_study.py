"""From study to plan: defaults, overrides, implied settings, classes, and everything that is refused."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from walproof.errors import SettingError, StudyError, WalproofError
from walproof.facts import Install, Plan
from walproof.lab.asked import Overrides, text_of
from walproof.lab.reading import check_study
from walproof.lab.study import ad_hoc, built_in_names, read_study, resolve
from walproof.lab.workloads import NAME_MOST
from walproof.settings.durability import DurabilityClass

STUDY: dict[str, Any] = {
    "name": "mine",
    "title": "?",
    "workload": [{"name": "w", "clients": 2, "duration": "5s"}],
    "variant": [{"name": "default"}, {"name": "off", "settings": {"fsync": "off"}}],
}


def _plan(install: Install, changes: dict[str, Any] | None = None, **overrides: Any) -> Plan:
    study = check_study({**STUDY, **(changes or {})}, "test")
    return resolve(study, Overrides(**overrides), folder=Path("/somewhere"), given=(install,))


@pytest.mark.parametrize("name", built_in_names())
def test_built_in_studies_resolve_on_every_version(install: Install, name: str) -> None:
    study, _, scripts = read_study(name)
    plan = resolve(study, Overrides(), folder=Path("/somewhere"), scripts=scripts, given=(install,))
    assert plan.baseline in [variant.name for variant in plan.variants]
    assert {reference.variant for reference in plan.references} <= {v.name for v in plan.variants}
    assert {reference.workload for reference in plan.references} <= {None, *(w.name for w in plan.workloads)}


def test_a_cell_of_many_factors_is_named_by_what_differs(embedded: Install) -> None:
    levels = {name: ["on", "off"] for name in ("fsync", "autovacuum", "full_page_writes", "enable_sort")}
    changes = {"variant": [], "design": {"fraction": "one-at-a-time"}}
    few = _plan(embedded, {**changes, "factors": levels})
    assert few.baseline == "fsync=on, autovacuum=on, full_page_writes=on, enable_sort=on"
    many = _plan(embedded, {**changes, "factors": {**levels, "jit": ["on", "off"]}})
    assert [variant.name for variant in many.variants][:2] == ["reference", "fsync=off"]
    assert many.baseline == "reference"


def test_optional_variants_are_left_out_where_the_build_lacks_them(install: Install) -> None:
    study, _, scripts = read_study("wal-compression")
    plan = resolve(study, Overrides(), folder=Path("/somewhere"), scripts=scripts, given=(install,))
    names = [variant.name for variant in plan.variants]
    assert names[:2] == ["off", "pglz"]
    assert sorted([*names, *(left.variant for left in plan.left_out)]) == ["lz4", "off", "pglz", "zstd"]
    for left in plan.left_out:
        assert install.label in left.reason, "the install that lacks it is named"
    if install.version_num < 150000:
        assert plan.variant("pglz").implied == {"wal_compression": "on"}, "before 15 it had no name"
        assert len(plan.left_out) == 2
    else:
        assert plan.variant("pglz").implied == {}


def test_a_variant_that_is_not_optional_is_refused(embedded: Install) -> None:
    variants: list[dict[str, Any]] = [
        {"name": "default"},
        {"name": "lz5", "settings": {"wal_compression": "lz5"}},
    ]
    with pytest.raises(SettingError, match="lz5"):
        _plan(embedded, {"variant": variants})
    variants[1]["optional"] = True
    assert [left.variant for left in _plan(embedded, {"variant": variants}).left_out] == ["lz5"]
    with pytest.raises(StudyError, match="no variant of the study can be run"):
        _plan(embedded, {"variant": variants[1:]})


def test_statements_are_a_workload_of_their_own(embedded: Install) -> None:
    statement = {"name": "one", "sql": "SELECT 1", "setup": ["CHECKPOINT"], "explain": True}
    plan = _plan(embedded, {"workload": [{"name": "w", "statement": [statement]}]})
    (workload,) = plan.workloads
    assert (workload.clients, workload.transactions, workload.builtin) == (1, 1, None)
    assert workload.statements[0].setup == ("CHECKPOINT",)
    twice = {"workload": [{"name": "w", "statement": [statement, statement]}]}
    with pytest.raises(StudyError, match='two of the statements are called "one"'):
        _plan(embedded, twice)
    longest = {**statement, "name": "é" * NAME_MOST}
    assert _plan(embedded, {"workload": [{"name": "w", "statement": [longest]}]}).workloads
    longer = {**statement, "name": "x" * (NAME_MOST + 1)}
    with pytest.raises(StudyError, match="a name of 121 characters, expected 120 at most"):
        _plan(embedded, {"workload": [{"name": "w", "statement": [longer]}]})
    parted = {**statement, "name": "UPDATE a || b"}
    with pytest.raises(StudyError) as caught:
        _plan(embedded, {"workload": [{"name": "w", "statement": [parted]}]})
    assert 'statement[1].name: a statement\'s name cannot have "|"' in str(caught.value.detail)
    both = {"workload": [{"name": "w", "builtin": "tpcb-like", "statement": [statement]}]}
    with pytest.raises(StudyError, match="both a builtin and statements"):
        _plan(embedded, both)


def test_the_durability_study_has_the_published_variants(embedded: Install) -> None:
    study, _, scripts = read_study("durability")
    plan = resolve(study, Overrides(), folder=Path("/somewhere"), scripts=scripts, given=(embedded,))
    classes = {variant.name: variant.durability for variant in plan.variants}
    assert classes == {
        "default": DurabilityClass.NONE,
        "pgtune": DurabilityClass.NONE,
        "wal_level=minimal": DurabilityClass.NONE,
        "fsync=off": DurabilityClass.CORRUPT,
        "synchronous_commit=off": DurabilityClass.LAST_COMMITS,
        "full_page_writes=off": DurabilityClass.CORRUPT,
        "all three off": DurabilityClass.CORRUPT,
    }
    small, large = plan.workloads
    assert (small.scale, small.clients, small.threads, small.duration_s) == (1, 50, 2, 60.0)
    assert large.scale >= large.clients


def test_names_of_studies() -> None:
    assert {"durability", "commit-delay"} <= set(built_in_names())
    with pytest.raises(StudyError) as caught:
        read_study("durabilty")
    assert 'Did you mean "durability"?' in str(caught.value.hint)


def test_minimal_wal_brings_no_senders(embedded: Install) -> None:
    plan = _plan(embedded, {"variant": [{"name": "m", "settings": {"wal_level": "minimal"}}]})
    assert plan.variants[0].implied == {"max_wal_senders": "0"}


@pytest.mark.parametrize("setting", ["max_connections", "MAX_CONNECTIONS"])
def test_connections_make_room_for_the_probes(embedded: Install, setting: str) -> None:
    plan = _plan(
        embedded,
        {
            "workload": [{"name": "w", "clients": 50, "duration": "5s"}],
            "variant": [{"name": "default"}, {"name": "few", "settings": {setting: 50}}],
        },
    )
    assert "max_connections" not in plan.base_settings
    assert int(plan.variant("few").implied["max_connections"]) > 50
    assert not plan.notes, "the load itself fits"


def test_what_the_load_does_not_fit_into_is_said(embedded: Install) -> None:
    plan = _plan(
        embedded,
        {
            "workload": [{"name": "w", "clients": 50, "duration": "5s"}],
            "variant": [{"name": "default"}, {"name": "few", "settings": {"MAX_CONNECTIONS": 40}}],
        },
    )
    assert plan.notes == ("few: max_connections is 58 instead of 40, because the load has 50 clients.",)


def test_many_clients_raise_max_connections_for_all(embedded: Install) -> None:
    plan = _plan(embedded, {"workload": [{"name": "w", "clients": 200, "duration": "5s"}]})
    assert int(plan.base_settings["max_connections"]) > 200
    assert not plan.notes, "nobody has asked for fewer"
    few = _plan(
        embedded,
        {"base": {"max_connections": 60}, "workload": [{"name": "w", "clients": 80, "duration": "5s"}]},
    )
    assert few.notes == ("the base: max_connections is 88 instead of 60, because the load has 80 clients.",)


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        ({}, (5, None, None)),
        ({"quick": True}, (3, None, None)),
        ({"rounds": 9}, (9, None, None)),
        ({"quick": True, "rounds": 9}, (9, None, None)),
        ({"within": 0.03}, (50, 0.03, None)),
        ({"within": 0.03, "rounds": 7}, (7, 0.03, None)),
        ({"budget_s": 60.0}, (50, None, 60.0)),
    ],
)
def test_the_command_line_replaces_the_stop_rule(
    embedded: Install, overrides: dict[str, Any], expected: tuple[object, ...]
) -> None:
    plan = _plan(embedded, **overrides)
    assert (plan.rounds, plan.half_width, plan.budget_s) == expected


def test_no_ratio_is_asked_to_be_known_more_finely_than_a_report_shows(embedded: Install) -> None:
    assert _plan(embedded, within=0.001).half_width == 0.001
    with pytest.raises(StudyError, match=r"no ratio can be known within 0\.0001 %"):
        _plan(embedded, within=0.000001)
    with pytest.raises(StudyError, match=r"within 0\.05 %"):
        _plan(embedded, {"design": {"within": 0.0005}})


def test_a_duration_replaces_transactions(embedded: Install) -> None:
    counted = {"workload": [{"name": "w", "transactions": 10}]}
    assert _plan(embedded, counted).workloads[0].duration_s is None
    assert _plan(embedded, counted, duration_s=3.0).workloads[0].transactions is None


def test_what_is_predicted_for_the_same_transactions_has_no_duration(embedded: Install) -> None:
    counted = {"workload": [{"name": "w", "transactions": 10}], "crash": {"predict": True}}
    assert _plan(embedded, counted).workloads[0].transactions == 10
    with pytest.raises(StudyError, match="predict needs workloads of a fixed number") as caught:
        _plan(embedded, counted, duration_s=3.0)
    assert caught.value.hint == "Leave out --duration."


def test_factors_become_variants(embedded: Install) -> None:
    changes = {"variant": [], "factors": {"fsync": ["on", "off"], "wal_level": ["replica", "minimal"]}}
    plan = _plan(embedded, changes)
    assert len(plan.variants) == 4
    assert plan.baseline == "fsync=on, wal_level=replica"
    assert plan.variant("fsync=off, wal_level=minimal").implied == {"max_wal_senders": "0"}
    assert plan.variant("fsync=off, wal_level=minimal").durability is DurabilityClass.CORRUPT


def test_a_fraction_names_what_it_cannot_tell_apart(embedded: Install) -> None:
    factors = {
        "fsync": ["on", "off"],
        "full_page_writes": ["on", "off"],
        "synchronous_commit": ["on", "off"],
    }
    plan = _plan(embedded, {"variant": [], "factors": factors, "design": {"fraction": "half"}})
    assert len(plan.variants) == 4
    assert plan.aliases


def test_all_bad_settings_are_named_at_once(embedded: Install) -> None:
    variants = [
        {"name": "a", "settings": {"fsyn": "off", "max_wal_size": 1}},
        {"name": "b", "settings": {"work_mem": "3 parsecs", "fsyn": "off"}},
    ]
    with pytest.raises(SettingError) as caught:
        _plan(embedded, {"variant": variants})
    said = f"{caught.value.message} {caught.value.detail} {caught.value.hint}"
    for part in ("fsyn", "Did you mean fsync", "max_wal_size", "3 parsecs", "3 settings"):
        assert part in said, said


def test_contradictions_are_refused(embedded: Install) -> None:
    settings = {"wal_level": "minimal", "max_wal_senders": 4}
    with pytest.raises(SettingError, match="max_wal_senders > 0"):
        _plan(embedded, {"variant": [{"name": "b", "settings": settings}]})


@pytest.mark.parametrize(
    ("tables", "max_wal_size", "refusal"),
    [
        ({"initdb": ["--wal-segsize=64"]}, "100MB", "less than two WAL segments of 64 MB"),
        ({"initdb": ["--wal-segsize", "1"]}, "8MB", None),
        ({"initdb": ["--wal-segsize=64", "--wal-segsize=1"]}, "8MB", None),
        ({}, "16MB", "less than two WAL segments of 16 MB"),
        ({"power_cut": {"only": True}}, "16MB", None),
        ({"power_cut": {"only": True}}, "4MB", "less than two WAL segments of 4 MB"),
        ({"power_cut": {}, "initdb": ["--wal-segsize=1"]}, "4MB", "less than two WAL segments of 4 MB"),
    ],
)
def test_settings_are_judged_by_the_segments_of_the_study(
    embedded: Install, tables: dict[str, Any], max_wal_size: str, refusal: str | None
) -> None:
    changes = {**tables, "variant": [{"name": "b", "settings": {"max_wal_size": max_wal_size}}]}
    if refusal is None:
        assert _plan(embedded, changes).variants
        return
    with pytest.raises(SettingError, match=refusal):
        _plan(embedded, changes)


_NAMES = {"synchronous_standby_names": "s1"}
BAD: list[tuple[dict[str, Any], str]] = [
    ({"variant": []}, "neither variants nor factors"),
    ({"factors": {"fsync": ["on", "off"]}}, "both variants and factors"),
    ({"baseline": "nothing"}, 'baseline "nothing" is not a variant'),
    ({"variant": [{"name": "a"}, {"name": "a"}]}, 'two of the variants are called "a"'),
    ({"workload": [{"name": "w"}, {"name": "w"}]}, 'two of the workloads are called "w"'),
    ({"workload": [{"name": "w", "threads": 3}]}, "more threads (3) than clients (1)"),
    ({"workload": [{"name": "w", "duration": "1s", "transactions": 1}]}, "both a duration and transactions"),
    ({"workload": [{"name": "w", "duration": "200ms"}]}, "window of 0.2 s"),
    ({"workload": [{"name": "w", "script": [{}]}]}, "exactly one of file and sql"),
    ({"workload": [{"name": "w", "script": [{"file": "no.sql"}]}]}, "could not read script"),
    ({"workload": [{"name": "w", "setup": "no.sql"}]}, "could not read setup"),
    (
        {"workload": [{"name": "w", "builtin": "tpcb-like", "script": [{"sql": "SELECT 1;"}]}]},
        "both a builtin and scripts",
    ),
    ({"design": {"probes": ["waits", "weather"]}}, 'probe "weather" does not exist'),
    ({"variant": [], "factors": {"fsync": ["on", "off"]}, "design": {"fraction": "tenth"}}, "tenth"),
    ({"power_cut": {}, "initdb": ["-c", "fsync=off"]}, "initdb has -c in a study of power cuts"),
    ({"power_cut": {"only": True}, "initdb": ["--set=fsync=off"]}, "initdb has --set=fsync=off in a study"),
    ({"base": _NAMES}, "commits would wait for a standby that does not exist"),
    ({"variant": [{"name": "a", "settings": _NAMES}]}, 'It is set in variant "a".'),
    ({"base": _NAMES, "power_cut": {"only": True}}, "wait for a standby that does not exist"),
    (
        {"base": _NAMES, "workload": [{"name": "w", "statement": [{"name": "s", "sql": "SELECT 1"}]}]},
        "wait for a standby that does not exist",
    ),
]


@pytest.mark.parametrize(("changes", "says"), BAD, ids=[says for _, says in BAD])
def test_what_makes_no_plan_is_refused(embedded: Install, changes: dict[str, Any], says: str) -> None:
    with pytest.raises(WalproofError) as caught:
        _plan(embedded, changes)
    assert says in f"{caught.value.message} {caught.value.detail}"


def test_a_file_that_is_not_utf_8_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "tables.sql").write_bytes("CREATE TABLE t (a int);\n-- Größe\n".encode("latin-1"))
    with pytest.raises(StudyError) as caught:
        text_of("tables.sql", tmp_path, "setup")
    assert caught.value.message == f'could not read setup "{tmp_path / "tables.sql"}": line 2 is not UTF-8'
    assert caught.value.detail == "Byte 30 of the file is 0xf6."
    assert caught.value.hint == "Save the file as UTF-8."


def test_a_setting_of_a_later_version_is_refused_by_an_older_install(embedded: Install) -> None:
    old = dataclasses.replace(embedded, label="13.7", version="13.7", version_num=130007)
    study = check_study({**STUDY, "variant": [{"name": "s", "settings": {"summarize_wal": "on"}}]}, "test")
    with pytest.raises(SettingError) as caught:
        resolve(study, Overrides(), folder=Path("/somewhere"), given=(old,))
    assert "17" in f"{caught.value.message} {caught.value.detail} {caught.value.hint}"


def test_an_ad_hoc_study_compares_with_the_defaults(embedded: Install) -> None:
    study = ad_hoc([{"fsync": "off"}, {"wal_level": "minimal", "work_mem": "8MB"}], {"name": "w"})
    plan = resolve(study, Overrides(), folder=Path("/somewhere"), given=(embedded,))
    assert [v.name for v in plan.variants] == ["default", "fsync=off", "wal_level=minimal, work_mem=8MB"]
    assert plan.baseline == "default"


def test_scripts_of_one_file_name_keep_their_folders(embedded: Install, tmp_path: Path) -> None:
    """What is kept by name was kept of the last one alone."""
    for name in ("reads/orders.sql", "writes/orders.sql", "writes/items.sql"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("SELECT 1;\n")
    files = ("reads/orders.sql", "writes/orders.sql", "writes/items.sql")
    load = {"name": "w", "clients": 2, "duration": "5s", "script": [{"file": file} for file in files]}
    study = check_study({**STUDY, "workload": [load]}, "test")
    plan = resolve(study, Overrides(), folder=Path("/x"), scripts=tmp_path, given=(embedded,))
    names = [script.name for script in plan.workloads[0].scripts]
    assert names == ["reads/orders.sql", "writes/orders.sql", "items.sql"]
