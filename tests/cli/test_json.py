"""Every command that prints a result prints it as JSON, too: the commands are counted, and each is typed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from importlib import import_module
from inspect import getsource
from pathlib import Path
from typing import Any

import pytest
from typer import Context
from typer.main import get_command

from tests.cli.command import walproof
from tests.golden.unpack import unpack
from tests.report.facts import durability, keep
from tests.schemas import assert_valid
from walproof.cli.app import app
from walproof.facts.store import Store
from walproof.postgres.install import find

OTHERWISE = {
    "report": "--format json: its other forms are those of a page",
    "wal map": "prints JSON alone, which is a file for --map",
    "mcp": "speaks JSON of its protocol",
    "web": "serves pages; JSON is under /api",
}
"""Commands that print JSON without the option."""

# What is typed, without --json. WAL is a folder with WAL of 18, STORE has a finished run, OPEN goes on in it,
# NEW is empty, VERSION is the embedded server's, which lies in the cache as if it had been fetched.
TYPED = {
    "run": "run durability --quick --pg embedded --dry-run",
    "compare": "compare --set synchronous_commit=off --pg embedded --dry-run",
    "tune": "tune --load checkpoints --duration 2s --pg embedded --dry-run",
    "studies": "studies",
    "runs": "runs --out STORE",
    "runs stop": "runs stop OPEN --out STORE",
    "runs more": "runs more OPEN 2 --out STORE",
    "runs copy": "runs copy last OPEN --to NEW/other.sqlite --out STORE",
    "runs remove": "runs remove OPEN --yes --out STORE",
    "show": "show last --out STORE",
    "pg list": "pg list",
    "pg install": "pg install VERSION",
    "pg remove": "pg remove VERSION",
    "store upgrade": "store upgrade --out STORE",
    "wal stats": "wal stats WAL",
    "wal verify": "wal verify WAL",
    "wal part": "wal part WAL --out NEW/wal.part",
    "wal strip": "wal strip WAL --to NEW/stripped",
    "wal whatif": "wal whatif WAL",
    "recovery predict": "recovery predict WAL --start START",
}

SCHEMAS = {
    "run": "plan", "compare": "plan", "tune": "tune-plan",
    "runs stop": "run-request", "runs more": "run-request", "show": "report",
}  # fmt: skip
"""Of commands whose schema has another name."""

# The module and the test that types it with --json, where a server, minutes or another case are needed.
ELSEWHERE = {
    "disk": "tests.disk.test_flush.test_the_command_says_what_a_server_does_not_do",
    "advise": "tests.live.test_advise.test_what_was_done_to_it_is_found_and_the_lines_can_be_undone",
    "load-advice": "tests.cli.test_load_advice.test_the_recipe_of_a_finished_run_is_printed_again",
    "power-cut replay": "tests.live.test_power_cut.test_a_study_of_power_cuts",
    "replica watch": "tests.live.test_replica_watch.test_json_is_a_line_a_window_without_connection_strings",
    "workload": "tests.live.test_workload.test_a_draft_writes_what_the_application_writes",
    "watch": "tests.live.test_watch.test_one_look_names_the_trouble_and_leaves_nothing",
    "wal capture": "tests.lab.test_capture.test_from_the_command_line",
    "wal records": "tests.cli.test_wal.test_records",
    "recovery progress": "tests.live.test_recovery_progress.test_a_recovery_is_followed_to_its_end",
    "recovery calibrate": "tests.lab.test_calibration.test_the_command_prints_what_it_keeps",
}


def commands(group: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    """Each command that does something, by the words that name it."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{before}{name} ")
        if not hasattr(command, "commands") or command.invoke_without_command:
            yield before + name, command


@pytest.fixture(scope="module")
def all_commands() -> dict[str, Any]:
    group = get_command(app)
    # A wrong name imports all of them, to suggest a similar one.
    assert group.get_command(Context(group), "no such command") is None  # type: ignore[attr-defined]
    return dict(commands(group))


def test_every_command_has_json(all_commands: dict[str, Any]) -> None:
    lacking = {
        name
        for name, command in all_commands.items()
        if "--json" not in [flag for parameter in command.params for flag in parameter.opts]
    }
    assert lacking == set(OTHERWISE)


def test_every_command_is_typed_by_some_test(all_commands: dict[str, Any]) -> None:
    tested = [*TYPED, *ELSEWHERE, *OTHERWISE]
    assert sorted(tested) == sorted(all_commands)
    for name, place in ELSEWHERE.items():
        module, _, function = place.rpartition(".")
        test: Callable[..., object] = getattr(import_module(module), function)
        source = getsource(test)
        assert '"--json"' in source or "json=True" in source, place
        assert f'assert_valid("{name.replace(" ", "-")}"' in source, place


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    wal, out, cache = (tmp_path_factory.mktemp(name) for name in ("wal", "out", "cache"))
    unpack(18, wal)
    stored = durability()
    store = Store(out / "walproof.sqlite")
    going_on = store.add_run(stored.run.plan, ("walproof",), stored.run.environment, "0.1.0")
    store.close()
    keep(stored, out / "walproof.sqlite")
    install = find("embedded")
    fetched = cache / "installs" / install.version
    fetched.mkdir(parents=True)
    for part in Path(install.bindir).parent.iterdir():
        (fetched / part.name).symlink_to(part)
    return {
        "WAL": str(wal), "STORE": str(out), "VERSION": install.version, "CACHE": str(cache),
        "START": "0/800028", "OPEN": going_on.id,
    }  # fmt: skip


@pytest.mark.parametrize("name", TYPED)
def test_stdout_is_json(name: str, places: dict[str, str], tmp_path: Path) -> None:
    new = tmp_path / "new"
    new.mkdir()
    words = [places.get(word, word.replace("NEW", str(new))) for word in TYPED[name].split()]
    done = walproof(*words, "--json", cwd=tmp_path, WALPROOF_CACHE=places["CACHE"])
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout), done.stdout
    assert_valid(SCHEMAS.get(name, name.replace(" ", "-")), json.loads(done.stdout))


def test_a_report_is_json_in_one_of_its_forms(places: dict[str, str], tmp_path: Path) -> None:
    out = places["STORE"]
    done = walproof("report", "last", "--out", out, "--format", "json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    shown = walproof("show", "last", "--out", out, "--json", cwd=tmp_path)
    assert json.loads(done.stdout) == json.loads(shown.stdout)


def test_what_is_fetched_and_removed_has_the_keys_of_the_list(places: dict[str, str], tmp_path: Path) -> None:
    """The install lies in the cache already, so that no client is needed."""
    cache, version = Path(places["CACHE"]), places["VERSION"]
    fetched = cache / "installs" / version
    fetched.mkdir(parents=True, exist_ok=True)
    for part in Path(find("embedded").bindir).parent.iterdir():
        if not (fetched / part.name).is_symlink():
            (fetched / part.name).symlink_to(part)
    (fetched / "origin.json").write_text(json.dumps({"client": "mvn", "version": version}))

    def told(*words: str) -> Any:
        done = walproof("pg", *words, "--json", cwd=tmp_path, WALPROOF_CACHE=str(cache))
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    installed = told("install", version)
    assert installed.pop("fetched") == {"client": "mvn"}
    assert {key: installed[key] for key in ("version", "origin", "bindir")} == {
        "version": version, "origin": "installed", "bindir": str(fetched / "bin"),
    }  # fmt: skip
    assert installed.keys() == {"version", "origin", "bindir", "missing_fixes"}
    assert installed in told("list")
    assert told("remove", version) == {"removed": version}
    assert not fetched.exists()
    assert installed not in told("list")
