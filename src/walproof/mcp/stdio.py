"""The protocol over standard input and output, until the client closes it or a signal ends it."""

from __future__ import annotations

import fcntl
import os
import signal
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import cast

import anyio
from mcp.server.stdio import stdio_server

from walproof.mcp.server import AssistantServer

_PIECE_BYTES = 1 << 16
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def serve(server: AssistantServer) -> int | None:
    """Serve one client. Returns the number of the signal that ended it; None when the client did.

    While it serves, file 1 is standard error and file 0 is empty: what is printed by accident does not
    get into the protocol, and nothing else reads from it.
    """
    handlers = {number: signal.getsignal(number) for number in _SIGNALS}
    try:
        return anyio.run(_serve, server)
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


async def _serve(server: AssistantServer) -> int | None:
    ended_by: list[int] = []
    heard = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    stdin = fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 3)
    _divert(0)
    try:
        async with anyio.create_task_group() as tasks:

            async def wait_for_signals() -> None:
                with anyio.open_signal_receiver(*heard) as received:
                    async for number in received:
                        ended_by.append(int(number))
                        tasks.cancel_scope.cancel()
                        return

            tasks.start_soon(wait_for_signals)
            lines = cast("anyio.AsyncFile[str]", _lines(stdin))
            async with stdio_server(stdin=lines) as (incoming, outgoing):
                sdk = server.sdk
                with suppress(anyio.BrokenResourceError):
                    await sdk.run(incoming, outgoing, sdk.create_initialization_options())
            tasks.cancel_scope.cancel()
    finally:
        os.close(stdin)
        server.stop()
    return ended_by[0] if ended_by else None


async def _lines(descriptor: int) -> AsyncIterator[str]:
    """What the client writes. A wait for it can be cancelled, which a thread's could not."""
    read = b""
    while piece := await _piece(descriptor):
        *whole, read = (read + piece).split(b"\n")
        for line in whole:
            yield line.decode("utf-8", "replace")
    if read:
        yield read.decode("utf-8", "replace")


async def _piece(descriptor: int) -> bytes:
    while True:
        with suppress(PermissionError):  # a regular file, which is always ready
            await anyio.wait_readable(descriptor)
        with suppress(BlockingIOError):
            return os.read(descriptor, _PIECE_BYTES)


def _divert(descriptor: int) -> None:
    nowhere = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)
