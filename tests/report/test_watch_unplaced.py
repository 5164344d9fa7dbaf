"""A server that does not tell its position in the WAL is shown with all the rest."""

from __future__ import annotations

import json
from dataclasses import replace

from prometheus_client import generate_latest

from tests.schemas import assert_valid
from tests.watching import BEGAN, Server, assessor, slot
from walproof.report.watch.json import watch_line
from walproof.report.watch.plain import plain_text
from walproof.report.watch.prometheus import registry
from walproof.report.watch.view import ServerView


def test_a_server_without_a_position_is_shown() -> None:
    found = assessor(64 << 30)
    found.see([replace(Server(slots=[slot()]).look(second), lsn=None) for second in range(30)])
    view = ServerView(found.assess(29.0, BEGAN + 29), ())
    assert view.seen.no_answer is None
    assert view.seen.wal_bytes_per_s is None
    assert (view.seen.standbys, view.seen.checkpoint) == ((), None)
    told = json.loads(watch_line(view))
    assert_valid("watch", told)
    assert "pg_wal" in plain_text([view], is_first=True)
    text = generate_latest(registry(lambda: [view])).decode()
    assert 'walproof_up{server="db1"} 1.0' in text
    assert "walproof_wal_position_bytes_total{" not in text
