"""What the page takes: a store of 10,000 trials, 20 watched servers, and a browser that looks at them a day.

    PYTHONPATH=. python bench/web/measure.py
    PYTHONPATH=. python bench/web/measure.py --trials 500 --servers 2 --seconds 10 --hours 0.1

The page is served by a process of its own, which is told of every server every 2 s, as ``watch`` does. First
paint is Chromium's first-contentful-paint of a page that is opened for the second time in this browser, so
that the style sheet and the script may be in its cache or not as the page's headers say. Memory is the peak
resident set, CPU the process's own time, both of the serving process alone, while the page of all servers is
open.

Then the page of one server takes as many updates as in ``--hours`` with a look every 2 s, as fast as it can;
what the tab holds after each twenty-fourth of them is told: bytes of JavaScript's heap, and nodes.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median
from urllib.parse import urlencode, urlsplit

import psutil

from tests.report.facts import durability, make_plan, make_trials
from tests.watching import Server, clock, view
from tests.web.conftest import named
from tests.web.devtools import Tab
from walproof.cli.web_serve import Site, shelf_of
from walproof.facts.store import Store
from walproof.web.live import site as live_site
from walproof.web.live.board import Board

EVERY_S = 2.0
TIMES = 5
PARTS = 24
PACE_S = 0.02
"""Between two looks where they are simulated."""
GROWTH = 0.1
"""Of what the tab holds, from the first quarter of the day to its last, in the middle: more is growth."""


def main() -> int:
    """Status of the process."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--trials", type=int, default=10_000)
    parser.add_argument("--servers", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=60.0, help="that the live page is looked at")
    parser.add_argument("--hours", type=float, default=24.0, help="simulated, of the page of one server")
    parser.add_argument("--browser", default=shutil.which("chromium"))
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--fast", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve is not None:
        serve(given.serve, given.servers, is_fast=given.fast)
        return 0
    is_well = True
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        count = fill(folder / "walproof.sqlite", given.trials)
        sys.stdout.write(
            f"{time.strftime('%Y-%m-%d')}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}: "
        )
        sys.stdout.write(f"{count} trials, {given.servers} servers\n")
        with serving(text, given.servers) as (url, pid):
            measure(given.browser, folder, url, pid, given.seconds)
        if given.hours > 0:
            with serving(text, 1, "--fast") as (url, _):
                is_well = measure_day(given.browser, folder, url, round(given.hours * 3600 / EVERY_S))
    return 0 if is_well else 1


@contextmanager
def serving(folder: str, servers: int, *options: str) -> Iterator[tuple[str, int]]:
    """Link of the page and process that serves it."""
    with subprocess.Popen(
        [sys.executable, __file__, "--serve", folder, "--servers", str(servers), *options],
        stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip(), process.pid
        finally:
            process.kill()


def fill(path: Path, trials: int) -> int:
    """Fill a store with this many trials, in runs of the durability study; return how many there are."""
    store, count = Store(path), 0
    plan = make_plan(10)
    environment = durability().run.environment
    while count < trials:
        found, _ = make_trials(plan, 10, seed=count)
        run = store.add_run(replace(plan, seed=count), ("walproof",), environment, "0.1.0")
        for trial in found:
            store.add_trial(run.id, trial)
        store.finish_run(run.id)
        count += len(found)
    store.close()
    return count


def serve(folder: Path, servers: int, *, is_fast: bool) -> None:
    """The page, until this process is ended. ``is_fast``: looks are 2 s apart by their own times alone."""
    if is_fast:
        live_site._LOOK_S = PACE_S / 2
    began = time.time()
    shelf, board = shelf_of(folder, None, must_exist=True), Board(EVERY_S)
    with Site("127.0.0.1:0", [], shelf, board) as site:
        sys.stdout.write(f"{site.url}\n")
        sys.stdout.flush()
        number = 0
        while True:
            number += 1
            seen = view(Server(), crash=clock(20.0 + number % 30))
            views = [named(seen, f"db{place}:5432") for place in range(servers)]
            board.tell(views, began + EVERY_S * number if is_fast else time.time())
            time.sleep(PACE_S if is_fast else EVERY_S)


def measure(browser: str, folder: Path, url: str, pid: int, seconds: float) -> None:
    """Print first paints, memory and CPU."""
    host = urlsplit(url).netloc
    profile = folder / "chromium"
    profile.mkdir()
    process = psutil.Process(pid)
    with Tab(browser, profile) as tab:
        tab.open(url)
        server_page = "/live/server?" + urlencode({"name": "db1:5432", "minutes": 60})
        for path in ("/", "/runs", "/live", server_page, "/trend?study=durability"):
            paints = [first_paint(tab, f"http://{host}{path}") for _ in range(TIMES)]
            sys.stdout.write(
                f"first paint {path.partition('?')[0]}: {median(paints):.0f} ms "
                f"({min(paints):.0f} to {max(paints):.0f}, {TIMES} times)\n"
            )
            sys.stdout.flush()
        tab.open(f"http://{host}/live")
        tab.wait_for("document.getElementById('connection').textContent === 'live'")
        while json.loads(tab.ask("fetch('/api/runs').then(r => r.text())"))[-1]["answers"] is None:
            time.sleep(1.0)
        before, began = process.cpu_times(), time.monotonic()
        time.sleep(seconds)
        after, length = process.cpu_times(), time.monotonic() - began
        used = after.user + after.system - before.user - before.system
        sys.stdout.write(
            f"{length:.0f} s of the live page: {100 * used / length:.1f} % of a core, "
            f"{peak_bytes(pid) / 1e6:.0f} MB at most\n"
        )


def measure_day(browser: str, folder: Path, url: str, updates: int) -> bool:
    """Print what the tab of one server holds while it takes so many updates; whether it does not grow."""
    profile = folder / "chromium-day"
    profile.mkdir()
    held: list[tuple[int, int]] = []
    began = time.monotonic()
    with Tab(browser, profile) as tab:
        tab.open(url)
        asked = urlencode({"name": "db0:5432", "minutes": 60})
        tab.open(f"http://{urlsplit(url).netloc}/live/server?{asked}")
        tab.ask(
            "window.taken = 0; new MutationObserver(() => { window.taken += 1; })"
            ".observe(document.getElementById('plot-clock'), {childList: true}); 1"
        )
        for part in range(1, PARTS + 1):
            wanted = max(1, updates * part // PARTS)
            while tab.ask("window.taken") < wanted:
                time.sleep(0.1)
            held.append(tab.held())
            sys.stdout.write(
                f"after {wanted} updates: {held[-1][0] / 1e6:.2f} MB, {held[-1][1]} nodes in the tab\n"
            )
            sys.stdout.flush()
        complaints = list(tab.complaints)
    for complaint in complaints[:5]:
        sys.stdout.write(f"the console said: {complaint[:200]}\n")
    # The first part has fewer points in its plots.
    early, late = held[1 : 1 + PARTS // 4], held[-(PARTS // 4) :]
    grown = max(
        median(each[place] for each in late) / median(each[place] for each in early) - 1 for place in (0, 1)
    )
    sys.stdout.write(
        f"{updates} updates in {time.monotonic() - began:.0f} s: the tab holds {100 * grown:+.1f} %\n"
    )
    return grown <= GROWTH and not complaints


def first_paint(tab: Tab, url: str) -> float:
    """Milliseconds from the beginning of the navigation."""
    tab.open(url)
    entry = "performance.getEntriesByName('first-contentful-paint')[0]"
    tab.wait_for(f"{entry} !== undefined")
    found: float = tab.ask(f"{entry}.startTime")
    return found


def peak_bytes(pid: int) -> int:
    """The largest resident set that a process has had."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise ValueError("no VmHWM")


if __name__ == "__main__":
    sys.exit(main())
