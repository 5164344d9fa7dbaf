"""Lines for each platform: what it refuses, units both ways, undo, and that nothing else is touched."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walproof.errors import SettingError
from walproof.platforms.base_units import in_base_unit
from walproof.platforms.cloudsql import MERGE
from walproof.platforms.platform import PlatformTarget
from walproof.platforms.registry import PLATFORMS, platform
from walproof.platforms.rules import PlatformRule, rules_of
from walproof.platforms.wal_access import wal_access
from walproof.settings.catalogue import Catalogue
from walproof.settings.change import Before, Change
from walproof.settings.value import canonical, parse

TARGET = PlatformTarget(
    180006,
    {
        "max_wal_size": Before("1GB", is_default=True, is_in_auto_conf=False),
        "checkpoint_timeout": Before("10min", is_default=False, is_in_auto_conf=False),
        "wal_compression": Before("off", is_default=True, is_in_auto_conf=False),
        "wal_buffers": Before("16MB", is_default=False, is_in_auto_conf=True),
    },
)
CHANGES = (
    Change("max_wal_size", "8GB"),
    Change("checkpoint_timeout", "15min"),
    Change("wal_compression", "lz4"),
)
OLDER = PlatformTarget(150013, {"wal_compression": Before("off", is_default=True, is_in_auto_conf=False)})
RULES = [(name, rule) for name in PLATFORMS for rule in rules_of(name) if rule.refused_example]


@pytest.mark.parametrize(("name", "rule"), RULES, ids=lambda value: getattr(value, "setting", value))
def test_every_rule_refuses_its_example(name: str, rule: PlatformRule) -> None:
    setting, equals, value = rule.refused_example.partition("=")
    change = Change(setting, value) if equals else Change(rule.setting, rule.refused_example)
    refusal = PLATFORMS[name].refuse(change, TARGET)
    assert rule.is_for(TARGET.version_num)
    assert refusal is not None
    assert rule.looked_up in refusal.source


def test_every_rule_that_the_catalogue_does_not_imply_has_an_example() -> None:
    without = {
        (name, rule.setting)
        for name in PLATFORMS
        for rule in rules_of(name)
        if not rule.refused_example and rule.rule not in ("allow", "boolean", "static")
    }
    # Their ranges are the server's own.
    assert without == {("azure", "commit_delay"), ("azure", "wal_writer_delay")}


@pytest.mark.parametrize("name", PLATFORMS)
def test_what_a_platform_takes_is_written_with_an_undo(name: str) -> None:
    chosen = platform(name)
    taken = [change for change in CHANGES if chosen.refuse(change, TARGET) is None]
    if name == "aurora":
        # Checkpoints and images are not the user's there.
        assert taken == []
        return
    assert taken == list(CHANGES)
    lines = chosen.write(taken, TARGET)
    for change in taken:
        assert change.name in lines.apply
        assert change.name in lines.undo
    if name == "alter-system":
        # A value of postgresql.conf is in force again without the other file's line.
        assert "ALTER SYSTEM RESET checkpoint_timeout;" in lines.undo
    else:
        assert "10min" in lines.undo or "600" in lines.undo


@pytest.mark.parametrize("name", ["conf", "alter-system"])
def test_no_file_changes_what_the_server_was_started_with(name: str) -> None:
    started = Before("off", is_default=False, is_in_auto_conf=False, is_on_command_line=True)
    target = PlatformTarget(180006, {**TARGET.before, "wal_compression": started})
    refusal = platform(name).refuse(Change("wal_compression", "lz4"), target)
    assert refusal is not None
    assert "command line" in refusal.reason
    # Patroni starts the server, and gives it new options.
    assert platform("patroni").refuse(Change("wal_compression", "lz4"), target) is None


def test_a_bare_word_stays_a_word_for_patroni() -> None:
    (line,) = [
        line
        for line in platform("patroni").write([Change("wal_compression", "on")], TARGET).apply.splitlines()
        if "wal_compression" in line
    ]
    assert line.split(": ", 1)[1] == '"on"'
    assert "    wal_compression: null" in platform("patroni").write([CHANGES[2]], TARGET).undo


def test_an_operator_that_resets_nothing_gets_the_old_value() -> None:
    assert _patched("cnpg", "undo") == {"max_wal_size": None, "checkpoint_timeout": "10min"}
    assert _patched("zalando", "undo") == {"max_wal_size": "1GB", "checkpoint_timeout": "10min"}


def _patched(name: str, which: str) -> dict[str, str | None]:
    lines = platform(name).write(CHANGES[:2], TARGET)
    match = re.search(r"-p '(.*)'$", getattr(lines, which))
    assert match
    parameters: dict[str, str | None] = json.loads(match[1])["spec"]["postgresql"]["parameters"]
    return parameters


def test_rds_gets_whole_numbers_in_base_units() -> None:
    lines = platform("rds").write([*CHANGES, Change("wal_buffers", "64MB")], TARGET)
    # A call for each: AWS refuses a whole call for one wrong method.
    called = [json.loads(told) for told in re.findall(r"--parameters '(.*)'$", lines.apply, re.MULTILINE)]
    assert [(load["ParameterName"], load["ParameterValue"], load["ApplyMethod"]) for (load,) in called] == [
        ("max_wal_size", "8192", "immediate"),
        ("checkpoint_timeout", "900", "immediate"),
        ("wal_compression", "lz4", "immediate"),
        ("wal_buffers", "8192", "pending-reboot"),
    ]
    assert "reset-db-parameter-group" in lines.undo
    assert "In force after a reboot: wal_buffers." in lines.notes
    # Commands stand by themselves: wrapped within a sentence they break when they are pasted.
    ((_, shown), (_, kept)) = lines.commands
    assert shown.startswith("aws rds describe-db-parameters ")
    assert "ParameterName=='wal_buffers'" in shown
    assert kept.endswith("--source user > before.json")
    assert not any("aws rds" in note for note in lines.notes)
    assert any(note.endswith(shown) for note in lines.told)


@pytest.mark.parametrize("name", ["rds", "aurora", "rds-terraform", "cloudsql"])
def test_a_cloud_says_what_its_undo_does_not_know(name: str) -> None:
    """A value of the platform's own reads like one that somebody has set."""
    buffers = Before("4GB", is_default=False, is_in_auto_conf=False)
    change, other = Change("shared_buffers", "8GB"), Change("max_wal_size", "8GB")
    target = PlatformTarget(180006, {**TARGET.before, "shared_buffers": buffers})
    lines, plain = platform(name).write([change], target), platform(name).write([other], TARGET)
    (note,) = [note for note in lines.notes if "has now" in note]
    assert "has now of shared_buffers" in note
    is_kept = any(command.endswith("> before.json") for _, command in lines.commands)
    assert is_kept is (name != "rds-terraform")
    assert not [note for note in plain.told if "has now" in note or "before.json" in note]


def test_autovacuum_can_be_turned_on_on_aurora_and_rds_always_has_page_images() -> None:
    for name in ("autovacuum", "track_counts"):
        assert platform("aurora").refuse(Change(name, "on"), TARGET) is None
    refusal = platform("rds").refuse(Change("full_page_writes", "on"), TARGET)
    assert refusal is not None
    assert refusal.reason == "it is always on there"


def test_aws_calls_some_parameters_static_that_postgresql_reloads() -> None:
    older = PlatformTarget(140018, OLDER.before)
    change = Change("wal_compression", "on")
    for name in ("rds", "rds-terraform"):
        assert "pending-reboot" in platform(name).write([change], older).apply
        assert "immediate" in platform(name).write([change], OLDER).apply
        assert "In force after a reboot: wal_compression." in platform(name).write([change], older).notes
    refusal = platform("aurora").refuse(Change("recovery_init_sync_method", "fsync"), TARGET)
    assert refusal is not None
    assert "cannot be modified" in refusal.reason


@given(st.sampled_from(["max_wal_size", "checkpoint_timeout", "wal_buffers", "wal_writer_delay"]), st.data())
def test_units_go_both_ways(name: str, data: st.DataObject) -> None:
    setting = Catalogue.for_version(180000).get(name)
    assert setting.minimum is not None
    assert setting.maximum is not None
    number = data.draw(st.integers(max(0, int(setting.minimum)), int(setting.maximum)))
    shown = canonical(setting, str(number))
    told = in_base_unit(name, shown, 180000)
    assert int(told) == number
    assert parse(setting, told) == number


AZURE_READS_ONLY = {
    "max_slot_wal_keep_size": "8GB", "wal_keep_size": "1GB", "recovery_prefetch": "try",
    "wal_decode_buffer_size": "1MB", "wal_init_zero": "off", "wal_recycle": "off", "fsync": "on",
    "wal_skip_threshold": "4MB", "wal_sync_method": "fsync", "full_page_writes": "on",
    "synchronous_commit": "on", "checkpoint_flush_after": "0", "archive_timeout": "60",
    "recovery_init_sync_method": "syncfs",
}  # fmt: skip


@pytest.mark.parametrize("major", range(13, 19))
def test_azure_refuses_what_is_read_only_there_in_every_version(major: int) -> None:
    version_num = major * 10_000
    known = Catalogue.for_version(version_num).settings
    for name, value in AZURE_READS_ONLY.items():
        if name in known:
            refusal = platform("azure").refuse(Change(name, value), PlatformTarget(version_num, {}))
            assert refusal is not None, name
            assert "read-only" in refusal.reason or "archives" in refusal.reason
            assert "azure-databases-docs" in refusal.source


@pytest.mark.parametrize("value", ["pglz", "lz4", "zstd"])
def test_azure_takes_a_method_of_compression_from_18_on(value: str) -> None:
    change = Change("wal_compression", value)
    assert "--name wal_compression --value on" in platform("azure").write([change], OLDER).apply
    (note,) = platform("azure").write([change], OLDER).notes
    assert f"wal_compression = {value} is written as on" in note
    assert "on is pglz" in note
    assert f"--value {value}" in platform("azure").write([change], TARGET).apply
    assert platform("azure").write([change], TARGET).notes == ()
    for other in ("on", "off"):
        lines = platform("azure").write([Change("wal_compression", other)], OLDER)
        assert lines.apply.endswith(f"--value {other}")
        assert lines.undo.endswith("--value off")
        assert lines.notes == ()
    compressed = Before("pglz", is_default=False, is_in_auto_conf=False)
    before = PlatformTarget(170009, {"wal_compression": compressed})
    assert platform("azure").write([Change("wal_compression", "off")], before).undo.endswith("--value on")


def test_a_rule_is_for_its_versions_alone() -> None:
    rule = PlatformRule("a", "fixed", "", "", "", "", "", "15-17")
    assert [rule.is_for(major * 10_000 + 3) for major in (14, 15, 17, 18)] == [False, True, True, False]
    assert PlatformRule("a", "fixed", "", "", "", "", "").is_for(130000)
    assert not PlatformRule("a", "fixed", "", "", "", "", "", "18").is_for(170000)


def test_cloud_sql_keeps_the_flags_that_are_there() -> None:
    said = {"settings": {"databaseFlags": [{"name": "max_connections", "value": "200"},
                                           {"name": "max_wal_size", "value": "2048"}]}}  # fmt: skip

    def merged(described: object, **values: str | None) -> str:
        return subprocess.run(
            [sys.executable, "-c", MERGE, json.dumps(values)],
            input=json.dumps(described), capture_output=True, text=True, check=True,
        ).stdout.strip()  # fmt: skip

    assert merged(said, max_wal_size="8192") == "--database-flags=^;^max_connections=200;max_wal_size=8192"
    assert merged(said, max_wal_size=None) == "--database-flags=^;^max_connections=200"
    assert merged({"settings": {}}, max_wal_size="8192") == "--database-flags=^;^max_wal_size=8192"
    # An empty --database-flags keeps the present ones.
    assert merged(
        {"settings": {"databaseFlags": said["settings"]["databaseFlags"][1:]}}, max_wal_size=None
    ) == ("--clear-database-flags")
    assert merged({"settings": {}}, max_wal_size=None) == "--clear-database-flags"


def test_cloud_sql_takes_the_flags_that_a_source_shows_and_says_where_the_others_are() -> None:
    for change in (
        Change("log_checkpoints", "on"),
        Change("autovacuum", "on"),
        Change("shared_buffers", "8GB"),
    ):
        assert platform("cloudsql").refuse(change, TARGET) is None
    refusal = platform("cloudsql").refuse(Change("wal_init_zero", "off"), TARGET)
    assert refusal is not None
    assert refusal.reason.startswith("it is not in the list of flags that walproof knows")
    assert "gcloud sql flags list" in refusal.reason


def test_cloud_sql_lines_are_taken_back_by_a_shell(tmp_path: Path) -> None:
    present, asked = tmp_path / "present.json", tmp_path / "asked"
    gcloud = tmp_path / "gcloud"
    gcloud.write_text(
        f'#!/bin/sh\nif [ "$3" = describe ]; then cat {present}; else printf "%s\\n" "$@" > {asked}; fi\n'
    )
    gcloud.chmod(0o755)
    lines = platform("cloudsql").write([Change("max_wal_size", "8GB")], TARGET)

    def patched(line: str, flags: list[dict[str, str]]) -> str:
        present.write_text(json.dumps({"settings": {"databaseFlags": flags}}))
        found = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
        subprocess.run(["sh", "-c", line], env=found, check=True)
        *told, option = asked.read_text().splitlines()
        assert told == ["sql", "instances", "patch", "INSTANCE"]
        return option

    other = {"name": "max_connections", "value": "200"}
    assert patched(lines.apply, [other]) == "--database-flags=^;^max_connections=200;max_wal_size=8192"
    changed = {"name": "max_wal_size", "value": "8192"}
    assert patched(lines.undo, [other, changed]) == "--database-flags=^;^max_connections=200"
    assert patched(lines.undo, [changed]) == "--clear-database-flags"


@pytest.mark.parametrize("name", ["crunchy", "cloudsql", "cnpg", "zalando"])
def test_a_platform_that_restarts_by_itself_says_so_of_applying_and_of_undoing(name: str) -> None:
    def notes(change: Change) -> str:
        return " ".join(platform(name).write([change], TARGET).notes)

    told = notes(Change("shared_buffers", "8GB"))
    assert re.search(r"restarts the .* for: shared_buffers\.", told)
    assert ("at once" in told) is (name in ("crunchy", "cloudsql"))
    assert "Undoing it restarts them again." in told
    assert "In force after" not in told
    assert "restarts" not in notes(CHANGES[0])


def test_what_alter_system_has_set_a_file_cannot_change() -> None:
    refusal = platform("conf").refuse(Change("wal_buffers", "64MB"), TARGET)
    assert refusal is not None
    assert "ALTER SYSTEM" in refusal.reason
    lines = platform("alter-system").write([Change("wal_buffers", "64MB")], TARGET)
    assert "ALTER SYSTEM SET wal_buffers = '16MB';" in lines.undo


@pytest.mark.parametrize("name", ["patroni", "cnpg", "zalando", "crunchy"])
def test_what_alter_system_has_set_the_tool_that_writes_the_files_cannot_change(name: str) -> None:
    change = Change("wal_buffers", "64MB")
    refusal = platform(name).refuse(change, TARGET)
    assert refusal is not None
    # Until a restart pg_settings names postgresql.auto.conf, and to ask again would not help.
    assert "run ALTER SYSTEM RESET wal_buffers; on each server that has it, restart it" in refusal.reason
    assert "pg_reload_conf" not in refusal.reason
    reloaded = Before("2GB", is_default=False, is_in_auto_conf=True)
    refusal = platform(name).refuse(CHANGES[0], PlatformTarget(180006, {"max_wal_size": reloaded}))
    assert refusal is not None
    assert "run ALTER SYSTEM RESET max_wal_size; SELECT pg_reload_conf(); on each server" in refusal.reason
    off = Before("off", is_default=False, is_in_auto_conf=False)
    closed = PlatformTarget(180006, {**TARGET.before, "allow_alter_system": off})
    refusal = platform(name).refuse(change, closed)
    assert refusal is not None
    assert "set allow_alter_system = on, and run" in refusal.reason
    # Without pg_monitor nobody can tell.
    hidden = Before("16MB", is_default=False, is_in_auto_conf=False, is_file_seen=False)
    target = PlatformTarget(180006, {"wal_buffers": hidden})
    assert platform(name).refuse(change, target) is None
    assert "does nothing where ALTER SYSTEM does" in platform(name).write([change], target).notes[-1]


def test_crunchy_says_which_operators_do_not_read_its_patch() -> None:
    (note,) = platform("crunchy").write([CHANGES[0]], TARGET).notes
    assert "before 5.8" in note
    assert "spec.patroni.dynamicConfiguration.postgresql.parameters" in note
    assert platform("cnpg").write([CHANGES[0]], TARGET).notes == ()


def test_patroni_says_what_goes_before_its_dynamic_configuration() -> None:
    assert "their own patroni.yml" in platform("patroni").write([CHANGES[0]], TARGET).notes[0]


@pytest.mark.parametrize("name", ["conf", "alter-system", "patroni"])
def test_standbys_need_the_lines_too_unless_a_tool_gives_them_to_all(name: str) -> None:
    target = PlatformTarget(180006, TARGET.before, has_standbys=True)
    notes = " ".join(platform(name).write([CHANGES[0]], target).notes)
    assert ("Standbys have settings of their own" in notes) is (name != "patroni")
    assert "Standbys" not in " ".join(platform(name).write([CHANGES[0]], TARGET).notes)


def test_no_alter_system_where_the_server_does_not_allow_it() -> None:
    """CloudNativePG's default."""
    off = Before("off", is_default=False, is_in_auto_conf=False)
    target = PlatformTarget(180006, {**TARGET.before, "allow_alter_system": off})
    for change in CHANGES:
        refusal = platform("alter-system").refuse(change, target)
        assert refusal is not None
        assert "allow_alter_system is off" in refusal.reason
        assert "--platform" in refusal.reason
        assert platform("cnpg").refuse(change, target) is None
    # What ALTER SYSTEM has set no other platform changes, and none is named.
    refusal = platform("alter-system").refuse(Change("wal_buffers", "64MB"), target)
    assert refusal is not None
    assert "set allow_alter_system = on, then ask again" in refusal.reason
    assert "--platform" not in refusal.reason
    refusal = platform("conf").refuse(Change("wal_buffers", "64MB"), target)
    assert refusal is not None
    assert "set allow_alter_system = on" in refusal.reason


def test_the_undo_keeps_a_value_whose_file_the_role_may_not_see() -> None:
    """It may be ALTER SYSTEM's, which a RESET would throw away."""
    hidden = Before("64MB", is_default=False, is_in_auto_conf=False, is_file_seen=False)
    target = PlatformTarget(180006, {**TARGET.before, "max_wal_size": hidden})
    lines = platform("alter-system").write(CHANGES, target)
    assert "ALTER SYSTEM SET max_wal_size = '64MB';" in lines.undo
    assert "ALTER SYSTEM RESET checkpoint_timeout;" in lines.undo
    (note,) = lines.notes
    assert "cannot see which file sets max_wal_size. " in note
    *_, note = platform("conf").write(CHANGES, target).notes
    assert "cannot see which file sets max_wal_size. " in note
    assert "does nothing where ALTER SYSTEM does" in note
    assert not any("pg_monitor" in note for note in platform("conf").write(CHANGES, TARGET).notes)


def test_wrong_names_and_values_are_refused() -> None:
    with pytest.raises(SettingError, match='no platform "heroku"'):
        platform("heroku")
    with pytest.raises(SettingError):
        platform("rds").refuse(Change("max_wal_size", "8 parsecs"), TARGET)
    assert platform("conf").refuse(Change("wal_segment_size", "16MB"), TARGET) is not None


def test_the_options_help_names_every_platform() -> None:
    from walproof.cli.options import PLATFORM_NAMES

    assert PLATFORM_NAMES.split(", ") == list(PLATFORMS)


def test_every_managed_platform_says_whether_it_tells_its_wal() -> None:
    managed = {"rds", "rds-terraform", "aurora", "azure", "cloudsql"}
    told = {name: wal_access(name) for name in PLATFORMS}
    assert {name for name, access in told.items() if access is not None} == managed
    for access in told.values():
        if access is not None:
            assert access.walinspect in {"offered", "not offered", "not found"}
            assert re.fullmatch(r"\d{4}-\d\d-\d\d", access.looked_up)
            assert access.source in access.cited


def test_azure_goes_back_to_its_own_default_where_the_value_before_is_not_known() -> None:
    lines = platform("azure").write([Change("max_wal_size", "4GB")], PlatformTarget(180006, {}))
    assert lines.apply.endswith("--name max_wal_size --value 4096")
    assert "parameter set" in lines.undo
    assert '--name max_wal_size --value "$(az postgres flexible-server parameter show' in lines.undo
    assert lines.undo.endswith('--query defaultValue -o tsv)"')
