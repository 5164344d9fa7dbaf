"""``power-cut replay`` of a case in a store: whoever wrote there starts no program here."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from tests.facts.plans import ENVIRONMENT, plan, trial
from walproof.cli import power_cut
from walproof.errors import StoreError
from walproof.facts import CheckedImage, CutFacts, ImageState, Plan, PowerCuts, Script, Variant
from walproof.facts.store import Store

IMAGE = CheckedImage(1, 77, "random 0.5 of 512 B", ImageState.CLEAN, None, 0, 0, None, 0.4)


class Started(Exception):
    """What is in the store was followed."""


@pytest.fixture(autouse=True)
def _cut_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def cut(*_given: object) -> CheckedImage:
        raise Started

    monkeypatch.setattr(power_cut, "say_server_user", lambda: None)
    monkeypatch.setattr("walproof.lab.power_cut.again.cut_again", cut)


def asked(**changes: object) -> Plan:
    return replace(plan(), kind=PowerCuts(1), **changes)  # type: ignore[arg-type]


def stored(out: Path, asked: Plan, image: CheckedImage = IMAGE) -> None:
    cut = CutFacts(9, "wal flush 5", "busy", 100, 1.5, 4096, 2, (), (image,))
    store = Store(out / "walproof.sqlite")
    run = store.add_run(asked, ("walproof", "run", "power-cut"), ENVIRONMENT, "1.0")
    store.add_trial(run.id, replace(trial(1), cut=cut))
    store.close()


WORKLOAD = plan().workloads[0]
ATTACKS: dict[str, tuple[Plan, str]] = {
    "a command": (
        asked(base_settings={"archive_mode": "on", "archive_command": "touch x"}),
        "setting archive_command = touch x",
    ),
    "a library": (
        asked(variants=(Variant("default", {"Session_Preload_Libraries": "x"}),)),
        "setting session_preload_libraries = x",
    ),
    "a setting that nobody knows": (asked(base_settings={"x.y": "1"}), "setting x.y = 1"),
    "a place": (asked(base_settings={"unix_socket_permissions": "0777"}), "setting unix_socket_permissions"),
    "a second line": (
        asked(base_settings={"work_mem": "4MB\narchive_command = 'touch x'"}),
        "setting work_mem = 4MB",
    ),
    "SQL of its own": (
        asked(workloads=(replace(WORKLOAD, setup_sql="COPY t FROM PROGRAM 'touch x'"),)),
        'the SQL of load "w"',
    ),
    "a script": (
        asked(workloads=(replace(WORKLOAD, builtin=None, scripts=(Script("s", "\\setshell x touch x"),)),)),
        'the SQL of load "w"',
    ),
    "SQL of initdb": (asked(initdb_options=("-L", "/tmp/x")), "option -L of initdb"),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_store_starts_no_programs(tmp_path: Path, attack: str) -> None:
    stored_plan, named = ATTACKS[attack]
    stored(tmp_path, stored_plan)
    with pytest.raises(StoreError, match="could start programs when it is cut again") as caught:
        power_cut.replay("1/1", out=tmp_path)
    assert named in str(caught.value.detail)
    assert "--as-stored" in str(caught.value.hint)
    with pytest.raises(Started):
        power_cut.replay("1/1", out=tmp_path, as_stored=True)


def test_settings_that_are_values_are_cut_again_without_a_question(tmp_path: Path) -> None:
    words = {"DateStyle": "iso, mdy", "wal_sync_method": "open_datasync", "bgwriter_delay": "10ms"}
    stored(tmp_path, asked(base_settings=words, initdb_options=("--wal-segsize=1", "-k")))
    with pytest.raises(Started):
        power_cut.replay("1/1", out=tmp_path)


def test_a_kept_image_is_not_looked_for_in_the_present_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Results that somebody has handed over may have one beside them; walproof names whole paths."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kept").mkdir()
    opened: list[Path] = []

    class Image:
        def __init__(self, folder: Path, *_given: object) -> None:
            opened.append(folder)
            raise Started

    monkeypatch.setattr("walproof.lab.power_cut.again.ReopenedImage", Image)
    for number, kept in enumerate(("kept", os.fspath(tmp_path / "kept"))):
        out = tmp_path / str(number)
        stored(out, asked(), replace(IMAGE, kept=kept))
        with pytest.raises(Started):
            power_cut.replay("1/1", out=out)
    assert opened == [tmp_path / "kept"]
