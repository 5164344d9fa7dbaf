"""Pages of a data directory whose checksum is wrong, read while no server runs.

As pg_checksums --check (manual), but with the place of each page, and for installs that have no pg_checksums.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from walproof import _native

_RELATION = re.compile(r"(?P<node>\d+)(?:_(?P<fork>fsm|vm|init))?(?:\.(?P<segment>\d+))?")
PAGE_BYTES = 8192
SEGMENT_PAGES = 131_072
"""Pages in a file of 1 GiB, which is RELSEG_SIZE as PostgreSQL is built by default."""

Fork = Literal["main", "fsm", "vm", "init"]


@dataclass(frozen=True, slots=True)
class DamagedPage:
    """A page that is not what was last written: it is torn or otherwise damaged."""

    path: str
    """Relative to the data directory."""
    fork: Fork
    block: int


def damaged_pages(data: Path) -> tuple[DamagedPage, ...]:
    """Return every damaged page in the databases, the shared catalogs and the tablespaces of ``data``.

    The result is of use only for a cluster with data checksums. Raises DiskError.
    """
    found = []
    for path in _relations(data):
        match = _RELATION.fullmatch(path.name)
        assert match is not None
        first = int(match["segment"] or 0) * SEGMENT_PAGES
        fork: Fork = match["fork"] or "main"  # type: ignore[assignment]
        found += [
            DamagedPage(str(path.relative_to(data)), fork, block)
            for block in _native.damaged_pages(path, first)
        ]
    return tuple(found)


def _relations(data: Path) -> Iterator[Path]:
    databases = [data / "global", *(data / "base").iterdir()]
    # pg_tblspc/OID/PG_VERSION_CATALOG/DATABASE
    databases += (data / "pg_tblspc").glob("*/PG_*/*")
    for folder in databases:
        if folder.is_dir():
            yield from sorted(p for p in folder.iterdir() if _RELATION.fullmatch(p.name) and p.is_file())
