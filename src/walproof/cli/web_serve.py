"""The page, its link and its browser; its contents come from ``walproof.web``."""

from __future__ import annotations

import html
import os
import socket
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self

from walproof.cli import options
from walproof.cli.serving import Served
from walproof.cli.watch_listen import parse_address
from walproof.errors import StoreMissingError
from walproof.facts.place import find_place
from walproof.facts.store import Store
from walproof.files import write_whole
from walproof.web.access import make_access
from walproof.web.live.board import Board
from walproof.web.live.past import Past
from walproof.web.shelf import Shelf
from walproof.web.site import make_site

if TYPE_CHECKING:
    from walproof.report.watch.view import ServerView

DEFAULT_PORT = 8432
TOKEN = "WALPROOF_WEB_TOKEN"


class Site(Served):
    """Context manager: serves the page. Raises SettingError when it cannot listen."""

    def __init__(
        self,
        address: str,
        names: Sequence[str],
        shelf: Shelf | None,
        board: Board | None,
        *,
        option: str = "--web",
        recordings: Path | None = None,
        tunings: Path | None = None,
        history: Path | None = None,
    ) -> None:
        """``address``: HOST:PORT; port 0 takes a free port. ``option``: the option that gave it."""
        host, port = parse_address(address, option, DEFAULT_PORT)
        # On all addresses of the machine the link has its name, under which the page has to answer.
        self._linked = socket.gethostname() if host in ("0.0.0.0", "::") else host
        self._access = make_access(os.environ.get(TOKEN), [*names, self._linked])
        self._board = board
        self._leading: tempfile.TemporaryDirectory[str] | None = None
        past = None if history is None else Past(history)
        app = make_site(self._access, shelf, board, recordings, tunings, past)
        super().__init__(app, host, port, option)

    def __exit__(self, *_: object) -> None:
        if self._board is not None:
            self._board.is_over = True
        super().__exit__()
        if self._leading is not None:
            self._leading.cleanup()

    @property
    def url(self) -> str:
        """The link, with its token."""
        host = f"[{self._linked}]" if ":" in self._linked else self._linked
        return f"http://{host}:{self.port}/?token={self._access.token}"

    def announce(self, *, open_: bool = False) -> None:
        """Print the link, and open it if asked to; whoever has no browser here may open it elsewhere."""
        sys.stderr.write(f"the page: {self.url}\nwhoever has the link may read; Ctrl-C ends it\n")
        sys.stderr.flush()
        if open_:
            import webbrowser

            try:
                is_open = webbrowser.open(self._leading_page())
            except OSError:  # no room for a file
                is_open = False
            if not is_open:
                sys.stderr.write("warning: no browser could be opened: open the link by hand\n")
                sys.stderr.flush()

    def _leading_page(self) -> str:
        """Address of a file that only we may read, and that leads to the link: everybody may read the command
        line of the browser, for as long as it runs. Raises OSError."""
        self._leading = tempfile.TemporaryDirectory(prefix="walproof-web-")
        page, url = Path(self._leading.name) / "walproof.html", html.escape(self.url)
        write_whole(
            page,
            f'<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0;url={url}">'
            f'<title>walproof</title><a href="{url}">walproof</a>\n',
        )
        return page.as_uri()


class WatchedSite(Site):
    """Context manager: a page that is told of each look, and shows the stored runs of this folder."""

    def __init__(
        self, address: str, names: Sequence[str], every_s: float, history: Path | None = None
    ) -> None:
        self._told = Board(every_s)
        out, url = Path(os.environ.get("WALPROOF_OUT", options.DEFAULT_OUT)), os.environ.get("WALPROOF_STORE")
        self._shelf = _later_shelf(out, url)
        super().__init__(address, names, self._shelf, self._told, tunings=out / "tunings", history=history)

    def __enter__(self) -> Self:
        super().__enter__()
        self.announce()
        return self

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        self._shelf.close()

    def tell(self, views: Sequence[ServerView]) -> None:
        """Tell the page what to show next."""
        self._told.tell(views, time.time())


def shelf_of(out: Path, url: str | None, *, must_exist: bool) -> Shelf:
    """The store of these options, opened now if it exists, otherwise as soon as it does.

    Raises StoreError if it has to exist and does not, or cannot be read.
    """
    if must_exist:
        opened = options.open_existing_store(out, url)
        return Shelf(lambda: opened, opened.shown, options.place_words(out, url))
    path = out / "walproof.sqlite"
    where = url if url is not None else path
    first = _found(where)
    kept = [] if first is None else [first]
    shown = str(path) if first is None else first.shown
    return Shelf(lambda: kept.pop() if kept else _found(where), shown, options.place_words(out, url))


def _later_shelf(out: Path, url: str | None) -> Shelf:
    """The store of these options, opened when a page asks for it: servers are watched, whatever is wrong with
    it. Raises StoreError for an address that is none."""
    where = url if url is not None else out / "walproof.sqlite"
    return Shelf(lambda: _found(where), find_place(where).shown, options.place_words(out, url))


def _found(where: str | Path) -> Store | None:
    try:
        return Store(where, must_exist=True)
    except StoreMissingError:
        return None
