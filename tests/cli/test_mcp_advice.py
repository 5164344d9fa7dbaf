"""What an assistant is told of a look at a server, without a server."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.advise.server.windows import healthy
from walproof.cli.advising import LookOrder, Telling
from walproof.cli.mcp_advice import AskedServer, advice_tools
from walproof.cli.mcp_reach import Reach
from walproof.facts.server import ServerWindow
from walproof.mcp.roots import Roots
from walproof.mcp.tool import Call, ToolAnswer

GB = 1 << 30


def looked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, look_for: str, lasted_s: float, wal_bytes: int
) -> ToolAnswer:
    """The answer after a look that lasted so long and saw so much WAL."""

    def observe(_order: LookOrder, telling: Telling) -> ServerWindow:
        telling.passed(lasted_s, wal_bytes)
        window = healthy()
        first, last = window.looks
        return replace(window, looks=(first, replace(last, at=first.at + lasted_s)))

    monkeypatch.setattr("walproof.cli.mcp_advice.observe_server", observe)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    reach = Reach(Roots([]), {"shop": "service=shop"}, tmp_path, None, None, tmp_path, 300.0)
    (tool,) = (tool for tool in advice_tools(reach) if tool.meets_server)
    return tool.answer(AskedServer(look_for=look_for), Call(300.0, lambda *_: None))


def test_a_look_is_said_to_be_as_long_as_it_was(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A busy server writes the most that is recorded within seconds."""
    short = looked(monkeypatch, tmp_path, "2min", 4.0, GB + 1)
    assert short.notes[0] == 'Looked at "shop" for 4 s, without writing to it.'
    assert short.notes[1].startswith("2 min 00 s were asked for; 1.00 GB of WAL, the most")
    assert " ".join(short.command).startswith("walproof advise service=shop --for 2min --wal-most 1GB")
    whole = looked(monkeypatch, tmp_path, "2min", 120.0, 1 << 20)
    assert whole.notes == ('Looked at "shop" for 2 min 00 s, without writing to it.',)
    assert "--wal-most" not in whole.command
    (_, said) = looked(monkeypatch, tmp_path, "2min", 60.0, 1 << 20).notes
    assert said == "2 min 00 s were asked for; rates rest on the shorter time."
