"""The published JSON schemas: every command has one, and what is stored and printed offline is as they say.

Outputs of commands that print without a server are validated in tests/cli/test_json.py, others where they are
made.
"""

from __future__ import annotations

import json
import re
import tomllib

import pytest
from jsonschema import Draft202012Validator

from bench.ship.command_tree import commands
from bench.ship.schemas import OUTPUTS, closed, files, schema
from tests.advise.test_replica import NAMES, recorded
from tests.report.facts import durability
from tests.schemas import assert_valid
from walproof.advise.replica.diagnosis import diagnose
from walproof.facts.codec import to_data
from walproof.lab.study import built_in_names, read_study
from walproof.report.replica import replica_data

OTHERWISE = {"mcp", "web"}
"""Commands that print JSON of another protocol, or none."""


def test_schemas_are_schemas() -> None:
    for name, text in files().items():
        Draft202012Validator.check_schema(json.loads(text))
        assert name.removesuffix(".json") in {*OUTPUTS, "study"}


def test_every_command_has_one() -> None:
    told = " ".join(words for _, words in OUTPUTS.values())
    for command in commands():
        name = command.name.removeprefix("walproof ")
        if not command.is_group and name not in OTHERWISE:
            assert re.search(rf"(^|[ ,]){re.escape(name)}\b", told), name


@pytest.mark.parametrize("name", built_in_names())
def test_built_in_studies_are_what_the_schema_says(name: str) -> None:
    _, text, _ = read_study(name)
    assert_valid("study", tomllib.loads(text))


def test_a_study_whose_load_is_fixed_may_be_without_a_workload() -> None:
    _, text, _ = read_study("replay")
    typed = tomllib.loads(text)
    del typed["workload"]
    assert_valid("study", typed)


def test_a_wrong_key_or_type_of_a_study_is_found() -> None:
    validator = Draft202012Validator(closed(schema("study")))
    _, text, _ = read_study("durability")
    assert list(validator.iter_errors({**tomllib.loads(text), "nonsense": 1}))
    assert list(validator.iter_errors({**tomllib.loads(text), "workload": [{"name": "a", "scale": "large"}]}))


def test_a_stored_plan_is_what_the_schema_says() -> None:
    assert_valid("plan", json.loads(json.dumps(to_data(durability().run.plan))))


@pytest.mark.parametrize("name", NAMES)
def test_a_window_of_a_pair_is_what_the_schema_says(name: str) -> None:
    window = recorded(name)
    assert_valid("replica-watch", json.loads(json.dumps(replica_data(window, diagnose(window)))))


def test_a_new_key_is_found() -> None:
    with pytest.raises(AssertionError, match="pg-remove"):
        assert_valid("pg-remove", {"removed": "13.7", "more": 1})
