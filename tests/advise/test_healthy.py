"""No false alarm at twenty real servers at which there is nothing to change.

``bench/advise/healthy.toml`` defines them, ``bench/advise/healthy.py`` looked at them.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from tests.advise.server.stored import HEALTHY, cases, fact, plain
from tests.advise.server.windows import DAY_S
from walproof.advise.server import case as case_module
from walproof.advise.server import commits, wasted
from walproof.advise.server.rules import advise
from walproof.wal.totals import WalStats

_DEFINED = Path(__file__).parents[2] / "bench/advise/healthy.toml"
NAMES = [load["name"] for load in tomllib.loads(_DEFINED.read_text(encoding="utf-8"))["server"]]
NO_BACKUP: Mapping[str, set[str]] = {"pgtune-desktop": {"wal_level"}}
"""pgtune's desktop has wal_level = minimal: a finding, and a true one (docs/advise-validation.md)."""
TRUE_FINDINGS: Mapping[str, set[str]] = {**NO_BACKUP, "five-minutes": {"wal_compression"}}
"""What a longer look would say, and be right (docs/advise-validation.md): 94 % of its WAL are images, which
initdb leaves uncompressed."""


def test_every_server_that_was_defined_was_looked_at() -> None:
    assert len(NAMES) == 20
    assert sorted(cases(HEALTHY)) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_there_is_nothing_to_change(name: str) -> None:
    # Minors are what the machine had.
    advised = advise(cases(HEALTHY)[name], ("minors",))
    told = {advice.rule: (advice.title, *advice.evidence) for advice in advised.advice}
    assert set(told) == NO_BACKUP.get(name, set()), told


@pytest.mark.parametrize("name", NAMES)
def test_nor_is_there_after_a_month_of_statistics_and_much_shorter_windows_judged(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rules that say they saw too little in a short look have to judge it."""
    monkeypatch.setattr(case_module, "LEAST_WAL_BYTES", 1 << 18)
    monkeypatch.setattr(wasted, "LEAST_UPDATES", 500)
    monkeypatch.setattr(wasted, "LEAST_INDEX_BYTES", 8192)
    monkeypatch.setattr(commits, "LEAST_COMMITS", 50)
    monkeypatch.setattr(commits, "LEAST_SAMPLES", 3)
    seen = cases(HEALTHY)[name]
    assert seen.window.started_at is not None
    aged = replace(seen.window, started_at=seen.window.started_at - 30 * DAY_S)
    advised = advise(replace(seen, window=aged), ("minors",))
    assert {advice.rule for advice in advised.advice} == TRUE_FINDINGS.get(name, set())


def test_facts_are_kept_without_loss() -> None:
    wal = cases(HEALTHY)["pgtune-web"].wal
    assert wal is not None
    assert wal.accounting.total_bytes > 0
    assert fact(WalStats, plain(wal)) == wal
