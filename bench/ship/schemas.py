"""JSON schemas (2020-12) of what commands print with --json, and of the study file, from their types.

make site        # build/reference/schemas/*.json, for the reference
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from pydantic import TypeAdapter

from bench.ship.shapes import runs, servers, tuning, wal, workload
from walproof.facts.calibration import Calibration
from walproof.facts.plan import Plan
from walproof.facts.tuning import TuningPlan
from walproof.facts.upgrade import Upgrade
from walproof.lab.reading import study_model
from walproof.wal.strip import Stripped

DIALECT = "https://json-schema.org/draft/2020-12/schema"


OUTPUTS: Mapping[str, tuple[Any, str]] = {
    "report": (runs.Report, "run, compare, show RUN, report RUN --format json"),
    "plan": (Plan, "run --dry-run, compare --dry-run"),
    "hosts": (runs.Hosts, "run --ray"),
    "studies": (list[runs.StudyTitle], "studies"),
    "runs": (list[runs.RunRow], "runs"),
    "run-request": (runs.Asked, "runs stop, runs more"),
    "runs-copy": (runs.CopiedRuns, "runs copy"),
    "runs-remove": (list[runs.RemovedRun], "runs remove"),
    "workload": (workload.DraftedLoad, "workload"),
    "load-advice": (runs.LoadRecipe, "load-advice"),
    "power-cut-replay": (runs.CutAgain, "power-cut replay of a case that is cut again"),
    "pg-list": (list[runs.InstallRow], "pg list"),
    "pg-available": (list[runs.Available], "pg list --available"),
    "pg-install": (runs.Fetched, "pg install"),
    "pg-remove": (runs.Removed, "pg remove"),
    "disk": (runs.Flushes, "disk"),
    "store-upgrade": (Upgrade, "store upgrade"),
    "wal-capture": (runs.Captured, "wal capture"),
    "wal-part": (wal.Part, "wal part"),
    "wal-stats": (wal.Stats, "wal stats"),
    "wal-records": (wal.Record, "wal records, each line"),
    "wal-map": (wal.RelationNames, "wal map"),
    "wal-strip": (Stripped, "wal strip"),
    "wal-whatif": (wal.WhatIf, "wal whatif"),
    "wal-verify": (wal.Verification, "wal verify"),
    "recovery-predict": (wal.Recovery, "recovery predict"),
    "recovery-progress": (wal.RecoveryUnderWay, "recovery progress, each line"),
    "recovery-calibrate": (Calibration, "recovery calibrate"),
    "advise": (servers.Advice | servers.AdviceOfSeveral, "advise"),
    "watch": (servers.Watched, "watch, each line"),
    "replica-watch": (servers.ReplicaWindow, "replica watch, each line"),
    "tune": (tuning.Tuned, "tune, show TUNING, report TUNING --format json"),
    "tune-plan": (TuningPlan, "tune --dry-run"),
}
"""Name of the schema -> the type of what is printed, and the commands that print it."""

_NUMBER = {"anyOf": [{"type": "number"}, {"type": "null"}]}
_ADDED: Mapping[str, Mapping[str, Any]] = {
    "recovery-calibrate": {"format": {"type": "integer"}},
    "tune-plan": {
        "name": {"type": "string"},
        "trial_s": {"type": "number"},
        "is_over_hosts": {"type": "boolean"},
    },
}
"""Keys that a command puts beside those of the type."""

_DERIVED: Mapping[str, Mapping[str, Any]] = {
    "CutSummary": {
        "survives": {"type": ["string", "null"]},
        "failed": {"type": "integer"},
        "failure_rate_most": _NUMBER,
        "cut_rate_most": _NUMBER,
        "window_ms_median": _NUMBER,
        "window_ms_p95": _NUMBER,
    },
    "Climb": {"skipped": {"type": "array", "items": {"$ref": "#/$defs/SweepPoint"}}},
    "HostEstimate": {"is_odd": {"type": "boolean"}, "is_suspect": {"type": "boolean"}},
}
"""Properties of a type that are printed beside its fields."""


@cache
def schema(name: str) -> dict[str, Any]:
    """The schema of an output, by its name in OUTPUTS, or of ``study``: the file, as it is typed."""
    if name == "study":
        typed = study_model().model_json_schema(mode="validation")
        # Studies of some kinds get one as they are read (LabKind.takes_workload).
        typed["required"].remove("workload")
        return _finished(typed, "A study file (TOML)")
    kind, command = OUTPUTS[name]
    found = TypeAdapter(kind).json_schema(mode="serialization")
    for key, value in _ADDED.get(name, {}).items():
        found["properties"] = {key: value, **found["properties"]}
        found["required"] = [key, *found["required"]]
    for name_of, keys in _DERIVED.items():
        if name_of in found.get("$defs", {}):
            found["$defs"][name_of]["properties"].update(keys)
    # JSON has no NaN: what could not be computed is null.
    finished: dict[str, Any] = _with_null_numbers(found) if name == "report" else found
    return _finished(finished, f"walproof {command}")


def _finished(found: dict[str, Any], title: str) -> dict[str, Any]:
    return {"$schema": DIALECT, **_plain(found), "title": title}


def _plain(node: Any) -> Any:
    """Remove pydantic's titles, and shorten descriptions to their first line."""
    if isinstance(node, list):
        return [_plain(item) for item in node]
    if not isinstance(node, dict):
        return node
    kept = {key: value for key, value in node.items() if not (key == "title" and isinstance(value, str))}
    if isinstance(kept.get("description"), str):
        kept["description"] = re.sub(r"`+", "", kept["description"].split("\n\n")[0].replace("\n", " "))
    return {key: _plain(value) for key, value in kept.items()}


def _with_null_numbers(node: Any) -> Any:
    """A copy in which every number may be null."""
    if isinstance(node, list):
        return [_with_null_numbers(item) for item in node]
    if not isinstance(node, dict):
        return node
    if node.get("type") == "number":
        return {**node, "type": ["number", "null"]}
    return {key: _with_null_numbers(value) for key, value in node.items()}


def closed(node: Any) -> Any:
    """The schema with every object limited to its keys: what tests use, so that a new key gets its line.

    The published ones are open: keys stay, new ones may come.
    """
    if isinstance(node, list):
        return [closed(item) for item in node]
    if not isinstance(node, dict):
        return node
    inner = {key: closed(value) for key, value in node.items()}
    if "properties" in inner and "additionalProperties" not in inner and isinstance(node["properties"], dict):
        inner["additionalProperties"] = False
    return inner


def files() -> dict[str, str]:
    """Every schema by the name of its file."""
    return {f"{name}.json": json.dumps(schema(name), indent=1) + "\n" for name in [*OUTPUTS, "study"]}
