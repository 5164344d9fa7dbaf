"""What other checkpoint settings would have written in the last hours of WAL that arrives.

    >>> from walproof.wal.rolling import RollingWhatIf
    >>> rolling = RollingWhatIf(system_identifier, 16 << 20, 1, targets)  # doctest: +SKIP
    >>> stream = WalStream(buffers=[16384], segment_size=16 << 20, also=rolling)  # doctest: +SKIP
    >>> rolling.answer()  # doctest: +SKIP

The simulation is that of ``walproof.wal.whatif``. It forgets nothing, so two run at a time, half a span
apart, and the older one answers: for half a span at least (once so much has come) and a whole one at most
(crates/walproof-whatif/src/rolling.rs). Nothing of the WAL is kept; pages are a sample.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

from walproof._native import WhatIfRolling
from walproof.units import Lsn
from walproof.wal.whatif import Target, WhatIf, whatif_of

SPAN_S = 6 * 3600
"""That an answer covers at most, by the times that transactions tell."""
PAGES = 28_000
"""Held by each of both simulations at most: what a table of 557 kB holds."""
LEARN_BYTES = 64 << 20
LEARN_S = 60
"""From which a simulation learns before it begins: what is over first. Seconds, too, are what transactions
tell."""


class RollingWhatIf:
    """Simulations of one server's WAL. One thread may feed it while another one asks."""

    def __init__(
        self,
        system_identifier: int,
        segment_size: int,
        timeline: int,
        targets: Sequence[Target],
        *,
        most_pages: int = PAGES,
        learn_bytes: int = LEARN_BYTES,
    ) -> None:
        """Of the WAL of that server, whose segments have ``segment_size`` bytes."""
        self.targets = tuple(targets)
        self.timeline = timeline
        self.lock = threading.Lock()
        """Held by who feeds it."""
        self.native = WhatIfRolling(
            system_identifier % 2**64, segment_size, timeline, targets=self.targets, most_pages=most_pages,
            span_us=SPAN_S * 1_000_000, learn_bytes=learn_bytes, learn_us=LEARN_S * 1_000_000,
        )  # fmt: skip

    def switch_timeline(self, timeline: int, lsn: Lsn) -> None:
        """The WAL goes on at ``lsn`` on another timeline; all begins anew where it had come further."""
        with self.lock:
            self.native.switch_timeline(timeline, lsn)
        self.timeline = timeline

    def answer(self) -> WhatIf | None:
        """What each target would have written; None while the older simulation learns."""
        with self.lock:
            raw = self.native.answer()
        return None if raw is None else whatif_of(raw, self.targets, "transactions")

    @property
    def is_overfull(self) -> bool:
        """Whether the server writes to more than 50,000 relations' forks, so that nothing is simulated."""
        with self.lock:
            return self.native.is_overfull

    @property
    def memory_bytes(self) -> int:
        """What both simulations hold, roughly."""
        with self.lock:
            return self.native.memory_bytes
