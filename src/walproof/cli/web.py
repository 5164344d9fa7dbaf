"""``walproof web``: stored runs in a browser."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import Annotated

import typer

from walproof.cli import Interrupted, options
from walproof.errors import SettingError


def web(
    address: Annotated[
        str, typer.Option("--address", metavar="HOST:PORT", help="Where to listen; port 0 takes a free one.")
    ] = "127.0.0.1:8432",
    name: options.HostNames = None,
    recordings: Annotated[
        Path | None,
        typer.Option("--recordings", metavar="FOLDER", help="Folder of recordings. Default: --out."),
    ] = None,
    history: Annotated[
        Path | None,
        typer.Option("--history", metavar="FILE", help="Show a history written by walproof watch --history."),
    ] = None,
    open_: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
    out: options.Out = options.DEFAULT_OUT,
    store: options.StoreUrl = None,
) -> None:
    """Serve the stored runs as a web page.

    Search, reports, several runs in one plot, trends, tunings and recordings.

    The printed link holds a token: whoever has it may read. For running servers: walproof watch DSN --web.
    """
    from walproof.cli.web_serve import Site, shelf_of
    from walproof.facts.watch_history import open_history
    from walproof.files import is_folder

    found = out if recordings is None else recordings
    if recordings is not None and not is_folder(recordings):
        raise SettingError(f'--recordings is "{recordings}": there is no such folder')
    if history is not None:
        open_history(history).close()
    shelf = shelf_of(out, store, must_exist=store is not None or out != options.DEFAULT_OUT)
    try:
        with Site(
            address, tuple(name or ()), shelf, None, option="--address", recordings=found,
            tunings=out / "tunings", history=history,
        ) as site:  # fmt: skip
            site.announce(open_=open_)
            threading.Event().wait()
    except Interrupted as signalled:
        # Ctrl-C is how it ends.
        if signalled.number != signal.SIGINT:
            raise
    finally:
        shelf.close()
