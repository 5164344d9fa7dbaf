"""A study of failover: what its variants risk, and what of their settings is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from walproof.facts import Install, Plan
from walproof.lab.asked import Overrides
from walproof.lab.reading import check_study
from walproof.lab.study import resolve
from walproof.settings.durability import DurabilityClass

STUDY: dict[str, Any] = {"name": "mine", "title": "?", "failover": {}, "workload": [{"name": "ledger"}]}


def planned(install: Install, tables: dict[str, Any]) -> Plan:
    study = check_study({**STUDY, **tables}, "test")
    return resolve(study, Overrides(), folder=Path("/somewhere"), given=(install,))


@pytest.mark.parametrize(
    ("settings", "durability"),
    [
        ({}, DurabilityClass.NONE),
        ({"synchronous_commit": "remote_write"}, DurabilityClass.NONE),
        ({"standbys": "any 2 of 3"}, DurabilityClass.NONE),
        ({"synchronous_commit": "local"}, DurabilityClass.LAST_COMMITS),
        ({"synchronous_commit": "no"}, DurabilityClass.LAST_COMMITS),
        ({"standbys": "cascade"}, DurabilityClass.LAST_COMMITS),
        ({"synchronous_commit": "local", "fsync": "off"}, DurabilityClass.CORRUPT),
    ],
)
def test_a_class_covers_the_failover(
    embedded: Install, settings: dict[str, str], durability: DurabilityClass
) -> None:
    """``local`` is safe on a server alone: answers ranked it beside levels that lose nothing, and named it as
    the fastest of them."""
    plan = planned(embedded, {"variant": [{"name": "a", "settings": settings}]})
    assert plan.variant("a").durability is durability


def test_a_level_of_the_base_counts(embedded: Install) -> None:
    base = {"synchronous_commit": "local"}
    plan = planned(embedded, {"base": base, "factors": {"distance": ["0", "5ms"]}})
    assert {variant.durability for variant in plan.variants} == {DurabilityClass.LAST_COMMITS}
