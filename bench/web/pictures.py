"""The pictures of README and docs, in docs/images: pages in Chromium, each at most 150 kB.

    PYTHONPATH=. python bench/web/pictures.py [--minutes 8]

``live.png`` and ``what-if.png`` are of a real server with a load, watched for so long; ``running.png``,
``compare.png`` and ``tuning.png`` of the stored facts that tests use.
"""

from __future__ import annotations

import argparse
import base64
import shutil
import struct
import sys
import tempfile
import time
import zlib
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from bench.web.look import served, watched_pages
from bench.web.scene import watched_server
from tests.web.devtools import Tab

TO = Path("docs/images")
WIDTH = 1000
BYTES_MOST = 150_000
COLOURS = 256
_STORED = {
    "running": ("progress", "light", "document.querySelector('#asking').getBoundingClientRect().top"),
    "compare": ("compare", "light", "document.querySelector('figcaption').getBoundingClientRect().bottom"),
    "tuning": ("tuning", "dark", "document.querySelectorAll('table')[1].getBoundingClientRect().top"),
}
"""Picture -> page, scheme, and where it is cut."""


def main() -> int:
    """Status of the process."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--minutes", type=float, default=8.0, help="that the server is watched")
    parser.add_argument("--browser", default=shutil.which("chromium"))
    given = parser.parse_args()
    TO.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        profile, kept = folder / "chromium", folder / "watched"
        profile.mkdir()
        kept.mkdir()
        tab = stack.enter_context(Tab(given.browser, profile))
        link, pages = stack.enter_context(served(folder))
        tab.open(link)
        for name, (page, scheme, end) in _STORED.items():
            show(tab, pages[page], scheme)
            take(tab, name, 0, tab.ask(end))
        link = stack.enter_context(watched_server(kept))
        tab.open(link)
        time.sleep(60 * given.minutes)
        show(tab, watched_pages(link, folder)["watched-server"], "light")
        # What changes between measuring and taking would be cut elsewhere.
        tab.ask("document.getElementById('pause').click()")
        top = "document.getElementById('{}').getBoundingClientRect().top"
        sizes, plots = (tab.ask(top.format(name)) for name in ("sizes-title", "plots-title"))
        end = tab.ask("document.getElementById('plot-pg_wal').getBoundingClientRect().bottom")
        take(tab, "what-if", sizes, plots - 20)
        take(tab, "live", plots, end)
    return 0


def show(tab: Tab, url: str, scheme: str) -> None:
    """Open a page as a reader sees it."""
    tab.prefer(scheme)
    tab.open(url, WIDTH)


def take(tab: Tab, name: str, top: float, bottom: float) -> None:
    """Write the part of the page between both. Ends the program where the picture is too large."""
    picture = compact(base64.b64decode(tab.part(WIDTH, top, bottom)))
    if len(picture) > BYTES_MOST:
        raise SystemExit(f"{name}: {len(picture):,} bytes, expected {BYTES_MOST:,} at most")
    (TO / f"{name}.png").write_bytes(picture)
    sys.stdout.write(f"{TO / f'{name}.png'}: {len(picture):,} bytes\n")


def compact(picture: bytes) -> bytes:
    """The PNG with its 256 most frequent colours alone, others as the nearest of them."""
    pixels = decoded(picture)
    height, width, _ = pixels.shape
    colours, places, counts = np.unique(
        pixels.reshape(-1, 3), axis=0, return_inverse=True, return_counts=True
    )
    palette = colours[np.argsort(-counts)[:COLOURS]].astype(np.int32)
    apart = ((colours.astype(np.int32)[:, None, :] - palette[None, :, :]) ** 2).sum(axis=2)
    lines = apart.argmin(axis=1).astype(np.uint8)[places.reshape(-1)].reshape(height, width)
    filtered = np.concatenate([np.zeros((height, 1), np.uint8), lines], axis=1)
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    body = zlib.compress(filtered.tobytes(), 9)
    chunks = (
        (b"IHDR", header),
        (b"PLTE", palette.astype(np.uint8).tobytes()),
        (b"IDAT", body),
        (b"IEND", b""),
    )
    return picture[:8] + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )


def decoded(picture: bytes) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Pixels of a PNG of 8 bits a channel, as Chromium writes it: red, green, blue."""
    at, data, width, height, channels = 8, b"", 0, 0, 3
    while at < len(picture):
        (length,) = struct.unpack(">I", picture[at : at + 4])
        kind, body = picture[at + 4 : at + 8], picture[at + 8 : at + 8 + length]
        if kind == b"IHDR":
            width, height, depth, colour = struct.unpack(">IIBB", body[:10])
            assert (depth, colour) in ((8, 2), (8, 6))
            channels = 3 if colour == 2 else 4
        elif kind == b"IDAT":
            data += body
        at += 12 + length
    raw = np.frombuffer(zlib.decompress(data), np.uint8).reshape(height, 1 + width * channels)
    lines = np.zeros((height, width * channels), np.uint8)
    before = np.zeros(width * channels, np.uint8)
    for number in range(height):
        before = lines[number] = unfiltered(raw[number, 0], raw[number, 1:], before, channels)
    return lines.reshape(height, width, channels)[:, :, :3]


def unfiltered(
    way: int, line: np.ndarray[Any, Any], before: np.ndarray[Any, Any], channels: int
) -> np.ndarray[Any, Any]:
    """Undo the filter of a line (PNG specification, 9)."""
    if way == 0:
        return line
    if way == 2:
        added: np.ndarray[Any, Any] = line + before
        return added
    if way == 1:
        return np.cumsum(line.reshape(-1, channels), axis=0, dtype=np.uint8).reshape(-1)
    found = [0] * len(line)
    for place, value in enumerate(line.tolist()):
        left = found[place - channels] if place >= channels else 0
        above = int(before[place])
        corner = int(before[place - channels]) if place >= channels else 0
        if way == 3:
            guess = (left + above) // 2
        else:
            distances = [(abs(above - corner), 0, left), (abs(left - corner), 1, above),
                         (abs(left + above - 2 * corner), 2, corner)]  # fmt: skip
            guess = min(distances)[2]
        found[place] = (value + guess) & 255
    return np.array(found, np.uint8)


if __name__ == "__main__":
    sys.exit(main())
