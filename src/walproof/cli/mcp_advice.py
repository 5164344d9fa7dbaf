"""Tools of ``walproof mcp`` that advise: from what was kept of a server, and from a server that runs."""

from __future__ import annotations

import json
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from walproof.cli import options
from walproof.cli.advising import (
    AdviceOrder,
    LookOrder,
    Telling,
    advice_from,
    look_sentence,
    observe_server,
    recorded_window,
)
from walproof.cli.mcp_reach import Form, Reach, RecoveryTarget, WalDisk, flags, positive
from walproof.errors import SettingError, WalError
from walproof.mcp.tool import Call, Tool, ToolAnswer, ToolArguments
from walproof.settings.conninfo import shown
from walproof.units import format_bytes, format_duration, parse_duration_s

if TYPE_CHECKING:
    from walproof.report.advice.view import AdviceView

_WAL_MOST, _WAL_MOST_WORD = 1 << 30, "1GB"
"""Most WAL to record from a running server; a person may record more."""
_NEARLY = 0.9
"""Share of a look that nothing ended early: sessions take a moment to begin and to end."""
_AFTER_S = 30.0
"""Share of a call's time that is kept for reading the recording."""
_SHORTEST_S = 1.0
_LOOK_S = 30.0
"""Length of a look unless told otherwise, or unless the time limit allows less."""
LIMIT_LEAST_S = 40.0
"""Shortest time limit where servers may be looked at: a look of about ten seconds."""


class AskedAdvice(ToolArguments):
    """Limits of a server's owner."""

    recovery_target: RecoveryTarget = None
    wal_disk: WalDisk = None
    may_lose: Annotated[
        Literal["nothing", "commits", "table", "cluster"],
        Field(
            description="What a crash may cost. Leave it at nothing unless the server's owner said otherwise."
        ),
    ] = "nothing"
    startup_budget: str | None = Field(
        default=None,
        description="Time after which an orchestrator ends a server that is starting, such as 10min.",
    )
    platform: str | None = Field(
        default=None,
        description=f"Platform to write lines for: {options.PLATFORM_NAMES}. Default: the one that is "
        "recognised (platform_reason says by what), else alter-system.",
    )
    mute: list[str] = Field(default=[], description="Rules to leave out.")
    form: Form = "json"


class AskedRecording(AskedAdvice):
    """What advice on a recording may be asked with."""

    folder: str = Field(description="A recording, from overview: what advise --save or wal capture wrote.")


class AskedServer(AskedAdvice):
    """What advice on a running server may be asked with."""

    server: str | None = Field(
        default=None, description="A name from overview; may be left out if there is only one."
    )
    look_for: str | None = Field(
        default=None,
        description="How long to look, such as 2min. Longer is surer: a look should see checkpoints. "
        "Default: 30s, or what the time limit allows.",
    )


def advice_tools(reach: Reach) -> list[Tool]:
    """Advice on recordings; on running servers where the operator named some."""

    def recorded(asked: AskedRecording, call: Call) -> ToolAnswer:
        order = _order(reach, asked)
        folder = Path(reach.roots.place(asked.folder, call.look))
        if not folder.is_dir():
            raise WalError(f'"{folder}" is not a recording', hint="overview lists recordings.")
        _, view = advice_from(recorded_window(folder), folder, order, call.observe)
        return _answer(reach, view, asked, ["walproof", "advise", str(folder)])

    def live(asked: AskedServer, call: Call) -> ToolAnswer:
        order = _order(reach, asked)
        name, conninfo = reach.server(asked.server)
        most_s = call.left_s - _AFTER_S
        look_for = asked.look_for
        if look_for is None:
            look_for = f"{min(_LOOK_S, float(int(most_s))):g}s"
        seconds = parse_duration_s(look_for)
        if not _SHORTEST_S <= seconds <= most_s:
            raise SettingError(
                f"look_for is {look_for}: expected {_SHORTEST_S:g} s to {format_duration(most_s)}",
                hint=f"A person looks longer: walproof advise {shown(conninfo)!r} --for 10min --save FOLDER; "
                "then ask advise_recording of that folder.",
            )
        folder = reach.scratch / secrets.token_hex(8)
        told = received = 0

        def say(sentence: str) -> None:
            nonlocal told
            told += 1
            call.say(told, None, sentence)

        def passed(passed_s: float, so_far: int) -> None:
            nonlocal received
            received = so_far
            say(look_sentence(passed_s, seconds, so_far))

        try:
            look = LookOrder(conninfo, seconds, _WAL_MOST, folder, calibration=reach.calibration)
            window = observe_server(look, Telling(passed, say, call.look))
            _, view = advice_from(window, folder, order, call.observe)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        command = ["walproof", "advise", shown(conninfo), "--for", look_for]
        if received > _WAL_MOST:
            command += ["--wal-most", _WAL_MOST_WORD]
        notes = _looked(name, seconds, window.seconds, received)
        return _answer(reach, view, asked, command, *notes)

    tools = [
        Tool(
            "advise_recording", "Advice from a recording",
            "What a recorded server should set, and why: evidence, gain with its range, what it costs in "
            "durability, lines to paste and lines that undo them. Nothing is applied; show the person the "
            "lines, their risk and their undo.",
            AskedRecording, recorded,
        )
    ]  # fmt: skip
    if reach.servers:
        tools.append(
            Tool(
                "advise_server", "Advice on a running server",
                f"Look at a running server ({', '.join(reach.servers)}) for a while, reading only, and say "
                "what it should set, as advise_recording does. With REPLICATION its WAL is recorded "
                "meanwhile, without contents, through a temporary slot.",
                AskedServer, live, meets_server=True,
            )
        )  # fmt: skip
    return tools


def _looked(name: str, asked_s: float, looked_s: float, wal_bytes: int) -> Iterator[str]:
    """How long a server was looked at, and what ended the look early."""
    yield f'Looked at "{name}" for {format_duration(looked_s)}, without writing to it.'
    if wal_bytes > _WAL_MOST:
        yield (
            f"{format_duration(asked_s)} were asked for; {format_bytes(_WAL_MOST)} of WAL, the most that is "
            "recorded, ended the look. Rates rest on the shorter time. A person looks longer with a larger "
            "--wal-most."
        )
    elif looked_s < _NEARLY * asked_s:
        yield f"{format_duration(asked_s)} were asked for; rates rest on the shorter time."


def _order(reach: Reach, asked: AskedAdvice) -> AdviceOrder:
    order = AdviceOrder(
        options.duration_s(asked.recovery_target),
        positive("wal_disk", asked.wal_disk),
        asked.may_lose,
        asked.platform,
        asked.mute,
        reach.calibration,
        options.duration_s(asked.startup_budget),
    )
    order.check()
    return order


def _answer(
    reach: Reach, view: AdviceView, asked: AskedAdvice, command: list[str], *notes: str
) -> ToolAnswer:
    from walproof.report.advice.json import to_json
    from walproof.report.advice.page import to_markdown

    words = flags(
        ("--recovery-target", asked.recovery_target), ("--wal-disk", asked.wal_disk),
        ("--may-lose", None if asked.may_lose == "nothing" else asked.may_lose),
        ("--startup-budget", asked.startup_budget),
        ("--platform", asked.platform),
        ("--calibration", reach.calibration),
    )  # fmt: skip
    for rule in asked.mute:
        words += ["--mute", rule]
    result = to_markdown(view) if asked.form == "markdown" else json.loads(to_json(view))
    return ToolAnswer(result, notes, (*command, *words))
