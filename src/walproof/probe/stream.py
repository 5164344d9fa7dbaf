"""Looks many times a second at how far the WAL of a pair is: not flushed, sent, written, flushed there,
replayed.

    primary   inserted --generation--> flushed --network--> sent
    standby                                       --write--> written --flush--> flushed --replay--> replayed

Positions on the way are those that the primary knows (pg_stat_replication). How far it has replayed, the
standby is asked itself if it takes connections, because the primary learns of that only from the standby's
messages. The standby is asked first, so that no stage is below zero. If it is on another host, its answer is
as old as its way here, so replay seems to lag by what is generated meanwhile."""

from __future__ import annotations

import itertools
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import psycopg

from walproof.errors import HostError, ProbeError, one_line
from walproof.facts.replication import StartupProcess
from walproof.probe.connection import connect
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
    """Monotonic clock at the primary's answer."""
    inserted: int
    flushed: int
    sent: int
    written: int
    flushed_there: int
    replayed: int
    startup: StartupProcess

    @property
    def stages(self) -> tuple[int, ...]:
        """Bytes that are in each of STAGES."""
        positions = (
            self.inserted, self.flushed, self.sent, self.written, self.flushed_there, self.replayed,
        )  # fmt: skip
        return tuple(max(0, ahead - behind) for ahead, behind in itertools.pairwise(positions))

    @property
    def lag_bytes(self) -> int:
        """Everything that is not replayed yet."""
        return max(0, self.inserted - self.replayed)


@dataclass(frozen=True, slots=True)
class StandbyLook:
    """What only the standby itself shows."""

    replayed: int | None
    """Bytes since the beginning of WAL; None if it takes no connections."""
    startup: StartupProcess


class StandbyEye:
    """Looks at a standby on its own machine: at its startup process in /proc, and through a session."""

    def __init__(self, conninfo: str | None, startup_pid: int) -> None:
        """``conninfo``: None if it takes no connections. Raises ProbeError."""
        self._pid = startup_pid
        self._session = None if conninfo is None else connect(conninfo)

    def look(self) -> StandbyLook:
        """Raises ProbeError when there is nothing left to see."""
        try:
            row = None if self._session is None else self._session.execute(_REPLAYED.encode()).fetchone()
        except psycopg.Error as error:
            raise ProbeError(f"could not observe the stream: {one_line(error)}") from error
        startup = read_startup(self._pid)
        if startup is None:
            raise ProbeError("the startup process is gone")
        return StandbyLook(int(row[0]) if row is not None and row[0] is not None else None, startup)

    def close(self) -> None:
        """End the session."""
        if self._session is not None:
            self._session.close()


class StreamSampler:
    """Context manager: looks STREAM_HZ times a second, in a thread, while its block lasts.

    Raises ProbeError when the first look fails.
    """

    def __init__(self, primary: str, name: str, look: Callable[[], StandbyLook]) -> None:
        """``primary``: a libpq connection string; ``name``: the standby's application_name; ``look``: looks
        at the standby, and raises ProbeError."""
        self._conninfo = primary
        self._name = name
        self._look_at_standby = look
        self._samples: list[StreamSample] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="walproof-stream", daemon=True)
        self.failure: str | None = None
        """What ended sampling early."""

    def __enter__(self) -> StreamSampler:
        self._primary = connect(self._conninfo)
        try:
            self._look()
        except BaseException:
            self._primary.close()
            raise
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
        self._primary.close()

    @property
    def samples(self) -> Sequence[StreamSample]:
        """The samples so far, in order of time."""
        return tuple(self._samples)

    @property
    def last(self) -> StreamSample:
        """The newest."""
        return self._samples[-1]

    def _sample(self) -> None:
        tick, begun = 1, time.monotonic()
        while not self._stopping.wait(max(0.0, begun + tick / STREAM_HZ - time.monotonic())):
            try:
                self._look()
            except (ProbeError, HostError) as error:
                self.failure = error.message
                return
            tick = max(tick + 1, int((time.monotonic() - begun) * STREAM_HZ) + 1)

    def _look(self) -> None:
        seen = self._look_at_standby()
        try:
            row = self._primary.execute(_POSITIONS.encode(), [self._name]).fetchone()
        except psycopg.Error as error:
            raise ProbeError(f"could not observe the stream: {one_line(error)}") from error
        at_s = time.monotonic()
        if row is None or None in row[:5]:
            raise ProbeError("the standby no longer streams")
        replayed = max(int(row[5] or 0), seen.replayed or 0)
        inserted, flushed, sent, written, flushed_there = (int(value) for value in row[:5])
        self._samples.append(
            StreamSample(at_s, inserted, flushed, sent, written, flushed_there, replayed, seen.startup)
        )


def replay_lag_s(samples: Sequence[StreamSample], index: int) -> float:
    """Age of what that sample has replayed: how long ago the primary was seen to have written more than that.

    Exact up to the time between two looks; 0 if everything is replayed.
    """
    now = samples[index]
    # The position only grows. Who catches up for an hour has many samples to look through.
    passed = bisect_right(samples, now.replayed, hi=index, key=lambda sample: sample.inserted)
    return now.at_s - samples[passed].at_s
