"""A repository of pgBackRest that is encrypted, by openssl: with the pass it reads like any other."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.wal.verify.conftest import Layer
from tests.wal.verify.layouts import Laid
from walproof.errors import WalError
from walproof.wal import records, stats
from walproof.wal.verify.verify import VerifiedArchive, verify

PASS, WAL_PASS = "of the repository", 'b64/of+the"archive=='
VARIABLE = "PGBACKREST_REPO1_CIPHER_PASS"


@pytest.fixture(autouse=True)
def no_pass(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whatever the machine has."""
    for name in [name for name in os.environ if name.startswith("PGBACKREST_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PGBACKREST_CONFIG", str(tmp_path / "none.conf"))


def encrypt(data: bytes, secret: str) -> bytes:
    return subprocess.run(
        ["openssl", "enc", "-aes-256-cbc", "-md", "sha1", "-pass", "env:SECRET"],
        input=data, capture_output=True, check=True, env={**os.environ, "SECRET": secret},
    ).stdout  # fmt: skip


def encrypted(laid: Laid) -> Laid:
    """All files of a repository as pgBackRest encrypts them."""
    info = laid.root / "archive" / "main" / "archive.info"
    escaped = WAL_PASS.replace('"', '\\"')
    info.write_text(info.read_text().replace("[db]", f'[cipher]\ncipher-pass="{escaped}"\n\n[db]', 1))
    for path in [path for path in laid.root.rglob("*") if path.is_file()]:
        secret = PASS if path.suffix == ".info" else WAL_PASS
        laid.write(path, encrypt(path.read_bytes(), secret))
    return laid


def looked_at(root: Path) -> VerifiedArchive:
    (archive,) = verify([root]).archives
    return archive


@pytest.mark.parametrize("ending", ["", "lz4", "gz", "zst", "bz2"])
def test_with_the_pass_it_is_a_repository_like_others(
    layer: Layer, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    plain = looked_at(layer("pgBackRest", ending).root)
    laid = encrypted(layer("pgBackRest", ending))
    monkeypatch.setenv(VARIABLE, PASS)
    found = looked_at(laid.root)
    assert found.problems == ()
    assert found.layout == "pgBackRest"
    assert [(window.timeline, window.start, window.end, window.last_record) for window in found.windows] == [
        (window.timeline, window.start, window.end, window.last_record) for window in plain.windows
    ]
    assert len(found.windows) == len(found.backups) == 2
    assert found.ranges == plain.ranges
    assert found.system_identifier == laid.source.system_identifier


def test_other_commands_read_it(layer: Layer, monkeypatch: pytest.MonkeyPatch) -> None:
    plain, laid = layer("pgBackRest", "zst"), encrypted(layer("pgBackRest", "zst"))
    monkeypatch.setenv("PGBACKREST_REPO3_CIPHER_PASS", PASS)
    assert stats(laid.root / "archive" / "main") == stats(plain.root / "archive" / "main")
    first = laid.files[laid.source.names(1)[0]]
    assert next(iter(records(first))) == next(iter(records(plain.files[laid.source.names(1)[0]])))


def test_the_pass_may_stand_in_pgbackrests_configuration(
    layer: Layer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    laid = encrypted(layer("pgBackRest", "gz"))
    configuration = tmp_path / "pgbackrest.conf"
    configuration.write_text(f"[global]\nrepo1-cipher-type=aes-256-cbc\nrepo1-cipher-pass={PASS}\n")
    monkeypatch.setenv("PGBACKREST_CONFIG", str(configuration))
    assert looked_at(laid.root).problems == ()


def test_without_a_pass_and_with_a_wrong_one(
    layer: Layer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    laid = encrypted(layer("pgBackRest", "lz4"))
    kept = tmp_path / "kept"
    (found,) = verify([laid.root], kept=kept).archives
    assert {fault.kind for fault in found.faults} >= {"encrypted"}
    (fault,) = [fault for fault in found.faults if fault.kind == "encrypted"]
    assert "no pass of the repository is known" in fault.message
    monkeypatch.setenv(VARIABLE, "another")
    (fault,) = [fault for fault in looked_at(laid.root).faults if fault.kind == "encrypted"]
    assert "the repository's pass does not open it" in fault.message
    with pytest.raises(
        WalError, match="it is encrypted, and the repository's pass does not open it"
    ) as wrong:
        stats(laid.root / "archive" / "main")
    assert VARIABLE in (wrong.value.hint or "")
    assert "another" not in f"{wrong.value} {wrong.value.detail} {wrong.value.hint}".split()
    # What was not readable is not kept as such.
    monkeypatch.setenv(VARIABLE, PASS)
    (found,) = verify([laid.root], kept=kept).archives
    assert found.problems == ()


@pytest.mark.parametrize("ending", ["", "lz4", "zst"])
def test_damage_under_encryption_is_found(layer: Layer, monkeypatch: pytest.MonkeyPatch, ending: str) -> None:
    monkeypatch.setenv(VARIABLE, PASS)
    laid = encrypted(layer("pgBackRest", ending))
    name = laid.source.names(1)[2]
    path = laid.files[name]
    whole = path.read_bytes()
    middle = len(whole) // 2
    for damaged, kinds in [
        (whole[: len(whole) // 2], {"unpack", "truncated"}),
        (whole[:-16], {"unpack", "truncated"}),
        (whole[:-5], {"unpack", "truncated"}),
        (
            whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :],
            {"damaged", "unpack", "truncated", "checksum"},
        ),
    ]:
        laid.write(path, damaged)
        faults = [fault for fault in looked_at(laid.root).faults if fault.path == str(path)]
        assert faults
        assert {fault.kind for fault in faults} <= kinds, faults
