"""What the owner of a server allows: options that several commands share."""

from __future__ import annotations

from walproof.errors import SettingError
from walproof.settings.durability import DurabilityClass

CLASSES = {
    "nothing": DurabilityClass.NONE,
    "commits": DurabilityClass.LAST_COMMITS,
    "table": DurabilityClass.TABLE,
    "cluster": DurabilityClass.CORRUPT,
}
"""Words of ``--may-lose``."""


def may_lose(text: str) -> DurabilityClass:
    """The class that ``--may-lose`` allows; "last commits" is "commits". Raises SettingError."""
    found = CLASSES.get(text.removeprefix("last "))
    if found is None:
        raise SettingError(f'--may-lose is "{text}"', hint=f"It is one of {', '.join(CLASSES)}.")
    return found
