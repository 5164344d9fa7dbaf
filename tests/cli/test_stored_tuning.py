"""``walproof show`` and ``walproof report`` of a tuning: from what is stored, without a server."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from mcp import Client

from tests.cli.command import walproof
from tests.cli.test_mcp import ask_process
from tests.mcp.asking import answer as tool_answer
from tests.mcp.asking import told, whole
from tests.report.tuned import asked_of, facts_of
from tests.schemas import assert_valid
from tests.web.tuned import NAME, put_tuning
from walproof.advise.tune.answer import answer
from walproof.advise.tune.judge import RecordedJudge
from walproof.cli.stored import find_tuning
from walproof.facts.tuning import TuningFacts
from walproof.report.tune.kept import ANSWER_FILE, KeptAnswer, keep_answer


@pytest.fixture(scope="module")
def facts(own_judge: RecordedJudge) -> TuningFacts:
    return facts_of(own_judge, is_flat=False)


@pytest.fixture
def kept(tmp_path: Path, facts: TuningFacts, own_judge: RecordedJudge) -> KeptAnswer:
    """The answer of a finished tuning in ``tmp_path``."""
    put_tuning(tmp_path, facts)
    kept = KeptAnswer(answer(facts, own_judge, lambda _: own_judge), asked_of(facts), "conf", finished=True)
    keep_answer(tmp_path / "tunings" / NAME, kept)
    return kept


def test_a_tuning_is_shown_by_its_name(tmp_path: Path, kept: KeptAnswer) -> None:
    done = walproof("show", NAME, "--out", ".", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Which settings give the best throughput" in done.stdout
    assert kept.answer.conf.settings
    for name, value in kept.answer.conf.settings:
        assert f"{name} = {value}" in done.stdout
    found = json.loads(walproof("show", NAME, "--out", ".", "--json", cwd=tmp_path).stdout)
    assert_valid("tune", found)
    assert found["name"] == NAME


def test_its_report_has_three_forms(tmp_path: Path, kept: KeptAnswer) -> None:
    done = walproof("report", NAME, "--out", ".", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, f"tunings/{NAME}/report.html\n")
    assert "<h1>" in (tmp_path / "tunings" / NAME / "report.html").read_text()
    text = walproof("report", NAME, "--out", ".", "--format", "md", cwd=tmp_path).stdout
    assert text.startswith("# Which settings give the best throughput")
    for name, value in kept.answer.conf.settings:
        assert f"{name} = {value}" in text
    found = walproof("report", NAME, "--out", ".", "--format", "json", cwd=tmp_path).stdout
    assert found == walproof("show", NAME, "--out", ".", "--json", cwd=tmp_path).stdout
    named = walproof("report", NAME, "--out", ".", "-o", "mine.html", cwd=tmp_path)
    assert named.stdout == "mine.html\n"
    assert (tmp_path / "mine.html").is_file()


def test_one_that_goes_on_has_its_last_answer(
    tmp_path: Path, facts: TuningFacts, own_judge: RecordedJudge
) -> None:
    """It was made after the first steps; more were measured since."""
    steps = facts.steps[:4]
    then = replace(
        facts, steps=steps, measured=tuple(each for each in facts.measured if each.step <= len(steps))
    )
    put_tuning(tmp_path, then, pending=facts.steps[len(steps)])
    earlier = replace(
        then, steps=steps[:2], measured=tuple(each for each in facts.measured if each.step <= 2)
    )
    made = KeptAnswer(answer(earlier, own_judge, lambda _: own_judge), asked_of(earlier), "conf")
    keep_answer(tmp_path / "tunings" / NAME, made)
    done = walproof("show", NAME, "--out", ".", "--json", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stderr == f'warning: tuning "{NAME}" has not ended; this is its last answer\n'
    assert len(json.loads(done.stdout)["steps"]) == 2


def test_an_assistant_is_told_what_is_shown(tmp_path: Path, kept: KeptAnswer) -> None:
    async def ask(client: Client) -> None:
        found = await tool_answer(client, "show_run", run=NAME)
        data = await whole(client, told(await client.call_tool("show_run", {"run": NAME, "form": "json"})))
        assert (found["name"], found["summary"]) == (NAME, data["summary"])
        # Lines to paste are shown with what has to be known before.
        for part in ("apply", "undo", "durability_class", "lines_notes", "refused", "platform", "notes"):
            assert found[part] == data[part], part
        assert data == json.loads(walproof("show", NAME, "--out", ".", "--json", cwd=tmp_path).stdout)
        page = told(await client.call_tool("show_run", {"run": NAME, "form": "markdown"}))
        text = await whole(client, page)
        assert text == walproof("report", NAME, "--out", ".", "--format", "md", cwd=tmp_path).stdout

    ask_process(tmp_path, ask, "--out", ".")


@pytest.mark.parametrize("command", ["show", "report"])
def test_one_without_an_answer_says_so(tmp_path: Path, kept: KeptAnswer, command: str) -> None:
    (tmp_path / "tunings" / NAME / ANSWER_FILE).unlink()
    done = walproof(command, NAME, "--out", ".", cwd=tmp_path)
    assert done.returncode == 2
    assert f'tuning "{NAME}" has no answer yet' in done.stderr
    assert "walproof web" in done.stderr


def test_a_name_that_no_file_can_have_is_no_tuning(tmp_path: Path) -> None:
    assert find_tuning("x" * 300, tmp_path) is None


def test_the_last_answer_is_made_anew_where_it_would_be_another(kept: KeptAnswer) -> None:
    """ALTER SYSTEM RESET was run, a machine calibrated, another platform asked for, or a step was added."""
    steps, before = len(kept.asked.runs), kept.asked.before
    assert kept.is_last(steps, "conf", dict(before))
    assert not kept.is_last(steps, "patroni", before)
    assert not kept.is_last(steps + 1, "conf", before)
    assert not replace(kept, finished=False).is_last(steps, "conf", before)
    by_sql = {name: replace(value, is_in_auto_conf=True) for name, value in before.items()}
    assert by_sql
    assert not kept.is_last(steps, "conf", by_sql)
    assert kept.rests_on(("Costs are the shipped ones.", "and more"))
    assert not kept.rests_on(("Costs were calibrated on 2026-11-28 12:00 UTC.",))
