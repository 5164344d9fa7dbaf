"""What a server makes of an image: start it, check the books, stop it, look at every page."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import psycopg

from walproof.disk.checksums import PAGE_BYTES, SEGMENT_PAGES, DamagedPage, damaged_pages
from walproof.errors import ClusterError, DiskError, DisturbedError, one_line
from walproof.facts import ImageState
from walproof.postgres.cluster import Cluster
from walproof.workload.books import Books, check_books
from walproof.workload.ledger import SCHEMA, Record

FOLDERS = ("data", "wal", "space")
"""The roots of the simulated disk under a cluster: data directory, WAL, a tablespace."""
_END_PATIENCE_S = 5.0
"""How long to wait for a server that is ending: its postmaster says why a moment after its clients have
noticed."""
_MAPS = {"vm": "visibility map", "fsm": "free space map"}


@dataclass(frozen=True, slots=True)
class ImageVerdict:
    """See :class:`walproof.facts.CheckedImage`."""

    state: ImageState
    reason: str | None
    torn_pages: int
    lost_commits: int
    loss_window_ms: float | None


def judge(
    cluster: Cluster,
    settings: Mapping[str, str],
    record: Record,
    cut_ns: int,
    *,
    sizes: Mapping[str, int],
    has_checksums: bool,
    has_amcheck: bool,
    has_pgbench_sums: bool = True,
    schema: str = SCHEMA,
) -> ImageVerdict:
    """The verdict on the image in ``cluster``'s folder, whose server is not running before nor after.

    ``settings`` are those of the server whose power was cut at ``cut_ns`` (time.monotonic_ns); ``sizes`` as
    :func:`walproof.disk.image.durable_sizes`, ``has_pgbench_sums`` and ``schema`` as :func:`check_books`.

    Raises DiskError if there is no verdict, because something other than the image ended or hindered the
    server."""
    torn = _torn_pages(cluster, sizes) if has_checksums else 0
    books: Books | None = None
    own_files: frozenset[str] = frozenset()
    refused: str | None = None
    is_cut_off = False
    try:
        # What is looked at now need not outlive the look.
        cluster.start({**settings, "fsync": "off"})
        with cluster.connect() as connection:
            books = check_books(
                connection,
                record,
                has_amcheck=has_amcheck,
                has_pgbench_sums=has_pgbench_sums,
                schema=schema,
            )
            is_cut_off = connection.broken
            if books.wrong is None:
                own_files = _files(connection)
                connection.execute("CHECKPOINT")
    except DisturbedError as error:
        raise DiskError(f"the run is void: {error.message}", detail=error.detail) from error
    except ClusterError as error:
        # For a refused connection libpq also tells the way to the server; that it did not start is the state.
        refused = error.message.rpartition("FATAL: ")[2].rpartition("did not start: ")[2].strip()
        is_cut_off = "FATAL: " not in error.message
    except psycopg.Error as error:
        # From looking at files, or from the checkpoint: the books themselves report what fails.
        assert books is not None
        is_cut_off = isinstance(error, psycopg.OperationalError)
        books = Books(books.lost, books.oldest_lost_ns, books.hole, books.unbalanced, one_line(error))
    finally:
        disturbance, log = _disturbance(cluster, is_cut_off=is_cut_off), cluster.log_tail()
        has_stopped = cluster.stop("fast" if books is not None and books.wrong is None else "immediate")
    if disturbance is not None:
        raise DiskError(f"the run is void: a server on an image was disturbed: {disturbance}", detail=log)
    if refused is not None:
        return ImageVerdict(ImageState.NO_START, refused, torn, 0, None)
    assert books is not None
    if not has_stopped and books.wrong is None:
        # Pages may be half written.
        raise DiskError("the run is void: a server on an image did not stop in time", detail=log)
    damaged = damaged_pages(cluster.data) if has_checksums and books.wrong is None else ()
    state, reason = _weigh(books, damaged, own_files)
    window_ms = None if books.oldest_lost_ns is None else max(0.0, (cut_ns - books.oldest_lost_ns) / 1e6)
    return ImageVerdict(state, reason, torn, books.lost, window_ms)


def _disturbance(cluster: Cluster, *, is_cut_off: bool) -> str | None:
    """See :meth:`Cluster.disturbance`. ``is_cut_off``: the connection to the server broke off."""
    deadline = time.monotonic() + _END_PATIENCE_S
    while is_cut_off and cluster.is_running() and time.monotonic() < deadline:
        if cluster.disturbance() is not None:
            break
        time.sleep(0.01)
    return cluster.disturbance()


def _torn_pages(cluster: Cluster, sizes: Mapping[str, int]) -> int:
    """Damaged pages that redo would have to read. It makes others again: pages that were not there before,
    and the maps of free space and visibility."""
    folders = [cluster.folder / name for name in FOLDERS]
    torn = 0
    for page in damaged_pages(cluster.data):
        path = (cluster.data / page.path).resolve()
        root = next(number for number, folder in enumerate(folders) if path.is_relative_to(folder.resolve()))
        name = f"{root}/{path.relative_to(folders[root].resolve())}"
        in_file = page.block % SEGMENT_PAGES
        torn += page.fork == "main" and (name not in sizes or (in_file + 1) * PAGE_BYTES <= sizes[name])
    return torn


def _weigh(
    books: Books, damaged: tuple[DamagedPage, ...], own_files: frozenset[str]
) -> tuple[ImageState, str | None]:
    grave = [page for page in damaged if page.fork in ("main", "init") and _is_owned(page, own_files)]
    if books.wrong is not None:
        return ImageState.CORRUPT, books.wrong
    if grave:
        page = grave[0]
        return ImageState.CORRUPT, f'checksum of block {page.block} of "{page.path}" is wrong'
    if books.hole is not None:
        return ImageState.HOLES, books.hole
    if books.unbalanced is not None:
        return ImageState.CORRUPT, books.unbalanced
    if books.lost:
        return ImageState.LOST, f"{books.lost} acknowledged commits are gone"
    if damaged:
        page = damaged[0]
        what = _MAPS.get(page.fork, "file that belongs to no table")
        return ImageState.BENIGN, f'checksum of block {page.block} of "{page.path}" ({what}) is wrong'
    return ImageState.CLEAN, None


def _files(connection: psycopg.Connection[tuple[object, ...]]) -> frozenset[str]:
    """Files of the relations that exist. A crash in CREATE TABLE leaves one that belongs to none."""
    rows = connection.execute("SELECT pg_relation_filepath(oid) FROM pg_class").fetchall()
    return frozenset(str(row[0]) for row in rows if row[0] is not None)


def _is_owned(page: DamagedPage, own_files: frozenset[str]) -> bool:
    path = Path(page.path)
    first = str(path.with_name(path.name.split(".")[0].split("_")[0]))
    # Other databases are not written to, so nothing in them may be damaged.
    folder = str(Path(first).parent)
    return first in own_files or all(str(Path(file).parent) != folder for file in own_files)
