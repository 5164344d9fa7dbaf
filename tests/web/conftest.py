"""The page, served on loopback by the server that users have, over a store and watched servers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.advise.server.windows import healthy
from tests.report.conftest import browser as browser
from tests.report.facts import HOSTILE, Facts, durability, factorial_facts, make_facts, make_plan, make_trials
from tests.watching import Server, clock, gone, slot, view
from tests.web.kept import keep_history
from tests.web.reading import Reader
from walproof.cli.web_serve import Site, shelf_of
from walproof.facts import Variant
from walproof.facts.codec import to_json
from walproof.facts.store import Store
from walproof.report.watch.view import ServerView
from walproof.settings.durability import DurabilityClass
from walproof.units import Lsn
from walproof.wal.recording import Position, Recording, write_recording
from walproof.web.live.board import Board

STORABLE = HOSTILE.replace("\ud800", "")
"""A lone surrogate is refused by the store."""
AT = 1_790_000_100.0
RECORDING = Recording(
    system_identifier=1, version_num=180004, timeline=1, segment_bytes=16 << 20,
    settings={"server_version": "18.4"}, began=Position(AT, Lsn(1 << 24)),
    ended=Position(AT + 600, Lsn(3 << 24)), positions=(), ended_because="time",
)  # fmt: skip


def fill(path: Path) -> list[str]:
    """A store with runs of several kinds and states; their ids, oldest first."""
    store = Store(path)
    plan = make_plan(5)
    again = Facts(durability().run, *make_trials(plan, 5, seed=8))
    hostile = Variant(STORABLE, {"a": STORABLE}, durability=DurabilityClass.LAST_COMMITS, note=STORABLE)
    nasty = make_facts(2, variants=(plan.variants[0], hostile), title=STORABLE, workloads=plan.workloads[:1])
    ids = []
    for facts, is_finished in (
        (durability(), True), (again, True), (factorial_facts(), True), (nasty, True),
        (make_facts(2, planned=5), False),
    ):  # fmt: skip
        run = store.add_run(facts.run.plan, facts.run.command, facts.run.environment, "0.1.0")
        for trial in facts.trials:
            store.add_trial(run.id, trial)
        if is_finished:
            store.finish_run(run.id)
        ids.append(run.id)
    store.close()
    return ids


def watched() -> list[ServerView]:
    """A healthy server and one in trouble; their names need escaping."""
    calm = view(Server(), crash=clock(20.0))
    troubled = view(Server(slots=[slot("<b>&")], archived_share=0.0), room_bytes=1 << 31, crash=clock(90.0))
    return [named(calm, "db1:5432"), named(troubled, 'db2 "<i>" #2')]


def named(found: ServerView, name: str) -> ServerView:
    """The same under another name."""
    from dataclasses import replace

    return replace(found, seen=replace(found.seen, name=name))


def unanswering(found: ServerView) -> ServerView:
    """The same when it is gone."""
    from dataclasses import replace

    return replace(found, seen=replace(found.seen, no_answer=gone()), clock=None)


@pytest.fixture(autouse=True, scope="session")
def _complete_trends() -> Iterator[None]:
    """Pages wait for their trend, however slow the machine is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("walproof.web.trend.PATIENCE_S", 300.0)
        yield


@pytest.fixture(scope="session")
def stored(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    out = tmp_path_factory.mktemp("web-store")
    recorded = out / "recordings" / "<b>shop"
    recorded.mkdir(parents=True)
    write_recording(recorded, RECORDING)
    alone = out / "recordings" / "standby"
    alone.mkdir()
    (alone / "server.json").write_text(to_json(healthy()))
    (out / "other").mkdir()
    (out / "other" / "server.json").write_text('{"name": "of another program"}')
    (out / "damaged").mkdir()
    (out / "damaged" / "recording.json").write_text("{")
    keep_history(out / "watch.sqlite")
    return out, fill(out / "walproof.sqlite")


@pytest.fixture(scope="module")
def board() -> Board:
    made = Board(2.0)
    for look in range(30):
        made.tell(watched(), AT + 2 * look)
    return made


@pytest.fixture(scope="module")
def site(stored: tuple[Path, list[str]], board: Board) -> Iterator[Reader]:
    shelf = shelf_of(stored[0], None, must_exist=True)
    with Site(
        "127.0.0.1:0", ["walproof.example"], shelf, board, recordings=stored[0],
        tunings=stored[0] / "tunings", history=stored[0] / "watch.sqlite",
    ) as served:  # fmt: skip
        yield Reader(served.url)
    shelf.close()
