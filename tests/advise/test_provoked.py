"""Rules of advice on what was seen of real servers: one that was provoked, and its neighbour that was not.

``bench/advise/provoked.py`` made the facts, ``bench/advise/provocations.py`` says what was done.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

import pytest

from tests.advise.server.stored import PROVOKED, read
from walproof.advise.server.advice import Advice
from walproof.advise.server.case import ServerCase
from walproof.advise.server.rules import RULES, rule_texts

NOT_PROVOKED: Mapping[str, str] = {}
"""Rules that no server can be made to need here, and why."""


@functools.cache
def _cases() -> Mapping[str, ServerCase]:
    return read(PROVOKED)


def test_every_rule_was_provoked_or_says_why_not() -> None:
    looked_at = {name.split("/")[0] for name in _cases()}
    assert looked_at | set(NOT_PROVOKED) == set(rule_texts())
    assert not looked_at & set(NOT_PROVOKED)
    assert all(NOT_PROVOKED.values())


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule not in NOT_PROVOKED])
def test_a_rule_fires_on_the_provoked_server_and_not_on_its_neighbour(rule: str) -> None:
    fired = RULES[rule](_cases()[f"{rule}/provoked"])
    assert isinstance(fired, Advice), fired
    assert fired.rule == rule
    assert not isinstance(RULES[rule](_cases()[f"{rule}/neighbour"]), Advice)
