"""Memory of a server with given settings, and how much of the machine's it may take."""

from __future__ import annotations

from collections.abc import Mapping

from walproof.facts.tuning import Promises
from walproof.settings.catalogue import Catalogue
from walproof.settings.value import parse
from walproof.wal.recovery import PAGE_BYTES

_SHARE = 0.75
"""Share of the machine's memory that a server may take where nothing was promised."""
_BACKEND_BYTES = 8 << 20
"""Memory of a session without parallel queries or large sorts."""
_SHARED_BUFFERS = "128MB"
"""The value that initdb writes on any present-day machine."""
_AUTO_WAL_BUFFERS_MOST = 16 << 20


def allowed_bytes(promises: Promises, machine_bytes: int) -> int:
    """The most memory that a server of the tuning may take."""
    return promises.memory_bytes or round(machine_bytes * _SHARE)


def memory_of(settings: Mapping[str, str], catalogue: Catalogue, clients: int) -> int:
    """Memory that a server takes: shared buffers, WAL buffers, sessions. Raises SettingError."""
    buffers = buffers_of(settings, catalogue) * PAGE_BYTES
    setting = catalogue.get("wal_buffers")
    wal_buffers = int(parse(setting, settings.get("wal_buffers", setting.boot))) * PAGE_BYTES
    if wal_buffers < 0:
        wal_buffers = min(buffers // 32, _AUTO_WAL_BUFFERS_MOST)
    return buffers + wal_buffers + clients * _BACKEND_BYTES


def buffers_of(settings: Mapping[str, str], catalogue: Catalogue) -> int:
    """Pages of shared_buffers. Raises SettingError."""
    return int(parse(catalogue.get("shared_buffers"), settings.get("shared_buffers", _SHARED_BUFFERS)))
