"""Golden WAL as plain segments."""

from __future__ import annotations

import lzma
from pathlib import Path

GOLDEN = Path(__file__).parent / "wal"
VERSIONS = sorted(int(folder.name) for folder in GOLDEN.iterdir())


def unpack(version: int, folder: Path) -> dict[str, str]:
    """Put the segments of that version into ``folder``; its facts."""
    for packed in (GOLDEN / str(version)).glob("*.xz"):
        (folder / packed.stem).write_bytes(lzma.decompress(packed.read_bytes()))
    facts = (GOLDEN / str(version) / "facts.txt").read_text()
    return dict(line.split(" ", 1) for line in facts.splitlines())
