"""Whether replication slots are used, over several looks: a standby may restart at the moment of one look,
and who polls a slot through SQL has it for moments only."""

from __future__ import annotations

from dataclasses import replace

from walproof.facts.server import ServerSlot
from walproof.observe.asking import Asking

_POSITIONS = """
    SELECT slot_name, active, format('%s %s', restart_lsn, confirmed_flush_lsn) FROM pg_replication_slots"""


class SlotUse:
    """Who was in use at a look, and who had moved since the look before."""

    def __init__(self) -> None:
        self._positions: dict[str, str] = {}
        self._looks: dict[str, int] = {}
        self._used: set[str] = set()

    def look(self, ask: Asking) -> None:
        """Look at every slot. Raises ProbeError when the server is gone."""
        for name, is_active, position in ask.rows("slots", _POSITIONS):
            has_moved = self._positions.get(name, position) != position
            if is_active or has_moved:
                self._used.add(str(name))
            self._positions[str(name)] = str(position)
            self._looks[str(name)] = self._looks.get(str(name), 0) + 1

    def told(self, slots: tuple[ServerSlot, ...]) -> tuple[ServerSlot, ...]:
        """The slots with what was seen of their use; of one that was seen once that is not known."""
        return tuple(
            replace(slot, was_used=slot.name in self._used if self._looks.get(slot.name, 0) > 1 else None)
            for slot in slots
        )
