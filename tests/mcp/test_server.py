"""What becomes of a call: errors, defects, time, and clients that give up."""

from __future__ import annotations

import threading
import time
from typing import Any

import anyio
import pytest
from mcp import Client

from tests.mcp.asking import asked, error_of, in_process, told
from walproof.errors import WalError
from walproof.mcp.tool import Call, Nothing, Tool, ToolAnswer, ToolArguments


class Words(ToolArguments):
    """A question."""

    words: list[str]
    size: str | None = None


def tool(name: str, function: Any, kind: type[ToolArguments] = Nothing) -> Tool:
    return Tool(name, name, f"{name}.", kind, function)


def test_an_error_keeps_its_three_parts() -> None:
    def fail(_asked: Nothing, _call: Call) -> ToolAnswer:
        raise WalError("no WAL\u200b there", detail="Looked in x.", hint="Look in y.")

    async def ask(client: Client) -> None:
        result = await client.call_tool("fail", {})
        assert error_of(result) == "no WAL\\u200b there\ndetail: Looked in x.\nhint: Look in y."
        assert result.structured_content == {
            "error": {"message": "no WAL\\u200b there", "detail": "Looked in x.", "hint": "Look in y."}
        }

    asked(lambda: in_process(tool("fail", fail)), ask)


def test_a_defect_is_short_and_says_nothing_of_values() -> None:
    def broken(_asked: Nothing, _call: Call) -> ToolAnswer:
        secret = {"password": "hunter2"}
        return ToolAnswer(secret["hunter2 is no key"])

    def panics(_asked: Nothing, _call: Call) -> ToolAnswer:
        raise BaseException("a panic")  # noqa: TRY002 - as PyO3's are

    defects: list[BaseException] = []

    async def ask(client: Client) -> None:
        for name in ("broken", "panics"):
            said = error_of(await client.call_tool(name, {}))
            assert "a defect of walproof" in said
            assert "hunter2" not in said
            assert "Traceback" not in said
            assert len(said) < 400

    asked(lambda: in_process(tool("broken", broken), tool("panics", panics), defects=defects), ask)
    assert [type(defect) for defect in defects] == [KeyError, BaseException]


def test_what_cannot_be_asked_is_said_by_field() -> None:
    def echo(asked_: Words, _call: Call) -> ToolAnswer:
        return ToolAnswer(asked_.words)

    async def ask(client: Client) -> None:
        said = error_of(await client.call_tool("echo", {"word": ["x"], "size": "1GB"}))
        assert "words: Field required" in said
        assert "word: Extra inputs are not permitted" in said
        said = error_of(await client.call_tool("echo", {"words": 5}))
        assert "words: Input should be a valid list" in said
        assert 'no tool "other"' in error_of(await client.call_tool("other", {}))
        assert told(await client.call_tool("echo", {"words": ["x"], "size": None}))["result"] == ["x"]
        (listed, _rest) = (await client.list_tools()).tools
        assert listed.input_schema["additionalProperties"] is False
        assert listed.input_schema["properties"]["size"] == {"type": "string"}
        assert listed.annotations is not None
        assert (listed.annotations.read_only_hint, listed.annotations.open_world_hint) == (True, False)

    asked(lambda: in_process(tool("echo", echo, Words)), ask)


def test_a_long_error_is_cut() -> None:
    def fail(_asked: Nothing, _call: Call) -> ToolAnswer:
        raise WalError("x" * 100_000)

    async def ask(client: Client) -> None:
        said = error_of(await client.call_tool("fail", {}))
        assert len(said) < 5000
        assert said.endswith("characters more)")

    asked(lambda: in_process(tool("fail", fail)), ask)


def test_a_call_ends_when_its_time_is_over() -> None:
    def endless(_asked: Nothing, call: Call) -> ToolAnswer:
        while True:
            call.observe(1, 2)
            time.sleep(0.01)

    async def ask(client: Client) -> None:
        said = error_of(await client.call_tool("endless", {}))
        assert "took longer than 300 ms" in said
        assert "--time-limit" in said

    asked(lambda: in_process(tool("endless", endless), longest_s=0.3), ask)


def test_a_client_that_gives_up_ends_the_call() -> None:
    ended = threading.Event()

    def endless(_asked: Nothing, call: Call) -> ToolAnswer:
        try:
            while True:
                call.look()
                time.sleep(0.01)
        finally:
            ended.set()

    async def ask(client: Client) -> None:
        with anyio.move_on_after(0.3):
            await client.call_tool("endless", {})
            pytest.fail("it is endless")
        assert await anyio.to_thread.run_sync(lambda: ended.wait(30))
        # The next one is answered.
        assert told(await client.call_tool("short", {}))["result"] == 1

    short = tool("short", lambda _asked, _call: ToolAnswer(1))
    asked(lambda: in_process(tool("endless", endless), short), ask)


def test_progress_is_told() -> None:
    def passes(_asked: Nothing, call: Call) -> ToolAnswer:
        for done in (2, 1):
            time.sleep(1.05)
            call.observe(done, 2)
        return ToolAnswer("done")

    heard: list[tuple[float, str | None]] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        assert total is None
        heard.append((progress, message))

    async def ask(client: Client) -> None:
        await client.call_tool("passes", {}, progress_callback=on_progress)

    asked(lambda: in_process(tool("passes", passes)), ask)
    assert [progress for progress, _ in heard] == [1.0, 1.5]
    assert heard[0][1] == "read 2 B of 2 B"


def test_progress_has_neither_secrets_nor_unseen_characters() -> None:
    """It may hold a server's own words."""

    def says(_asked: Nothing, call: Call) -> ToolAnswer:
        time.sleep(1.05)
        call.say(1.0, None, "a\u200bb hunter2")
        return ToolAnswer("done")

    heard: list[tuple[float, float | None, str | None]] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, total, message))

    async def ask(client: Client) -> None:
        await client.call_tool("says", {}, progress_callback=on_progress)

    asked(lambda: in_process(tool("says", says), conceal=lambda text: text.replace("hunter2", "***")), ask)
    assert heard == [(1.0, None, "a\\u200bb ***")]
