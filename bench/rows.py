"""Rows of a campaign: JSON lines, plain while the campaign goes on, packed with xz once it is over.

Campaigns that are over lie in bench/*/runs/DATE-MACHINE/; those that go on lie beside their program.
"""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import Any


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Every row of the file. A missing file raises FileNotFoundError."""
    if path.suffix == ".xz":
        text = lzma.decompress(path.read_bytes()).decode()
    else:
        text = path.read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]
