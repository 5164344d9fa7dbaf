"""pg_waldump of 13 as the oracle for what 14 wrote, since no distribution at hand has one of 14.

The formats are the same but for two things: the magic number on each page, which is changed in a copy, and
the top-level transaction that 14 adds to records under wal_level=logical, so that only WAL of lower levels
can be read this way. Operations have other names in part; their resource managers have not.
"""

from __future__ import annotations

from pathlib import Path

from tests.wal.server import Server
from tests.wal.waldump import Oracle

WRITTEN_BY, READ_BY = 14, 13
_PAGE = 8192
_OLD, _NEW = (0xD10D).to_bytes(2, "little"), (0xD106).to_bytes(2, "little")


def borrow(command: list[str], server: Server) -> Oracle:
    """The oracle for the WAL that the server has flushed by now."""
    folder = server.folder / "relabelled"
    folder.mkdir(exist_ok=True)
    for segment in server.segments():
        _relabel(segment, folder / segment.name)
    return Oracle(command, folder, knows_names=False)


def _relabel(source: Path, target: Path) -> None:
    data = bytearray(source.read_bytes())
    for page in range(0, len(data), _PAGE):
        if data[page : page + 2] == _OLD:
            data[page : page + 2] = _NEW
    target.write_bytes(data)
