"""A plan survives its JSON, and its hash sees every change."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from tests.facts.plans import plan
from walproof.errors import StoreError
from walproof.facts import Gate, LeftOut, Plan, Promise, Reference, Replay, Side, Toggling
from walproof.facts.codec import from_json, measured_json, plan_hash, to_json
from walproof.facts.plan import Placing

CHANGES: dict[str, Any] = {
    "study": "other",
    "title": "?",
    "description": "d",
    "installs": (),
    "driver": dataclasses.replace(plan().driver, version="17.0"),
    "workloads": (),
    "base_settings": {"max_wal_size": "3GB"},
    "slicing": Toggling("default, sliced", 8, 8, 0.5, 0.03),
    "place": Placing.STEADY,
    "variants": (),
    "baseline": "fsync=off",
    "factors": {"fsync": ("on", "off")},
    "fraction": "half",
    "aliases": ("a = b",),
    "rounds": 4,
    "half_width": 0.05,
    "budget_s": 60.0,
    "initdb_options": ("--data-checksums",),
    "checkpoint_before": False,
    "probes": (),
    "seed": 8,
    "folder": "/elsewhere",
    "references": (Reference("default", None, 1.0),),
    "left_out": (LeftOut("lz4", "not built"),),
    "flush_rates": True,
    "reference_source": "a paper",
    "quick": True,
    "device": "hdd-7200",
    "format": 3,
    "kind": Replay(1000, 2000, 500),
    "toggling": Toggling("default", 2, 40, 0.3, 0.03),
    "gate": Gate((Promise("tps", Side.BELOW, 0.97),)),
}


def test_a_plan_survives_its_json() -> None:
    assert from_json(Plan, to_json(plan())) == plan()


def test_the_list_of_changes_is_complete() -> None:
    assert {*CHANGES, "notes", "same"} == {field.name for field in dataclasses.fields(Plan)}


@pytest.mark.parametrize("name", CHANGES)
def test_the_hash_sees_a_change_of(name: str) -> None:
    assert plan_hash(dataclasses.replace(plan(), **{name: CHANGES[name]})) != plan_hash(plan())


def test_the_hash_is_stable() -> None:
    assert plan_hash(plan()) == plan_hash(plan())


def test_notes_of_a_plan_change_nothing_that_is_measured() -> None:
    noted = dataclasses.replace(plan(), notes=("a note",), same=("off",))
    assert plan_hash(noted) == plan_hash(plan())
    assert measured_json(noted) == measured_json(plan())
    assert json.loads(measured_json(noted)) == {
        name: value for name, value in json.loads(to_json(noted)).items() if name not in ("notes", "same")
    }


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"study": 1}', to_json(plan())[:-1]])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(StoreError, match="stored plan cannot be read"):
        from_json(Plan, text)
