"""A slot is idle that nobody used in any look: one look may meet a restart, or the time between two polls."""

from __future__ import annotations

from typing import Any, cast

import pytest

from walproof.facts.server import ServerSlot
from walproof.observe.asking import Asking
from walproof.observe.slot_use import SlotUse


class _Answers:
    """What a server answered, look by look."""

    def __init__(self, looks: list[tuple[bool, str]]) -> None:
        self._looks = looks

    def rows(self, _about: str, _query: str) -> list[tuple[Any, ...]]:
        is_active, position = self._looks.pop(0)
        return [("sb", is_active, position)]


@pytest.mark.parametrize(
    ("looks", "was_used"),
    [
        ([(False, "0/1 0/1")], None),
        ([(False, "0/1 0/1"), (False, "0/1 0/1")], False),
        ([(True, "0/1 "), (False, "0/1 ")], True),
        ([(False, "0/1 0/1"), (False, "0/1 0/9"), (False, "0/1 0/9")], True),
    ],
)
def test_a_slot_was_used_if_it_was_active_or_moved(
    looks: list[tuple[bool, str]], was_used: bool | None
) -> None:
    use, ask = SlotUse(), cast(Asking, _Answers(list(looks)))
    for _ in looks:
        use.look(ask)
    slot, other = (ServerSlot(name, "physical", False, False, 1, "reserved") for name in ("sb", "new"))
    assert [one.was_used for one in use.told((slot, other))] == [was_used, None]
