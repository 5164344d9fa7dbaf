"""Every page in Chromium: screenshots in light, dark, on a phone and in print, and what axe-core finds.

    PYTHONPATH=. python bench/web/look.py --to /tmp/screens
    PYTHONPATH=. python bench/web/look.py --to /tmp/screens --axe --server

Runs, watched servers, a tuning and a history are those of the tests; ``--server`` watches a real one, too,
with a load, until its what-if curve is there (about three minutes). axe-core is fetched by ``npm pack`` into
a temporary folder. A page that is wider than its window is told of, too. Exits with 1 where something is
serious or critical, or too wide.
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
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlencode, urlsplit

from bench.tune.table import tuned
from bench.web.scene import fetched, wait_for_curve, watched_server
from tests.analysis.tuning.synthetic import COMPRESSION, DELAY, SIZE, peaked, plan_of, synthetic
from tests.web.conftest import AT, fill, watched
from tests.web.devtools import Tab
from tests.web.kept import NAME, keep_history
from tests.web.tuned import NAME as TUNING
from tests.web.tuned import put_tuning
from walproof.analysis.tuning.search import TuneSearch
from walproof.cli.web_serve import Site, shelf_of
from walproof.facts.run import BegunTrial
from walproof.facts.store import Store
from walproof.web.live.board import Board

MODES = {
    "light": (1200, "light", "screen"), "dark": (1200, "dark", "screen"), "phone": (360, "light", "screen"),
    "print": (760, "light", "print"),
}  # fmt: skip
"""Width, scheme and medium."""
HEIGHT_MOST = 6000
FACTORS = (COMPRESSION, SIZE, DELAY)


def main() -> int:
    """Status of the process."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--to", type=Path, required=True, help="folder of the screenshots")
    parser.add_argument("--browser", default=shutil.which("chromium"))
    parser.add_argument("--axe", action="store_true", help="run axe-core on each page, too")
    parser.add_argument("--server", action="store_true", help="watch a real server, too")
    parser.add_argument("--only", default="", help="pages, with commas between them")
    given = parser.parse_args()
    given.to.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        script = axe_core(folder) if given.axe else None
        profile = folder / "chromium"
        profile.mkdir()
        tab = stack.enter_context(Tab(given.browser, profile))
        link, pages = stack.enter_context(served(folder))
        tab.open(link)
        if given.server:
            kept = folder / "watched"
            kept.mkdir()
            link = stack.enter_context(watched_server(kept))
            tab.open(link)
            pages |= watched_pages(link, folder)
        wanted = [name for name in given.only.split(",") if name]
        chosen = {name: url for name, url in pages.items() if not wanted or name in wanted}
        return look(tab, chosen, given.to, script)


@contextmanager
def served(folder: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield (link, address of each page by name) of a site that has every kind of page."""
    ids = fill(folder / "walproof.sqlite")
    table, plan = synthetic(FACTORS, truth), plan_of(FACTORS, trials=40, seed=3)
    steps = list(tuned(table, plan, TuneSearch(table.judge)))
    put_tuning(folder, steps[-2], pending=steps[-1].steps[-1], load="shop")
    history = folder / "watch.sqlite"
    keep_history(history)
    board = Board(2.0)
    for number in range(60):
        board.tell(watched(), AT + 2 * number)
    shelf = shelf_of(folder, None, must_exist=True)
    with ExitStack() as stack:
        store = Store(folder / "walproof.sqlite")
        stack.callback(store.close)
        stack.enter_context(store.claim(ids[-1]))
        number = store.extents()[ids[-1]].trials + 1
        store.begin_trial(ids[-1], BegunTrial(number, 3, "18", "tpcb", "fsync=off", time.time() - 65))
        site = stack.enter_context(
            Site("127.0.0.1:0", [], shelf, board, recordings=folder, tunings=folder / "tunings",
                 history=history)
        )  # fmt: skip
        paths = {
            "first": "/", "runs": "/runs", "run": f"/runs/{ids[0]}", "progress": f"/runs/{ids[-1]}/progress",
            "compare": f"/compare?run={ids[0]}&run={ids[1]}", "trend": "/trend?study=durability",
            "tunings": "/tunings", "tuning": f"/tunings/{TUNING}", "recordings": "/recordings",
            "live": "/live", "server": "/live/server?" + urlencode({"name": "db1:5432", "minutes": 10}),
            "history": "/history", "past": "/history/server?" + urlencode({"name": NAME, "seconds": 604800}),
            "none": "/none",
        }  # fmt: skip
        yield site.url, {name: f"http://{urlsplit(site.url).netloc}{path}" for name, path in paths.items()}
    shelf.close()


def watched_pages(link: str, folder: Path) -> dict[str, str]:
    """Yield the address of each page of a real server; a moment of it is a file."""
    name = wait_for_curve(link)["server"]
    host, asked_for = urlsplit(link).netloc, urlencode({"name": name, "minutes": 10})
    moment = folder / "moment.html"
    moment.write_bytes(fetched(link, f"/live/file?{asked_for}"))
    return {
        "watched": f"http://{host}/live", "watched-server": f"http://{host}/live/server?{asked_for}",
        "watched-history": f"http://{host}/history", "watched-moment": moment.as_uri(),
        "watched-past": f"http://{host}/history/server?" + urlencode({"name": name, "seconds": 3600}),
    }  # fmt: skip


def truth(values: Mapping[str, str]) -> float:
    """A tuning with two settings that need each other."""
    return peaked({"checkpoint_completion_target": "0.9", **values})


def axe_core(folder: Path) -> str:
    """Return the script of axe-core."""
    packed = subprocess.run(
        ["npm", "pack", "--silent", "axe-core"], cwd=folder, check=True, capture_output=True, text=True
    )
    with tarfile.open(folder / packed.stdout.split()[-1]) as archive:
        member = archive.extractfile("package/axe.min.js")
        assert member is not None
        return member.read().decode()


def look(tab: Tab, pages: Mapping[str, str], to: Path, script: str | None) -> int:
    """Visit every page; return 1 if axe-core found something serious or a page is wider than its window."""
    serious = wide = 0
    for name, url in pages.items():
        for mode, (width, scheme, medium) in MODES.items():
            tab.prefer(scheme, medium)
            tab.open(url, width)
            (to / f"{name}-{mode}.png").write_bytes(base64.b64decode(tab.screenshot(width, HEIGHT_MOST)))
            found = tab.ask("document.documentElement.scrollWidth")
            if found > width:
                wide += 1
                sys.stdout.write(f"{name} ({mode}): {found} pixels wide\n")
            if script is not None:
                said = violations(tab, script)
                serious += sum(rule["impact"] in ("serious", "critical") for rule in said)
                for rule in said:
                    text = f"{rule['impact']}: {rule['help']}: {rule['nodes']}"
                    sys.stdout.write(f"{name} ({mode}): {text}\n")
            sys.stdout.flush()
    sys.stdout.write(f"{len(pages)} pages in {len(MODES)} modes, in {to}; {wide} too wide\n")
    if script is not None:
        sys.stdout.write(f"axe-core: {serious} serious or critical\n")
    return 1 if serious or wide else 0


def violations(tab: Tab, script: str) -> list[dict[str, str]]:
    """What axe-core finds on the present page."""
    tab.ask(f"{script}; 1")
    text = tab.ask(
        "axe.run().then(r => JSON.stringify(r.violations.map(v => ({impact: v.impact, help: v.help, "
        "nodes: v.nodes.slice(0, 3).map(n => n.html.slice(0, 160)).join(' | ')}))))"
    )
    found: list[dict[str, str]] = json.loads(text)
    return found


if __name__ == "__main__":
    sys.exit(main())
