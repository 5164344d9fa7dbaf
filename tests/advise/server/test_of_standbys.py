"""Rules whose lines a standby refuses, or whose statistics are its own, leave it to the primary's answer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.advise.server.windows import found, healthy, with_settings
from walproof.advise.server.advice import Advice
from walproof.facts.server import ServerIndex, ServerOverride, ServerTable

PRIMARY = replace(
    healthy(),
    indexes=(ServerIndex("public.old", "public.t", 50 << 20, 0, False, False, 17000),),
    overrides=(ServerOverride("shop", None, "synchronous_commit", "off"),),
    tables=(ServerTable("public.cart", 1 << 20, True, 0, 0, 0, 0, 1000, 100),),
)


@pytest.mark.parametrize("rule", ["unused indexes", "overrides", "unlogged"])
def test_a_standby_gets_no_line_that_it_refuses(rule: str) -> None:
    """No query on a standby reads what the primary's queries do, and DROP INDEX there is an error."""
    assert isinstance(found(rule, PRIMARY), Advice)
    assert found(rule, replace(PRIMARY, is_in_recovery=True)) is None


def test_nobody_commits_on_a_standby() -> None:
    """Its counters of commits have the reads, and its flushes are the walreceiver's."""
    sleeping = with_settings(healthy(), commit_delay="100")
    assert found("commit_delay", replace(sleeping, is_in_recovery=True)) is None
    assert found("commit_delay", sleeping) is not None
