"""Advice on several servers: the answer for all, each server's own, and what could not be looked at."""

from __future__ import annotations

import json
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from tests.advise.server.windows import healthy, with_settings
from tests.schemas import assert_valid
from walproof.advise.server.case import ServerCase
from walproof.advise.server.rules import advise
from walproof.errors import ReportError
from walproof.facts.server import ServerWindow
from walproof.platforms.registry import platform
from walproof.report.advice.fleet import FleetView, Member
from walproof.report.advice.json import to_json
from walproof.report.advice.page import to_html, to_markdown
from walproof.report.advice.since import earlier_of_one, earlier_of_several
from walproof.report.advice.terminal import print_advice
from walproof.report.advice.view import advice_view
from walproof.report.blocks import Table


def _member(name: str, window: ServerWindow, *muted: str) -> Member:
    return Member(name, window, advice_view(advise(ServerCase(window), muted), platform("conf")))


def _fleet() -> FleetView:
    standby = replace(
        with_settings(healthy(), log_checkpoints="off", max_wal_size="1GB"), is_in_recovery=True, looks=()
    )
    return FleetView(
        (
            _member("a", with_settings(healthy(), fsync="off", log_checkpoints="off"), "minors"),
            _member("a2", standby, "minors"),
            # Of the latest minor each knows another one.
            _member("b", replace(healthy("16.1"), system_identifier="8")),
            _member("c", replace(healthy("15.1"), system_identifier="9")),
            _member("well", replace(healthy(), system_identifier="10"), "minors"),
            Member("gone", error="could not connect to the server", detail="Connection refused"),
        )
    )


def _table(view: FleetView, title: str) -> dict[str, list[str]]:
    tables = [block for block in view.overview.blocks if isinstance(block, Table)]
    (found,) = (table for table in tables if table.title == title)
    return {row[0].text: [cell.text for cell in row[1:]] for row in found.rows}


def test_the_answer_says_who_needs_something_and_what_is_dangerous() -> None:
    view = _fleet()
    assert view.summary == ("4 of 5 servers have something to change. Danger: a, b and c. No advice on gone.")
    servers = _table(view, "Servers")
    assert servers["a"][:4] == ["16.14", "1", "0", "1"]
    assert servers["a"][4] == "Turn fsync on"
    assert servers["a2"][0] == "16.14, standby"
    assert servers["well"][-1] == "nothing to change"
    assert servers["gone"][-1] == "no advice: could not connect to the server"


def test_the_same_advice_is_one_row_with_its_servers() -> None:
    advised = _table(_fleet(), "What is advised, and where")
    # What is dangerous comes first, and of that what most servers need.
    assert [words[0] for words in advised.values()] == ["danger", "danger", "evidence"]
    assert list(advised)[1] == "Turn fsync on"
    assert advised["Set log_checkpoints = on"] == ["evidence", "a and a2"]
    # Two servers, two answers of one rule.
    minors = next(name for name in advised if name.startswith("minors: "))
    assert advised[minors][1] == "b and c"


def test_settings_that_differ_within_a_cluster_are_named() -> None:
    assert _table(_fleet(), "Settings that differ within a cluster") == {
        "fsync": ["a off, a2 on"], "max_wal_size": ["a 8GB, a2 1GB"],
    }  # fmt: skip


def test_of_servers_that_are_all_away_nothing_is_counted() -> None:
    view = FleetView((Member("a", error="no route"), Member("b", error="no route")))
    assert view.summary == "No advice on a and b."
    assert view.dateline == "2 servers · advice on 0"


def test_many_servers_are_counted() -> None:
    members = tuple(
        _member(f"db{number}", replace(with_settings(healthy(), fsync="off"), system_identifier=f"{number}"))
        for number in range(20)
    )
    view = FleetView(members)
    assert view.summary.endswith("Danger: db0, db1, db2, db3, db4, db5, db6 and 13 others.")


def test_every_form_has_all_of_it() -> None:
    view = _fleet()
    page = to_html(view)
    # Names lead to the server's own part, and no two parts have one name.
    ids = [section.id for section in view.sections]
    assert len(ids) == len(set(ids))
    assert '<a href="#server-1">a</a>' in page
    assert 'id="server-1"' in page
    assert "## a2: 1\\. Set log" in to_markdown(view) or "## a2: 1. Set log" in to_markdown(view)
    console = Console(file=StringIO(), width=100)
    print_advice(view, console)
    assert isinstance(console.file, StringIO)
    told = console.file.getvalue()
    # The answer for all comes last, and each server's lines before.
    assert told.index("fsync = 'on'") < told.index("What should these servers set")
    assert told.rstrip().endswith("a2 1GB")
    data = json.loads(to_json(view))
    assert_valid("advise", data)
    assert [server["name"] for server in data["servers"]] == ["a", "a2", "b", "c", "well", "gone"]
    assert data["servers"][-1]["detail"] == "Connection refused"
    assert data["drift"][0] == {"name": "fsync", "values": {"a": "off", "a2": "on"}}


def test_an_earlier_answer_is_found_by_the_servers_names(tmp_path: Path) -> None:
    path = tmp_path / "before.json"
    path.write_text(to_json(_fleet()))
    earlier = earlier_of_several(path)
    assert list(earlier) == ["a", "a2", "b", "c", "well"]
    assert earlier["a"].titles["fsync"] == "Turn fsync on"
    with pytest.raises(ReportError, match="several servers"):
        earlier_of_one(path)
    path.write_text(to_json(_fleet().members[0].view or pytest.fail("no view")))
    with pytest.raises(ReportError, match="one server"):
        earlier_of_several(path)


@pytest.mark.parametrize("servers", ["1", "[1]", '[{"name": "a", "advice": {}}]', '[{"advice": null}]'])
def test_what_is_no_earlier_answer_is_refused(tmp_path: Path, servers: str) -> None:
    path = tmp_path / "before.json"
    path.write_text(f'{{"format": 1, "servers": {servers}}}')
    with pytest.raises(ReportError):
        earlier_of_several(path)


def test_names_from_outside_make_no_markup() -> None:
    view = FleetView((_member("<script>alert(1)</script>", with_settings(healthy(), fsync="off")),))
    assert "<script>alert" not in to_html(view)
    assert "<script>alert" not in to_markdown(view)
