"""Asks a server of tools as an assistant does: with the SDK's own client."""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TextIO, TypeVar

import anyio
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.types import CallToolResult

from tests.cli.command import environment
from walproof.mcp.server import AssistantServer
from walproof.mcp.tool import Tool

_T = TypeVar("_T")


def asked(client_of: Callable[[], Client], ask: Callable[[Client], Awaitable[_T]]) -> _T:
    """What ``ask`` found through a client of its own."""

    async def run() -> _T:
        async with client_of() as client:
            return await ask(client)

    return anyio.run(run)


def in_process(
    *tools: Tool,
    longest_s: float = 60.0,
    defects: list[BaseException] | None = None,
    conceal: Callable[[str], str] = str,
) -> Client:
    """A client of a server of these tools in this process."""
    report = [] if defects is None else defects
    return Client(AssistantServer(tools, "", longest_s, conceal, report.append).sdk)


def process(cwd: Path, errors: TextIO, *arguments: str, **changes: str) -> Client:
    """A client of ``walproof mcp``, in a process of its own."""
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "walproof", "mcp", *arguments],
        cwd=cwd,
        env=environment(**changes),
    )
    return Client(stdio_client(server, errlog=errors))


def told(result: CallToolResult) -> dict[str, Any]:
    """The data of a result that is no error; its text says the same."""
    assert not result.is_error, result.content
    assert result.structured_content is not None
    (text,) = result.content
    assert json.loads(getattr(text, "text", "")) == result.structured_content
    return dict(result.structured_content)


def error_of(result: CallToolResult) -> str:
    """The text of a result that is an error."""
    assert result.is_error, result.structured_content
    (text,) = result.content
    return str(getattr(text, "text", ""))


async def answer(client: Client, name: str, /, **arguments: Any) -> Any:
    """The result of a tool."""
    return told(await client.call_tool(name, arguments))["result"]


async def whole(client: Client, first: Mapping[str, Any]) -> Any:
    """A long answer, put together from its parts as an assistant would."""
    result, left = first["result"], list(first.get("left_out", ()))
    while left:
        cut = left.pop(0)
        asked_for = {"answer": first["answer"], "at": cut["at"], "first": cut["next"]}
        more = told(await client.call_tool("rest_of_answer", asked_for))
        result = with_more(result, cut["at"].split("/")[1:], more["result"])
        left += more.get("left_out", ())
    return result


def with_more(value: Any, path: list[str], more: Any) -> Any:
    if not path:
        return {**value, **more} if isinstance(value, dict) else value + more
    key = path[0].replace("~1", "/").replace("~0", "~")
    if isinstance(value, list):
        at = int(key)
        return [*value[:at], with_more(value[at], path[1:], more), *value[at + 1 :]]
    return {**value, key: with_more(value[key], path[1:], more)}
