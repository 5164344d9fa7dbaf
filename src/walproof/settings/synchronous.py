"""synchronous_standby_names, read as the server reads it: how many standbys a commit waits for, and which.

src/backend/replication/syncrep_scanner.l, syncrep_gram.y and SyncRepGetStandbyPriority of syncrep.c.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

WAITING = ("on", "remote_write", "remote_apply")
"""Values of synchronous_commit that wait for standbys."""
_TOKEN = re.compile(r'"((?:[^"]|"")*)"|([^\s,()"]+)|([,()])')
_COUNTED = re.compile(r"\s*(?:(?:any|first)\s+)?(\d+)\s*\(", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class SynchronousStandbys:
    """The setting, where it names somebody."""

    count: int
    """How many standbys have to confirm a commit."""
    names: tuple[str, ...]

    def match(self, application_name: str) -> bool:
        """Whether the list names a walsender of that application_name; ``*`` names all of them."""
        folded = application_name.lower()
        return any(name == "*" or name.lower() == folded for name in self.names)


def parse_standbys(setting: str) -> SynchronousStandbys | None:
    """``FIRST 2 (a, b)``, ``ANY 1 (a, "B")``, ``2 (a, b)``, ``a, b`` or ``*``; None for an empty setting."""
    counted = _COUNTED.match(setting)
    listed = setting[counted.end() :] if counted else setting
    names = tuple(
        plain or quoted.replace('""', '"') for quoted, plain, mark in _TOKEN.findall(listed) if not mark
    )
    return SynchronousStandbys(int(counted[1]) if counted else 1, names) if names else None
