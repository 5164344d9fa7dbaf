"""WAL that a server archived, made once for all tests of this folder."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.wal.verify.layouts import Laid, lay
from tests.wal.verify.source import Source, make_source


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A folder that the servers' user may enter."""
    folder = Path(tempfile.mkdtemp(prefix="walproof-verify-", dir="/tmp"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@pytest.fixture(scope="session")
def source() -> Iterator[Source]:
    """Of the embedded PostgreSQL 18."""
    with temporary_folder() as folder:
        yield make_source("18", folder)


Layer = Callable[[str, str], Laid]


@pytest.fixture(scope="session")
def laid_once(source: Source) -> Iterator[Layer]:
    """Each layout and compression, written once."""
    done: dict[tuple[str, str], Laid] = {}

    with temporary_folder() as folder:

        def layer(layout: str, ending: str) -> Laid:
            if (layout, ending) not in done:
                done[layout, ending] = lay(source, layout, ending, folder / f"{layout}-{ending}")
            return done[layout, ending]

        yield layer


@pytest.fixture
def layer(laid_once: Layer) -> Iterator[Layer]:
    """An archive in that layout and compression which the test may break."""
    with ExitStack() as folders:
        yield lambda layout, ending: laid_once(layout, ending).copied(
            folders.enter_context(temporary_folder())
        )
