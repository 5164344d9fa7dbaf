"""Settings of roles are read as the server reads them, and one that waits for no standby is a danger."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.advise.server.windows import found, healthy, with_settings
from walproof.advise.server.advice import Advice, Fine
from walproof.facts.server import ServerOverride
from walproof.facts.transactions import SynchronousWait

BATCH = ServerOverride("batch", None, "synchronous_commit", "off")


@pytest.mark.parametrize(
    ("value", "is_loose"),
    [("off", True), ("false", True), ("no", True), ("0", True), ("OFF", True), ("on", False), ("1", False)],
)
def test_a_word_that_means_off_is_off(value: str, is_loose: bool) -> None:
    """The catalog keeps a value as it was written, and "false" was called fine."""
    told = found("overrides", replace(healthy(), overrides=(replace(BATCH, value=value),)))
    assert isinstance(told, Advice) is is_loose, told


def test_a_role_whose_commits_wait_for_no_standby_is_a_danger_where_others_wait() -> None:
    local = replace(healthy(), overrides=(replace(BATCH, value="local"),))
    assert isinstance(found("overrides", local), Fine)
    waiting = replace(local, synchronous=SynchronousWait("a", "on", ("a",), (), 0, 0, None))
    told = found("overrides", waiting)
    assert isinstance(told, Advice)
    assert told.evidence[0].startswith("synchronous_commit is local for role batch: a failover loses")
    assert told.steps == ("ALTER ROLE batch RESET synchronous_commit;",)
    # A reset gives what the server has: here commits that nothing waits for.
    without = with_settings(waiting, synchronous_commit="off")
    assert isinstance(found("overrides", without), Fine)


def test_a_value_that_no_version_knows_is_told_as_it_is() -> None:
    told = found("overrides", replace(healthy(), overrides=(replace(BATCH, value="often"),)))
    assert told == Fine("overrides", "Set for some, whatever the server has: synchronous_commit = often for "
                                     "role batch.")  # fmt: skip
