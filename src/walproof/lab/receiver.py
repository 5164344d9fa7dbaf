"""Receives WAL in a thread: from the stream into segments, and reports back what has reached the disk.

Only what is flushed here may be recycled there. The thread holds one message at a time; while
the disk is slow the network's buffers fill, and the server keeps the rest.
"""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Callable

from walproof.errors import ProbeError, WalError
from walproof.lab.segments import SegmentFolder
from walproof.probe.bursts import BurstStream
from walproof.probe.replication import Keepalive, StreamEnd
from walproof.units import Lsn

DISK = "disk"
"""Why a capture ended when there was no room."""
_WAIT_S = 0.2
_STATUS_S = 1.0
_FLUSH_S = 10.0
"""The longest time that something written is not on disk, however little it is."""


class SegmentReceiver:
    """Context manager: receives from a stream that was started at the segments' start."""

    def __init__(
        self,
        stream: BurstStream,
        segments: SegmentFolder,
        silence_s: float,
        at_silence: Callable[[], None],
    ) -> None:
        """``silence_s``: how long the server may say nothing, though it was asked to.

        ``at_silence`` is then called in the receiver's thread.
        """
        self._at_silence = at_silence
        self._stream = stream
        self._segments = segments
        self._silence_s = silence_s
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="walproof-receiver", daemon=True)
        self._fault: BaseException | None = None
        self._told_s = time.monotonic()
        self._longest_s = 0.0
        self.ended: str | None = None
        """Why it ended by itself, as a sentence or as `DISK`."""
        self.over = threading.Event()
        """Set when it no longer receives."""

    @property
    def position(self) -> Lsn:
        """End of what has been written to the folder."""
        return Lsn(self._segments.written)

    @property
    def flushed(self) -> Lsn:
        """End of what is on disk."""
        return Lsn(self._segments.flushed)

    def wait_for(self, lsn: Lsn, patience_s: float) -> None:
        """Return when WAL up to ``lsn`` has arrived, or no longer comes."""
        deadline = time.monotonic() + patience_s
        while self.position < lsn and not self.over.wait(0.02) and time.monotonic() < deadline:
            pass

    def stop(self) -> None:
        """End; what was received is on disk when this returns."""
        self._stopping.set()
        self._thread.join()
        if self._fault is not None:
            raise self._fault

    def __enter__(self) -> SegmentReceiver:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            try:
                self._receive()
            finally:
                self._segments.flush()
            self._confirm(wants_reply=False)
        except OSError as error:
            is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            self.ended = DISK if is_full else f"could not write the WAL that arrived: {error.strerror}"
        except WalError as error:
            self.ended = f"could not strip the WAL that arrived: {error.message}"
        except ProbeError as error:
            self.ended = self.ended or error.message
            longest_s = max(self._longest_s, time.monotonic() - self._told_s)
            if longest_s >= self._silence_s:
                self.ended = (
                    f"walproof did not answer for {longest_s:.0f} s, stopped or waiting for its disk: "
                    f"{self.ended}"
                )
        except BaseException as fault:  # ours: raised again by stop()
            self._fault = fault
            self.ended = "walproof failed"
        finally:
            self.over.set()

    def _receive(self) -> None:
        # The first status releases what is older than the start, which nobody here wants.
        self._confirm(wants_reply=False)
        heard_s = flushed_s = time.monotonic()
        asks = False
        while not self._stopping.is_set():
            message = self._stream.receive(_WAIT_S)
            now = time.monotonic()
            untold_s = now - self._told_s
            self._longest_s = max(self._longest_s, untold_s)
            is_due = untold_s >= _STATUS_S
            if untold_s >= self._silence_s:
                # It was walproof that stood still, so what the server said meanwhile is read first.
                heard_s = now
            if message is None:
                if now - heard_s >= self._silence_s:
                    self.ended = f"the server said nothing for {self._silence_s:g} s"
                    self._at_silence()
                    return
                asks = now - heard_s >= self._silence_s / 2
            else:
                heard_s, asks = now, False
                if isinstance(message, Keepalive):
                    if message.wants_reply:
                        # A server that shuts down waits until all has been flushed.
                        self._segments.flush()
                        is_due = True
                elif message.start != (expected := Lsn(self._segments.received)):
                    raise StreamEnd(f"the server sent WAL of {Lsn(message.start)}, expected {expected}")
                else:
                    self._segments.write(message.data)
            if now - flushed_s >= _FLUSH_S:
                self._segments.flush()
                flushed_s = now
            if is_due:
                self._confirm(wants_reply=asks)

    def _confirm(self, *, wants_reply: bool) -> None:
        self._stream.confirm(self._segments.written, self._segments.flushed, wants_reply=wants_reply)
        self._told_s = time.monotonic()
