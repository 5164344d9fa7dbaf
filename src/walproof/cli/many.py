"""What commands do with ``--ray``: other machines work, and the answer is the same as of this one."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from walproof.cli.passes import PassProgress

if TYPE_CHECKING:
    from walproof.units import Lsn
    from walproof.wal import WalStats
    from walproof.wal.places.opened import Path
    from walproof.wal.places.place import Place
    from walproof.wal.verify.reading import Verifier
    from walproof.wal.whatif import Simulator


def archive_stats(
    paths: Sequence[Path],
    start: Lsn | None,
    end: Lsn | None,
    timeline: int | None,
    *,
    address: str,
    insecure: bool,
) -> WalStats:
    """Totals of an archive that the cluster reads. Raises WalError, HostError."""
    from walproof.hosts.archive import archive_stats as read_stats
    from walproof.hosts.cluster import connected

    with connected(address, insecure=insecure) as cluster, PassProgress("reading WAL") as progress:

        def tell(line: str) -> None:
            progress.give_way()
            sys.stderr.write(f"{line}\n")

        return read_stats(
            cluster, paths, start=start, end=end, timeline=timeline, observe=progress.observe, tell=tell
        )


@contextmanager
def verifier(address: str, *, insecure: bool) -> Iterator[Verifier]:
    """Verifies files of archives on the cluster. Raises HostError."""
    from walproof.hosts.cluster import connected
    from walproof.hosts.verify import verify_on

    with connected(address, insecure=insecure) as cluster:
        yield verify_on(cluster.cores)


@contextmanager
def simulator(address: str, *, insecure: bool) -> Iterator[Callable[[Sequence[Place]], Simulator]]:
    """Simulates over WAL that the cluster reads. Raises HostError."""
    from walproof.hosts.cluster import connected
    from walproof.hosts.whatif import simulate_on

    def tell(line: str) -> None:
        sys.stderr.write(f"{line}\n")

    with connected(address, insecure=insecure) as cluster:
        yield simulate_on(cluster.cores, tell)
