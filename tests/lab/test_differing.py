"""A variant that is the same as the baseline is named, whatever words its values have."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from walproof.cli.plan import plan_text
from walproof.facts import Install, Plan
from walproof.facts.codec import plan_hash
from walproof.lab.asked import Overrides
from walproof.lab.configurations import read_configurations
from walproof.lab.pgbench_tables import watching_settings
from walproof.lab.reading import check_study
from walproof.lab.study import ad_hoc, resolve

LOAD = {"name": "w", "clients": 4, "duration": 10}
SAID = "{} differs from the baseline, default, in nothing that acts: a difference between them is chance."


def _compare(
    installs: tuple[Install, ...], *sets: dict[str, str], tables: dict[str, Any] | None = None
) -> Plan:
    study = ad_hoc(sets, LOAD, tables=tables)
    return resolve(study, Overrides(), folder=Path("/somewhere"), given=installs)


@pytest.mark.parametrize(
    ("setting", "is_same"),
    [
        ("max_wal_size=1GB", True),
        ("MAX_WAL_SIZE=1024MB", True),
        ("fsync=yes", True),
        ("checkpoint_timeout=300s", True),
        ("shared_buffers=131072kB", True),
        ("synchronous_commit=true", True),
        ("wal_compression=false", True),
        # It says how many sessions commit_delay waits for, and that is 0.
        ("commit_siblings=6", True),
        ("max_wal_size=1025MB", False),
        # Where the platform or initdb decides, nobody can tell without a server.
        ("wal_sync_method=fdatasync", False),
        ("timezone=GMT", False),
    ],
)
def test_defaults_in_other_words(embedded: Install, setting: str, is_same: bool) -> None:
    plan = _compare((embedded,), dict([setting.split("=")]))
    assert plan.notes == ((SAID.format(setting),) if is_same else ())
    assert plan.same == ((setting,) if is_same else ())
    assert plan_hash(plan) == plan_hash(replace(plan, same=()))
    assert (SAID.format(setting) in plan_text(plan, ["walproof", "compare"])) is is_same


def test_siblings_count_where_a_commit_is_delayed(embedded: Install) -> None:
    study = ad_hoc([{"commit_siblings": "6"}], LOAD)
    delayed = Overrides(base={"commit_delay": "100"})
    assert resolve(study, delayed, folder=Path("/somewhere"), given=(embedded,)).same == ()
    by_initdb = _compare(
        (embedded,), {"commit_siblings": "6"}, tables={"initdb": ["-c", "commit_delay=1000"]}
    )
    assert by_initdb.same == ()


def test_what_the_baseline_has_from_a_file(embedded: Install, tmp_path: Path) -> None:
    (tmp_path / "k.conf").write_text("checkpoint_timeout = 15min\n")
    confs = read_configurations([tmp_path / "k.conf"], [embedded])
    sets = [{"synchronous_commit": "off"}, {"checkpoint_timeout": "900s"}, {"checkpoint_timeout": "5min"}]
    plan = resolve(
        ad_hoc(sets, LOAD, configurations=confs), Overrides(), folder=Path("/x"), given=(embedded,)
    )
    assert plan.notes == (SAID.format("checkpoint_timeout=900s").replace("default", "k.conf"),)
    assert plan.variant("checkpoint_timeout=900s").design_reason == "it does not differ from the baseline"
    off = plan.variant("synchronous_commit=off")
    assert (off.design_reason or "").startswith("a reload changes synchronous_commit, and nothing is left")


def test_a_reason_names_what_differs_alone(embedded: Install, tmp_path: Path) -> None:
    (tmp_path / "a.conf").write_text("checkpoint_timeout = 15min\nwork_mem = 8MB\n")
    (tmp_path / "b.conf").write_text("checkpoint_timeout = 15min\nwork_mem = 9MB\n")
    confs = read_configurations([tmp_path / "a.conf", tmp_path / "b.conf"], [embedded])
    sets = [{"checkpoint_timeout": "15min", "commit_delay": "10"}]
    plan = resolve(
        ad_hoc(sets, LOAD, configurations=confs), Overrides(), folder=Path("/x"), given=(embedded,)
    )
    variant = plan.variant("checkpoint_timeout=15min, commit_delay=10")
    assert variant.design_reason == "a reload changes commit_delay, and nothing is left behind"


def test_a_default_of_some_installs_is_none_of_all(embedded: Install) -> None:
    old = replace(embedded, label="17", version="17", version_num=170000, bindir="/nowhere")
    concurrency = {"effective_io_concurrency": "16"}
    assert _compare((embedded,), concurrency).notes == (SAID.format("effective_io_concurrency=16"),)
    assert _compare((embedded, old), concurrency).notes == ()


def test_initdb_may_have_chosen_the_defaults(embedded: Install) -> None:
    tables = {"initdb": ["--wal-segsize=64"]}
    assert _compare((embedded,), {"max_wal_size": "1GB"}, tables=tables).notes == ()


def test_what_differs_beside_settings_differs(embedded: Install, tmp_path: Path) -> None:
    study = {
        "name": "mine", "title": "?", "workload": [LOAD],
        "variant": [{"name": "default"}, {"name": "moved", "waldir": str(tmp_path)}, {"name": "same"}],
    }  # fmt: skip
    plan = resolve(check_study(study, "t"), Overrides(), folder=Path("/x"), given=(embedded,))
    assert plan.notes == (SAID.format("same"),)
    loads = {
        "name": "mine", "title": "?", "workload": [{"name": "w"}],
        "load": {"table": "t", "ddl": "CREATE TABLE t (a int)"},
        "variant": [
            {"name": "default"},
            {"name": "copy", "load": {"feed": "copy"}},
            {"name": "insert", "load": {"feed": "insert"}},
        ],
    }  # fmt: skip
    plan = resolve(check_study(loads, "t"), Overrides(), folder=Path("/x"), given=(embedded,))
    assert plan.notes == (SAID.format("copy"),)


def test_what_a_variant_sets_no_other_server_has_for_probes(embedded: Install) -> None:
    """The baseline had track_wal_io_timing, too, for the probe of WAL, and the two were compared as alike."""
    plan = replace(_compare((embedded,), {"max_wal_size": "4GB"}), probes=("wal",))
    assert watching_settings(plan, 180000) == {"log_checkpoints": "on", "track_wal_io_timing": "on"}
    assert watching_settings(plan, 130000) == {"log_checkpoints": "on"}
    asked = replace(_compare((embedded,), {"TRACK_WAL_IO_TIMING": "on"}), probes=("wal",))
    assert watching_settings(asked, 180000) == {"log_checkpoints": "on"}
    both = _compare((embedded,), {"track_wal_io_timing": "off", "log_checkpoints": "off"})
    assert watching_settings(replace(both, probes=("wal",)), 180000) == {}
