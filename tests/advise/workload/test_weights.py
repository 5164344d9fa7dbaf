"""Weights of scripts: what is rare in the application is as rare in the load."""

from __future__ import annotations

import tomllib
from dataclasses import replace

from tests.advise.workload.apps import ORDER, PARENTS, application, statement
from walproof.advise.workload.draft import draft
from walproof.advise.workload.weights import weights_of


def test_a_rare_script_runs_as_rarely_as_in_the_application() -> None:
    """A retention once a minute, among 10,000 updates a second, that writes a third of the WAL."""
    rows = (
        statement("UPDATE parents SET name = $1 WHERE id = $2", 600_000.0),
        statement("DELETE FROM parents WHERE id < $1", 1.0, 5000.0, wal=3e7),
    )
    found = draft(application((PARENTS,), *rows), ORDER)
    load = tomllib.loads(found.files[f"{ORDER.name}.toml"])
    assert [each["weight"] for each in load["workload"][0]["script"]] == [60_000_000, 100]
    assert [note for note in found.notes if "less than one of 100,000 runs" in note] == [
        "02-delete-parents.sql: less than one of 100,000 runs each, as in the application, which wrote 33 % "
        "of its WAL there. A short measurement may have no run of them."
    ]
    often = draft(application((PARENTS,), rows[0], replace(rows[1], calls=60_000.0)), ORDER)
    assert not any("less than one of" in note for note in often.notes)


def test_no_weight_is_larger_than_pgbench_takes() -> None:
    assert weights_of([1e12, 1.0]) == [2_000_000_000, 1]
    assert weights_of([3.0, 1.0]) == [7500, 2500]
    assert weights_of([]) == []
