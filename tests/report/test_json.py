"""The machine form: valid JSON with stable keys, true to the facts."""

from __future__ import annotations

import json
from typing import Any

from tests.report.facts import durability, hostile_facts, make_facts
from tests.schemas import assert_valid
from walproof.report.json import to_json
from walproof.report.view import build_view


def document(facts: Any) -> dict[str, Any]:
    def refuse(name: str) -> float:
        raise AssertionError(f"{name} is no JSON")

    text = to_json(build_view(facts.run, facts.trials, facts.series))
    found: dict[str, Any] = json.loads(text, parse_constant=refuse)
    assert_valid("report", found)
    return found


def test_keys_are_stable() -> None:
    found = document(durability())
    assert list(found) == [
        "format", "run", "trials", "analysis", "power_cuts", "sweeps", "findings", "gate", "answer",
    ]  # fmt: skip
    assert found["sweeps"] == []
    assert found["format"] == 1
    assert found["run"]["plan"]["variants"][3]["durability"] == "may corrupt"
    assert set(found["answer"]) == {"question", "answers", "how_sure", "what_would_help", "next_commands"}
    effect = found["analysis"]["effects"][0]
    assert {"ratio", "interval", "n", "left_out", "ratios", "half_width", "conclusion"} <= set(effect)
    assert {"kind", "install", "workload", "variant", "sentence", "trials", "metrics"} <= set(
        found["findings"][0]
    )


def test_all_trials_are_there_with_their_metrics() -> None:
    facts = durability()
    found = document(facts)["trials"]
    assert [trial["number"] for trial in found] == [trial.number for trial in facts.trials]
    assert sum(trial["state"] == "failed" for trial in found) == 2
    assert found[0]["metrics"] == dict(facts.trials[0].metrics)


def test_not_a_number_becomes_null() -> None:
    assert document(hostile_facts())["trials"][0]["metrics"]["wal_fpi"] is None


def test_run_without_trials() -> None:
    assert document(make_facts(0))["trials"] == []
