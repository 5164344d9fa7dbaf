"""Who runs the server, and that binaries in a private place are copied to where that user can run them.

The half for root needs root, the other half a plain user: each run tests the one that it is, and nothing is
skipped.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.postgres.installs import put_install
from walproof.errors import DiskError, InstallError
from walproof.facts.plan import Install
from walproof.postgres.build import rejection, share_folder
from walproof.postgres.cache import ROOT_CACHE, cache_folder, cache_path
from walproof.postgres.install import examine, find
from walproof.postgres.reach import copy_install, open_to_all, reachable, reachable_install
from walproof.privilege.user import ServerUser, running_as, server_user

IS_ROOT = os.geteuid() == 0


def test_server_user() -> None:
    """The one of this test run (tests/conftest.py); tests/privilege/test_choice.py has how it is chosen."""
    user = server_user()
    if not IS_ROOT:
        assert user is None
        return
    assert user is not None
    assert user.name == os.environ["WALPROOF_SERVER_USER"]
    said = subprocess.run(["id", "-u"], capture_output=True, text=True, **running_as(user)).stdout
    assert said == f"{user.uid}\n"


@pytest.mark.parametrize(
    ("name", "message"),
    [("nobody", None), ("root", 'server user "root" is root'), ("no-such-user", "does not exist")],
)
def test_server_user_of_choice(name: str, message: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WALPROOF_SERVER_USER", name)
    if not IS_ROOT:
        assert server_user() is None, "only root has a choice"
    elif message is None:
        user = server_user()
        assert user is not None
        assert user.name == name
    else:
        with pytest.raises(InstallError, match=message) as caught:
            server_user()
        assert "WALPROOF_SERVER_USER" in (caught.value.hint or "")


def test_reachable_is_asked_as_that_user(open_place: Path) -> None:
    private = open_place / "it's private"
    private.mkdir(mode=0o700)
    (private / "file").write_text("")
    (open_place / "file").write_text("")
    (open_place / "file").chmod(0o600)
    user = server_user()
    assert reachable(open_place, user)
    assert reachable(private, user) == (user is None)
    assert reachable(private / "file", user) == (user is None)
    assert reachable(open_place / "file", user) == (user is None)
    (open_place / "file").chmod(0o644)
    assert reachable(open_place / "file", user)
    assert not reachable(open_place / "missing", user)


def put_wheel(folder: Path, mode: int = 0o777) -> Path:
    """The embedded install as pip lays it out (with the libraries beside the package); its prefix."""
    original = Path(find("embedded-18").bindir).parent
    libraries = original.parent.with_name(original.parent.name + ".libs")
    copy = folder / original.parent.name / original.name
    shutil.copytree(original, copy, symlinks=True)
    if libraries.exists():
        shutil.copytree(libraries, folder / libraries.name)
    for path in folder.rglob("*"):
        if not path.is_symlink():
            path.chmod(path.stat().st_mode & mode)
    return copy


@pytest.mark.live
def test_private_binaries_are_copied_once_and_run(open_place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As root: an install in a 0700 home is relocated, and initdb works from the copy as the server's user.

    As a plain user there is no switch of users: the install is used where it is.
    """
    home = open_place / "home"
    home.mkdir(mode=0o700)
    # As a umask of 077 would have installed it.
    prefix = put_wheel(home, 0o700)
    (prefix / ".ssh").mkdir()
    (prefix / ".ssh/key").write_text("secret")
    monkeypatch.setenv("WALPROOF_CACHE", str(open_place / "cache"))
    private = find(str(prefix))
    user = server_user()
    moved = reachable_install(private, user)
    run_initdb(moved, open_place / "data", user)
    if user is None:
        assert moved == private
        return
    copy = Path(moved.bindir).parent.parent.parent
    assert copy.parent == open_place / "cache/relocated"
    assert (moved.label, moved.version_num, moved.origin) == (private.label, private.version_num, "given")
    assert [path.name for path in copy.parent.iterdir()] == [copy.name], "nothing else is left"
    assert not list(copy.rglob("key")), "a prefix may be a home"
    made = copy.stat().st_ino
    assert reachable_install(private, user) == moved
    assert copy.stat().st_ino == made, "the second time it is there already"
    # An upgrade in place is another install.
    os.utime(prefix / "bin/postgres", ns=(1, 1))
    assert reachable_install(private, user).bindir != moved.bindir
    assert copy.exists(), "a run that goes on may have it"
    os.utime(prefix / "bin/postgres", ns=(2, 2))
    reachable_install(private, user)
    assert len(list(copy.parent.iterdir())) == 2


def test_a_copy_has_nothing_but_postgresql(tmp_path: Path) -> None:
    """What else lies in a home or in ~/.local would be everybody's to read."""
    home = tmp_path / "home"
    put_install(home, "18.4", "pg_dump")
    own = {
        "lib/libpq.so.5", "lib/postgresql/plpgsql.so", "lib64/libecpg.so", "lib64/bitcode/a/b.bc",
        "share/postgresql/extension/plpgsql.control", "share/postgres.bki", "share/timezonesets/Default",
    }  # fmt: skip
    private = {
        ".ssh/key", ".pgpass", "dump.sql", "bin/pg_backup.sh", "lib/python3/secret.py", "lib/notes",
        "share/keyrings/login", "share/dump.sql",
    }  # fmt: skip
    for name in own | private:
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("")
    copy = tmp_path / "copy"
    copy_install(home, "bin", copy)
    copied = {str(path.relative_to(copy)) for path in copy.rglob("*") if path.is_file()}
    assert copied == own | {"bin/postgres", "bin/initdb", "bin/pg_dump"}


def run_initdb(install: Install, data: Path, user: ServerUser | None) -> None:
    data.mkdir()
    command = [f"{install.bindir}/initdb", "-D", str(data), "--no-sync", "-A", "trust"]
    if user is None:
        done = subprocess.run(command, capture_output=True, text=True, cwd="/")
    else:
        os.chown(data, user.uid, user.gid)
        done = subprocess.run(command, capture_output=True, text=True, cwd="/", **running_as(user))
    assert done.returncode == 0, done.stderr
    assert (data / "PG_VERSION").read_text() == "18\n"


def test_open_binaries_stay_where_they_are(open_place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WALPROOF_CACHE", str(open_place / "cache"))
    prefix = put_wheel(open_place / "site")
    open_to_all(open_place / "site")
    here = find(str(prefix))
    assert reachable_install(here, server_user()) == here
    assert not (open_place / "cache").exists()


def test_a_private_cache_does_not_help(open_place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = open_place / "home"
    home.mkdir(mode=0o700)
    prefix = put_wheel(home)
    monkeypatch.setenv("WALPROOF_CACHE", str(home / "cache"))
    private, user = find(str(prefix)), server_user()
    if user is None:
        assert reachable_install(private, user) == private
        return
    with pytest.raises(InstallError, match=f'user "{user.name}" cannot run') as caught:
        reachable_install(private, user)
    assert "WALPROOF_CACHE" in (caught.value.hint or "")


def test_an_installs_programs_have_the_rights_of_its_server(
    open_place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where its version is looked for, and where nobody but root gets to them."""
    monkeypatch.setenv("WALPROOF_CACHE", str(open_place / "cache"))
    ran = open_place / "ran"
    ran.touch()
    ran.chmod(0o666)
    user = server_user()
    for folder in (open_place / "open", open_place / "private"):
        bindir = put_install(folder / "pg", "18.4", "pg_config")
        folder.chmod(0o755 if folder.name == "open" else 0o700)
        for program in ("postgres", "pg_config"):
            said = f"{program} (PostgreSQL) 18.4"
            (bindir / program).write_text(f"#!/bin/sh\nid -u >> {ran}\necho '{said}'\n")
        found = examine(bindir, "given")
        assert (found.version, found.version_num) == ("18.4", 180004)
        assert rejection(found, {"fsync": "off"}) is None
        share_folder(found)  # which pg_config is asked for
    assert set(ran.read_text().split()) == {str(os.geteuid() if user is None else user.uid)}


@pytest.mark.parametrize("umask", [0o077, 0o022, 0o002, 0o000])
def test_cache_folder(umask: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WALPROOF_CACHE", str(tmp_path / "given"))
    old = os.umask(umask)
    try:
        folder = cache_folder("installs", "x")
        assert cache_folder("work").parent == tmp_path / "given", "what was made is taken"
    finally:
        os.umask(old)
    assert folder == tmp_path / "given/installs/x"
    assert (folder.stat().st_mode & 0o777) == (0o755 if IS_ROOT else 0o700)
    assert (folder.parent.stat().st_mode & 0o777) == (0o755 if IS_ROOT else 0o700)
    monkeypatch.delenv("WALPROOF_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_path() == (ROOT_CACHE if IS_ROOT else tmp_path / "xdg/walproof")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache_path() == (ROOT_CACHE if IS_ROOT else Path.home() / ".cache/walproof")


def test_a_cache_folder_that_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("WALPROOF_CACHE", str(tmp_path / "file/cache"))
    with pytest.raises(DiskError, match="could not use the cache folder") as caught:
        cache_folder()
    assert "WALPROOF_CACHE" in (caught.value.hint or "")
    monkeypatch.setenv("WALPROOF_CACHE", "~nobody-here/cache")
    with pytest.raises(DiskError, match="could not find the home folder"):
        cache_folder()
