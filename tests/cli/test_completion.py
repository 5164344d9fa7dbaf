"""What a shell is offered for values that are known without a server."""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path

import pytest

from tests.cli.command import walproof
from tests.report.facts import make_facts
from walproof.facts.store import Store
from walproof.facts.tuning_journal import JOURNAL_FILE


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("run durab", "durability"),
        ("studies durab", "durability"),
        ("show la", "last"),
        ("report la", "last"),
        ("runs stop la", "last"),
        ("advise --platform patr", "patroni"),
        ("tune --platform patr", "patroni"),
        ("wal stats --by rel", "relation"),
        ("wal records --rmgr He", "Heap2"),
        ("wal records --rmgr Heap/DEL", "Heap/DELETE"),
        ("compare --set wal_comp", "wal_compression="),
        ("wal whatif --set max_wal_size=4GB,wal_comp", "max_wal_size=4GB,wal_compression="),
    ],
)
def test_values_are_completed(words: str, offered: str, tmp_path: Path) -> None:
    done = _complete(words, tmp_path)
    assert f'"{offered}"' in done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("words", "changes"),
    [
        ("show --out kept ", {}),
        ("show --store kept/walproof.sqlite ", {}),
        ("show ", {"WALPROOF_OUT": "kept"}),
        ("show ", {"WALPROOF_STORE": "kept/walproof.sqlite"}),
    ],
)
def test_runs_of_another_folder_are_completed(words: str, changes: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    store = Store(tmp_path / "kept" / "walproof.sqlite")
    facts = make_facts(2)
    run = store.add_run(facts.run.plan, ("walproof",), facts.run.environment, "0.1.0")
    store.close()
    done = _complete(words, tmp_path, **changes)
    assert '"last"' in done.stdout
    assert f'"{run.id}"' in done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize("command", ["show", "report"])
def test_tunings_are_completed_where_they_are_shown(command: str, tmp_path: Path) -> None:
    for name in ("tune-shop-1a2b3c4d", "other"):
        (tmp_path / "kept" / "tunings" / name).mkdir(parents=True)
        (tmp_path / "kept" / "tunings" / name / JOURNAL_FILE).touch()
    (tmp_path / "kept" / "tunings" / "tune-of-no-journal").mkdir()
    done = _complete(f"{command} --out kept tune-", tmp_path)
    assert '"tune-shop-1a2b3c4d"' in done.stdout
    assert "other" not in done.stdout
    assert "no-journal" not in done.stdout
    assert done.stderr == ""
    assert "tune-shop" not in _complete("runs stop --out kept tune-", tmp_path).stdout


def test_a_store_that_cannot_be_read_offers_last(tmp_path: Path) -> None:
    done = _complete(f"show --out {'a' * 5000} ", tmp_path)
    assert '"last"' in done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize("as_variable", [False, True])
def test_no_server_is_asked_for_runs(as_variable: bool, tmp_path: Path) -> None:
    """One that accepts a connection and says nothing would hold the shell."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"postgresql://me@127.0.0.1:{silent.getsockname()[1]}/facts"
        if as_variable:
            done = _complete("show ", tmp_path, WALPROOF_STORE=url)
        else:
            done = _complete(f"show --store {url} ", tmp_path)
        silent.setblocking(False)
        with pytest.raises(BlockingIOError):
            silent.accept()
    assert '"last"' in done.stdout
    assert done.stderr == ""


def _complete(words: str, cwd: Path, **changes: str) -> subprocess.CompletedProcess[str]:
    asked = {"_WALPROOF_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": f"walproof {words}"}
    return walproof(cwd=cwd, timeout_s=30, **asked, **changes)
