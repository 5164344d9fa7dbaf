"""``walproof runs``: what it says of runs that have not ended."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.command import walproof
from tests.report.facts import make_facts
from tests.schemas import assert_valid
from walproof.facts.store import Store


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
    later = walproof("runs", "--out", ".", cwd=tmp_path).stdout
    store.close()
    assert "running" not in later


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
