"""Builds, and versions of a load, whose servers take turns: when, how they share a start, what forbids it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from walproof.cli.plan import plan_text
from walproof.errors import StudyError
from walproof.facts import Cell, Design, Install, Plan
from walproof.facts.gate import parse_promises
from walproof.lab.asked import Overrides
from walproof.lab.preflight import estimate
from walproof.lab.study import Version, ad_hoc, resolve
from walproof.lab.studyfile import ScriptTable
from walproof.postgres import install as installs

LOAD: dict[str, object] = {"name": "this", "clients": 4, "duration": 10}
SLEEPS = ScriptTable(sql="\\sleep 1 ms\nSELECT 1;")


def _versions(
    embedded: Install,
    *promises: str,
    load: dict[str, object] = LOAD,
    scripts: tuple[ScriptTable, ...] = (),
    **overrides: Any,
) -> Plan:
    study = ad_hoc([], load, scripts, against=Version({**load, "name": "other"}, scripts))
    asked = Overrides(fail_if=parse_promises(promises or ("tps < 0.97x",)), **overrides)
    return resolve(study, asked, folder=Path("/somewhere"), given=(embedded,))


def _builds(embedded: Install, *promises: str, **overrides: Any) -> Plan:
    given = tuple(installs.label_all([embedded, installs.find("embedded-16")]))
    asked = Overrides(fail_if=parse_promises(promises), **overrides)
    return resolve(ad_hoc([], LOAD), asked, folder=Path("/somewhere"), given=given)


def test_versions_of_a_load_that_a_gate_compares_take_turns(embedded: Install) -> None:
    plan = _versions(embedded)
    (variant,) = plan.variants
    assert variant.design is Design.SLICED
    assert variant.design_reason == "the versions of the load have a server each, and the loads take turns"
    assert (plan.turning, plan.turns, plan.turn_baseline) == ("workload", ("other", "this"), "other")
    own = Cell(embedded.label, "other", "default")
    assert plan.round_cells(1) == (own,), "a start of both is one trial"
    assert plan.shared_cells(own) == {"other": own, "this": own._replace(workload="this")}
    assert plan.shared_cells(own._replace(workload="this")) == {}
    text = plan_text(plan, ["walproof", "compare"])
    assert "sliced, on 2 servers that take turns: 200 starts of 8 passes of 2 slices of 300 ms" in text
    assert "1 trial a round" in text


def test_two_servers_at_once_need_twice_the_memory_and_share_a_trial(embedded: Install) -> None:
    sliced, fresh = (
        estimate(_versions(embedded, rounds=8, design=design), Path("/nowhere"))
        for design in ("auto", "fresh")
    )
    assert sliced.memory_bytes == 2 * fresh.memory_bytes
    assert sliced.length is not None
    assert sliced.length.window_s == pytest.approx(8 * 8 * 2 * 0.405)
    assert sliced.trials_most == 8
    assert fresh.trials_most == 16


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"load": {"name": "this", "clients": 4, "transactions": 100}}, "a number of transactions sets"),
        ({"load": {**LOAD, "rate": 100.0}}, "an offered rate goes on while a load is stopped"),
        ({"scripts": (SLEEPS,)}, "\\sleep goes on while a load is stopped"),
        ({"probes": ("waits",)}, "probe waits needs a window of its own"),
    ],
)
def test_what_needs_a_server_for_each_trial_is_said(
    embedded: Install, changes: dict[str, Any], reason: str
) -> None:
    (variant,) = _versions(embedded, **changes).variants
    assert variant.design is Design.FRESH
    assert (variant.design_reason or "").startswith(reason)
    with pytest.raises(StudyError, match="cannot be measured in slices") as caught:
        _versions(embedded, design="sliced", **changes)
    assert (caught.value.detail or "").startswith(reason)


def test_promises_of_quantiles_have_windows(embedded: Install) -> None:
    (variant,) = _versions(embedded, "latency_ms_p99 > 1.1x").variants
    assert variant.design is Design.FRESH
    assert variant.design_reason == "latency_ms_p99, which the gate is about, is not measured in slices"


def test_neither_is_toggled(embedded: Install) -> None:
    for noun, plan in (("versions of the load", _versions), ("installs", _builds)):
        with pytest.raises(StudyError, match="cannot be toggled") as caught:
            plan(embedded, "tps < 0.97x", design="toggled")
        assert caught.value.detail == f"several {noun} are several servers"


def test_builds_take_turns_for_a_gate_or_when_that_is_typed(embedded: Install) -> None:
    assert _builds(embedded).variants[0].design is Design.FRESH, "windows have probes, which say why"
    for plan in (_builds(embedded, "tps < 0.97x"), _builds(embedded, design="sliced")):
        (variant,) = plan.variants
        assert variant.design is Design.SLICED
        assert variant.design_reason == "the installs have a server each, and the loads take turns"
        first, second = (install.label for install in plan.installs)
        assert (plan.turning, plan.turns, plan.turn_baseline) == ("install", (first, second), first)
        own = Cell(first, "this", "default")
        assert plan.round_cells(1) == (own,)
        assert plan.shared_cells(own) == {first: own, second: own._replace(install=second)}
    assert _builds(embedded, "tps < 0.97x", design="fresh").variants[0].design is Design.FRESH
