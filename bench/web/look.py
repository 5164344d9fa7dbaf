"""Every page in Chromium: screenshots in light, dark and phone width, and what axe-core finds.

    PYTHONPATH=. python bench/web/look.py --to /tmp/screens
    PYTHONPATH=. python bench/web/look.py --to /tmp/screens --axe

Runs, watched servers, a tuning and a history are those of the tests. axe-core is fetched by ``npm pack`` into
a temporary folder. Exits with 1 where it finds something serious or critical.
"""

from __future__ import annotations

import argparse
import base64
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode, urlsplit

from bench.tune.table import tuned
from tests.analysis.tuning.synthetic import COMPRESSION, DELAY, SIZE, peaked, plan_of, synthetic
from tests.web.conftest import AT, fill, watched
from tests.web.devtools import Tab
from tests.web.kept import NAME, keep_history
from tests.web.tuned import NAME as TUNING
from tests.web.tuned import put_tuning
from walproof.analysis.tuning.search import TuneSearch
from walproof.cli.web_serve import Site, shelf_of
from walproof.web.live.board import Board

MODES = {"light": (1200, "light"), "dark": (1200, "dark"), "phone": (390, "light")}
HEIGHT_MOST = 6000
FACTORS = (COMPRESSION, SIZE, DELAY)


def main() -> int:
    """Status of the process."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--to", type=Path, required=True, help="folder of the screenshots")
    parser.add_argument("--browser", default=shutil.which("chromium"))
    parser.add_argument("--axe", action="store_true", help="run axe-core on each page, too")
    given = parser.parse_args()
    given.to.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as text, served(Path(text)) as (url, paths):
        script = axe_core(Path(text)) if given.axe else None
        profile = Path(text) / "chromium"
        profile.mkdir()
        with Tab(given.browser, profile) as tab:
            tab.open(url)
            return look(tab, urlsplit(url).netloc, paths, given.to, script)


@contextmanager
def served(folder: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """(link, address of each page by name) of a page with something of everything."""
    ids = fill(folder / "walproof.sqlite")
    table, plan = synthetic(FACTORS, truth), plan_of(FACTORS, trials=40, seed=3)
    steps = list(tuned(table, plan, TuneSearch(table.judge)))
    put_tuning(folder, steps[-2], pending=steps[-1].steps[-1])
    history = folder / "watch.sqlite"
    keep_history(history)
    board = Board(2.0)
    for number in range(60):
        board.tell(watched(), AT + 2 * number)
    shelf = shelf_of(folder, None, must_exist=True)
    with Site("127.0.0.1:0", [], shelf, board, recordings=folder, tunings=folder / "tunings",
              history=history) as site:  # fmt: skip
        yield site.url, {
            "first": "/", "runs": "/runs", "run": f"/runs/{ids[0]}", "progress": f"/runs/{ids[-1]}/progress",
            "compare": f"/compare?run={ids[0]}&run={ids[1]}", "trend": "/trend?study=durability",
            "tunings": "/tunings", "tuning": f"/tunings/{TUNING}", "recordings": "/recordings",
            "live": "/live", "server": "/live/server?" + urlencode({"name": "db1:5432", "minutes": 10}),
            "history": "/history", "past": "/history/server?" + urlencode({"name": NAME, "seconds": 604800}),
            "none": "/none",
        }  # fmt: skip
    shelf.close()


def truth(values: Mapping[str, str]) -> float:
    """Two settings that need each other, of a tuning whose target stays."""
    return peaked({"checkpoint_completion_target": "0.9", **values})


def axe_core(folder: Path) -> str:
    """Its script."""
    packed = subprocess.run(
        ["npm", "pack", "--silent", "axe-core"], cwd=folder, check=True, capture_output=True, text=True
    )
    with tarfile.open(folder / packed.stdout.split()[-1]) as archive:
        member = archive.extractfile("package/axe.min.js")
        assert member is not None
        return member.read().decode()


def look(tab: Tab, host: str, paths: dict[str, str], to: Path, script: str | None) -> int:
    """Status: 1 where axe-core found something serious."""
    serious = 0
    for name, path in paths.items():
        for mode, (width, scheme) in MODES.items():
            tab.prefer(scheme)
            tab.open(f"http://{host}{path}", width)
            (to / f"{name}-{mode}.png").write_bytes(base64.b64decode(tab.screenshot(width, HEIGHT_MOST)))
            if script is not None:
                found = violations(tab, script)
                serious += sum(one["impact"] in ("serious", "critical") for one in found)
                for one in found:
                    sys.stdout.write(f"{name} ({mode}): {one['impact']}: {one['help']}: {one['nodes']}\n")
    sys.stdout.write(f"{len(paths)} pages in {len(MODES)} modes, in {to}\n")
    if script is not None:
        sys.stdout.write(f"axe-core: {serious} serious or critical\n")
    return 1 if serious else 0


def violations(tab: Tab, script: str) -> list[dict[str, str]]:
    """What axe-core says of the present page."""
    tab.ask(f"{script}; 1")
    text = tab.ask(
        "axe.run().then(r => JSON.stringify(r.violations.map(v => ({impact: v.impact, help: v.help, "
        "nodes: v.nodes.slice(0, 3).map(n => n.html.slice(0, 160)).join(' | ')}))))"
    )
    found: list[dict[str, str]] = json.loads(text)
    return found


if __name__ == "__main__":
    sys.exit(main())
