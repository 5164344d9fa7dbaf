"""Small loads of tunings, as files."""

from __future__ import annotations

from pathlib import Path

SHOP = """
pg = ["embedded"]

[[workload]]
name = "shop"
builtin = "simple-update"
scale = 1
clients = 6
threads = 1
duration = "1s"
warmup = "0s"
"""


def shop(folder: Path, text: str = SHOP) -> Path:
    """``shop.toml`` in that folder."""
    path = folder / "shop.toml"
    path.write_text(text)
    return path
