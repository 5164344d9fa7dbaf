"""``walproof runs``: what it says of runs that have not ended."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.command import walproof
from tests.report.facts import make_facts
from tests.schemas import assert_valid
from walproof.cli import runs
from walproof.facts import TrialState
from walproof.facts.store import Store
from walproof.facts.tuning_journal import JOURNAL_FILE


def test_a_run_is_running_while_a_process_holds_its_lock(tmp_path: Path) -> None:
    facts = make_facts(2)
    store = Store(tmp_path / "walproof.sqlite")
    goes_on, left, ended = (
        store.add_run(facts.run.plan, ("walproof",), facts.run.environment, "0.1.0") for _ in range(3)
    )
    store.finish_run(ended.id)
    with store.claim(goes_on.id):
        rows = json.loads(walproof("runs", "--out", ".", "--json", cwd=tmp_path).stdout)
    assert_valid("runs", rows)
    states = {row["run"]: row["state"] for row in rows}
    assert states == {goes_on.id: "running", left.id: "interrupted", ended.id: "finished"}
    begun = {row["run"]: row["created_at"] for row in rows}
    assert begun == {run.id: run.created_at for run in (goes_on, left, ended)}
    later = walproof("runs", "--out", ".", cwd=tmp_path).stdout
    store.close()
    assert "running" not in later
    assert later.split("\n")[0].split() == [*(key for key in rows[0] if key != "created_at")]


def test_the_list_reads_no_trials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A store of many long runs has millions of metrics, and the list needs three counts of each run."""
    facts = make_facts(3)
    store = Store(tmp_path / "walproof.sqlite")
    run, _ = (store.add_run(facts.run.plan, ("walproof",), facts.run.environment, "0.1.0") for _ in range(2))
    for trial in facts.trials:
        store.add_trial(run.id, trial)
    store.close()
    monkeypatch.setattr(Store, "trials", None)
    runs.app(["--out", str(tmp_path), "--json"], standalone_mode=False)
    counts = [(row["trials"], row["failed"], row["rounds"]) for row in json.loads(capsys.readouterr().out)]
    failed = sum(trial.state is TrialState.FAILED for trial in facts.trials)
    assert failed > 0
    assert counts == [(len(facts.trials), failed, 3), (0, 0, 0)]


@pytest.mark.parametrize("option", [("--out", "x"), ("--store", "x"), ("--json",)])
def test_an_option_of_the_list_before_a_command_is_told(tmp_path: Path, option: tuple[str, ...]) -> None:
    done = walproof("runs", *option, "stop", "last", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == (
        f"walproof: error: {option[0]} before stop belongs to the list of runs\nhint: Write it after stop.\n"
    )


def test_runs_are_handed_over_and_removed(tmp_path: Path) -> None:
    facts = make_facts(2)
    store = Store(tmp_path / "walproof.sqlite")
    names = []
    for _ in range(2):
        run = store.add_run(facts.run.plan, ("walproof",), facts.run.environment, "0.1.0")
        for trial in facts.trials:
            store.add_trial(run.id, trial)
        store.finish_run(run.id)
        names.append(run.id)
    store.close()
    pages = tmp_path / "reports"
    pages.mkdir()
    for name in names:
        (pages / f"{name}.html").write_text("page")
    count = len(facts.trials)

    copied = walproof("runs", "copy", *names, names[0], "--to", "shop.sqlite", "--out", ".", cwd=tmp_path)
    assert copied.stdout.splitlines() == [
        *(f"{name}: copied, {count} trials" for name in names), f"in {tmp_path / 'shop.sqlite'}",
    ]  # fmt: skip
    shown = [walproof("show", names[1], "--json", *words, cwd=tmp_path).stdout
             for words in (["--out", "."], ["--store", "shop.sqlite"])]  # fmt: skip
    assert json.loads(shown[0])["trials"] == json.loads(shown[1])["trials"]
    folder = tmp_path / "theirs"
    folder.mkdir()
    walproof("runs", "copy", names[0], "--to", "theirs", "--out", ".", cwd=tmp_path)
    assert "<html" in (folder / "reports" / f"{names[0]}.html").read_text()
    same = walproof("runs", "copy", "last", "--to", ".", "--out", ".", cwd=tmp_path)
    assert same.returncode == 2
    assert same.stderr.startswith("walproof: error: the runs are in that store already\n")

    asked = walproof("runs", "remove", names[0], "--out", ".", cwd=tmp_path)
    assert asked.returncode == 2
    assert "nothing was removed: --yes is missing" in asked.stderr
    assert f"{count} trials" in asked.stderr
    done = walproof("runs", "remove", names[0], "--yes", "--out", ".", cwd=tmp_path)
    assert done.stdout == f"removed {names[0]}: {count} trials\n"
    assert [path.name for path in pages.iterdir()] == [f"{names[1]}.html"]
    left = json.loads(walproof("runs", "--json", "--out", ".", cwd=tmp_path).stdout)
    assert [row["run"] for row in left] == [names[1]]


def test_a_step_of_a_tuning_is_not_removed(tmp_path: Path) -> None:
    facts = make_facts(2)
    folder = tmp_path / "tunings" / "tune-shop-1"
    folder.mkdir(parents=True)
    (folder / JOURNAL_FILE).write_text("{}")
    store = Store(tmp_path / "walproof.sqlite")
    of_tuning = replace(facts.run.plan, study="tune-shop-1-2")
    step, other, given_up = (
        store.add_run(plan, ("walproof", "tune", f"({plan.study})"), facts.run.environment, "0.1.0")
        for plan in (of_tuning, *(replace(of_tuning, study=f"tune-shop-{number}-2") for number in (2, 3)))
    )
    like_one = replace(of_tuning, study="tune-shop-1-quick")
    plain = store.add_run(like_one, ("walproof", "run"), facts.run.environment, "0.1.0")
    store.close()
    refused = walproof("runs", "remove", other.id, step.id, "--yes", "--out", ".", cwd=tmp_path)
    assert refused.returncode == 2
    assert f"run {step.id} is a step of tuning tune-shop-1, whose answer rests on it" in refused.stderr
    elsewhere = walproof("runs", "remove", given_up.id, "--yes", "--store", "walproof.sqlite", cwd=tmp_path)
    assert elsewhere.returncode == 2
    assert "is a step of tuning tune-shop-3, which is not in folder walproof-out" in elsewhere.stderr
    removed = walproof("runs", "remove", other.id, plain.id, "--yes", "--out", ".", cwd=tmp_path)
    assert removed.returncode == 0, removed.stderr
    listed = json.loads(walproof("runs", "--json", "--out", ".", cwd=tmp_path).stdout)
    assert {row["run"] for row in listed} == {step.id, given_up.id}


def test_the_report_is_opened_where_the_reader_found_the_run(tmp_path: Path) -> None:
    facts = make_facts(2)
    store = Store(tmp_path / "walproof.sqlite")
    measured = ("walproof", "run", "small", "--out", "out1", "--store", "postgresql:///?service=facts")
    run = store.add_run(facts.run.plan, measured, facts.run.environment, "0.2.0")
    store.finish_run(run.id)
    store.close()
    for words in (["--out", "."], ["--store", "walproof.sqlite"]):
        shown = json.loads(walproof("show", "last", "--json", *words, cwd=tmp_path).stdout)
        opening = shown["answer"]["next_commands"][-1]["command"]
        assert opening == " ".join(["walproof", "report", run.id, "--open", *words])
