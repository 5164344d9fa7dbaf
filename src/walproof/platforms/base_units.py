"""Values as clouds want them: whole numbers in the server's base unit, without a suffix."""

from __future__ import annotations

from walproof.settings.catalogue import Catalogue
from walproof.settings.value import Context, parse


def in_base_unit(name: str, value: str, version_num: int, *, true: str = "on", false: str = "off") -> str:
    """``8GB`` of max_wal_size is ``8192`` (MB), ``15min`` of checkpoint_timeout ``900`` (s).

    Of a boolean ``true`` or ``false``. Raises SettingError.
    """
    parsed = parse(Catalogue.for_version(version_num).get(name), value)
    if isinstance(parsed, bool):
        return true if parsed else false
    if isinstance(parsed, float):
        return f"{parsed:g}" if not parsed.is_integer() else str(int(parsed))
    return str(parsed)


def is_restart(name: str, version_num: int) -> bool:
    """Whether a change waits for a restart. Raises SettingError."""
    return Catalogue.for_version(version_num).get(name).context is Context.RESTART
