"""Rules of advice on what was seen of real servers: one that was provoked, and its neighbour that was not.

``bench/advise/provoked.py`` made the facts, ``bench/advise/provocations.py`` says what was done.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import pytest

from tests.advise.server.stored import PROVOKED, cases
from walproof.advise.server.advice import Advice, Fine
from walproof.advise.server.rules import RULES, rule_texts

NOT_PROVOKED: Mapping[str, str] = {
    "horizon": "ten million transactions beside a session of an hour",
    "writes of sessions": "a full queue of flushes, which this load does not reach",
}
"""Rules that no server can be made to need here, and why."""


def test_every_rule_was_provoked_or_says_why_not() -> None:
    looked_at = {name.split("/")[0] for name in cases(PROVOKED)}
    assert looked_at | set(NOT_PROVOKED) == set(rule_texts())
    assert not looked_at & set(NOT_PROVOKED)
    assert all(NOT_PROVOKED.values())


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule not in NOT_PROVOKED])
def test_a_rule_fires_on_the_provoked_server_and_not_on_its_neighbour(rule: str) -> None:
    fired = RULES[rule](cases(PROVOKED)[f"{rule}/provoked"])
    assert isinstance(fired, Advice), fired
    assert fired.rule == rule
    assert not isinstance(RULES[rule](cases(PROVOKED)[f"{rule}/neighbour"]), Advice)


def test_the_saving_of_ordered_keys_is_printed_where_it_was_simulated() -> None:
    case = cases(PROVOKED)["random keys/provoked"]
    assert case.whatif is not None
    present = case.whatif.present
    asked = dataclasses.replace(case.whatif.question.present, ordered_keys=True)

    def found(share: float) -> object:
        ordered = dataclasses.replace(present, target=asked, wal_bytes=share * present.wal_bytes)
        predictions = {**case.whatif.predictions, asked: ordered} if case.whatif else {}
        simulated = dataclasses.replace(case.whatif, predictions=predictions)  # type: ignore[type-var]
        return RULES["random keys"](dataclasses.replace(case, whatif=simulated))

    advice = found(0.4)
    assert isinstance(advice, Advice)
    (wal,) = advice.figures
    assert (wal.now, wal.then) == (present.wal_bytes, 0.4 * present.wal_bytes)
    assert advice.benefit == pytest.approx(0.6 * present.wal_bytes)
    fine = found(0.95)
    assert isinstance(fine, Fine)
    assert "keys in order would save 5.0 %" in fine.sentence


def test_every_step_is_a_comment_or_a_line_to_run() -> None:
    """One was a sentence: a syntax error in psql, and taken for something to run on a managed platform."""
    runs = ("SELECT ", "SHOW ", "CHECKPOINT;", "ALTER ", "DROP ", "VACUUM ", "walproof ")
    for case in cases(PROVOKED).values():
        for rule in RULES.values():
            found = rule(case)
            for step in found.steps if isinstance(found, Advice) else ():
                assert step.startswith(("-- ", "# ", *runs)), step
                assert "..." not in step or step.startswith(("-- ", "# ")), step
