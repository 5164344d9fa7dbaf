"""Where the WAL of a pair is, many times a second: not flushed, sent, written, flushed there, replayed.

    primary   inserted --generation--> flushed --network--> sent
    standby                                       --write--> written --flush--> flushed --replay--> replayed

Positions on the way are those that the primary knows (pg_stat_replication). How far the standby has replayed
it is asked itself, where it takes connections: the primary learns of that only with the standby's messages.
The standby is asked first, so that no stage is below zero.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

import psycopg
from psycopg.rows import TupleRow

from walproof.errors import ProbeError
from walproof.facts.replication import StartupProcess
from walproof.probe.connection import connect, one_line
from walproof.probe.startup import read_startup

STREAM_HZ = 20.0
STAGES = ("generation", "network", "write", "flush", "replay")
"""In the order in which WAL passes them."""

_REPLAYED = "SELECT (pg_last_wal_replay_lsn() - '0/0')::int8"
_POSITIONS = """
    SELECT (pg_current_wal_insert_lsn() - '0/0')::int8, (pg_current_wal_flush_lsn() - '0/0')::int8,
           (sent_lsn - '0/0')::int8, (write_lsn - '0/0')::int8, (flush_lsn - '0/0')::int8,
           (replay_lsn - '0/0')::int8
      FROM pg_stat_replication WHERE application_name = %s
    """


@dataclass(frozen=True, slots=True)
class StreamSample:
    """One look. Positions are bytes since the beginning of WAL."""

    at_s: float
    """Monotonic clock, when the primary had answered."""
    inserted: int
    flushed: int
    sent: int
    written: int
    flushed_there: int
    replayed: int
    startup: StartupProcess

    @property
    def stages(self) -> tuple[int, ...]:
        """Bytes in each of STAGES."""
        positions = (
            self.inserted, self.flushed, self.sent, self.written, self.flushed_there, self.replayed,
        )  # fmt: skip
        return tuple(max(0, ahead - behind) for ahead, behind in itertools.pairwise(positions))

    @property
    def lag_bytes(self) -> int:
        """All that is not replayed."""
        return max(0, self.inserted - self.replayed)


class StreamSampler:
    """Context manager: looks STREAM_HZ times a second, in a thread, while its block lasts.

    ``standby`` is None where it takes no connections. Raises ProbeError when the first look fails.
    """

    def __init__(self, primary: str, standby: str | None, name: str, startup_pid: int) -> None:
        """``primary``, ``standby``: libpq connection strings; ``name``: the standby's application_name."""
        self._conninfos = (primary, standby)
        self._name = name
        self._pid = startup_pid
        self._samples: list[StreamSample] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="walproof-stream", daemon=True)
        self.failure: str | None = None
        """What ended sampling early."""

    def __enter__(self) -> StreamSampler:
        primary, standby = self._conninfos
        self._primary = connect(primary)
        try:
            self._standby = None if standby is None else connect(standby)
            self._look()
        except BaseException:
            self._close()
            raise
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
        self._close()

    @property
    def samples(self) -> Sequence[StreamSample]:
        """Those so far, in order of time."""
        return tuple(self._samples)

    @property
    def last(self) -> StreamSample:
        """The newest."""
        return self._samples[-1]

    def _close(self) -> None:
        self._primary.close()
        standby: psycopg.Connection[TupleRow] | None = getattr(self, "_standby", None)
        if standby is not None:
            standby.close()

    def _sample(self) -> None:
        tick, begun = 1, time.monotonic()
        while not self._stopping.wait(max(0.0, begun + tick / STREAM_HZ - time.monotonic())):
            try:
                self._look()
            except ProbeError as error:
                self.failure = error.message
                return
            tick = max(tick + 1, int((time.monotonic() - begun) * STREAM_HZ) + 1)

    def _look(self) -> None:
        try:
            own = None if self._standby is None else self._standby.execute(_REPLAYED.encode()).fetchone()
            row = self._primary.execute(_POSITIONS.encode(), [self._name]).fetchone()
        except psycopg.Error as error:
            raise ProbeError(f"could not observe the stream: {one_line(error)}") from error
        at_s = time.monotonic()
        startup = read_startup(self._pid)
        if row is None or None in row[:5]:
            raise ProbeError("the standby does not stream any more")
        if startup is None:
            raise ProbeError("the startup process is gone")
        reported = int(row[5] or 0)
        replayed = max(reported, int(own[0])) if own is not None and own[0] is not None else reported
        inserted, flushed, sent, written, flushed_there = (int(one) for one in row[:5])
        self._samples.append(
            StreamSample(at_s, inserted, flushed, sent, written, flushed_there, replayed, startup)
        )


def replay_lag_s(samples: Sequence[StreamSample], index: int) -> float:
    """Age of what that sample has replayed: how long ago the primary was seen to have written more than that.

    To the time between two looks; 0 where all is replayed.
    """
    now = samples[index]
    passed_at_s = now.at_s
    for earlier in reversed(samples[: index + 1]):
        if earlier.inserted <= now.replayed:
            break
        passed_at_s = earlier.at_s
    return now.at_s - passed_at_s
