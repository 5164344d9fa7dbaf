"""What a server's own counts say about its checkpoints: how many were requested, and whether max_wal_size can
be what requests them now."""

from __future__ import annotations

from walproof.advise.server.case import ServerCase
from walproof.sentences import say_percent

REQUESTED_SHARE = 0.1
"""The share of checkpoints that WAL forces above which max_wal_size decides."""
TELLS_SKIPPED = 18
"""The version from which on the server counts which checkpoints were done (num_done)."""
_OWN_VIEW = 17
"""The version from which on checkpoints are counted in pg_stat_checkpointer."""
LEAST_CHECKPOINTS = 10
"""With fewer checkpoints a share says nothing."""
_SINCE_RESET = "since statistics were reset"


def crowded(case: ServerCase) -> str | None:
    """That many checkpoints were requested; None where few were, where nobody knows, or where the window's
    WAL is so little that the present max_wal_size cannot be what requests them."""
    share, count = requested_share(case)
    if share is None or share <= REQUESTED_SHARE or timeout_decides(case):
        return None
    _, _, is_of_window = checkpoints(case)
    size = case.window.value("max_wal_size")
    sized = (
        f"max_wal_size = {size}" if is_of_window else f"max_wal_size (now {size}; it may have been another)"
    )
    return (
        f"{say_requested(case, share, count)} {'in the window' if is_of_window else _SINCE_RESET}: by "
        f"{sized}, or by CHECKPOINT and base backups. Each begins a new round of full-page images."
    )


def checkpoints(case: ServerCase) -> tuple[float | None, float | None, bool]:
    """(Timed checkpoints, requested ones, whether they are the window's own): those since statistics were
    reset where the window has too few, which may have begun under other settings."""
    window = case.window
    timed, requested = window.grown("checkpoints_timed"), window.grown("checkpoints_requested")
    if timed is not None and requested is not None and timed + requested >= LEAST_CHECKPOINTS:
        return timed, requested, True
    return window.total("checkpoints_timed"), window.total("checkpoints_requested"), False


def requested_share(case: ServerCase) -> tuple[float | None, float | None]:
    """The share of requested checkpoints, None where they are too few, and the number of all checkpoints.
    Before 18 it is the least share: those that an idle server skipped count as timed."""
    timed, requested, _ = checkpoints(case)
    if timed is None or requested is None:
        return None, None
    count = timed + requested
    return (None if count < LEAST_CHECKPOINTS else requested / count), count


def say_requested(case: ServerCase, share: float, count: float | None) -> str:
    """The share as the beginning of a sentence."""
    least = "" if case.major >= TELLS_SKIPPED else "at least "
    words = f"{least}{say_percent(share)} of {count:.0f} checkpoints were requested"
    return words[0].upper() + words[1:]


def timeout_decides(case: ServerCase) -> bool | None:
    """Whether the window's WAL of one checkpoint_timeout is less than what requests a checkpoint; None where
    nothing says so."""
    size, timeout = case.window.base("max_wal_size"), case.window.base("checkpoint_timeout")
    rate, completion = case.wal_per_hour, case.window.base("checkpoint_completion_target")
    if not case.writes or size is None or timeout is None or rate is None or completion is None:
        return None
    return rate * timeout / 3600 * (1 + completion) < int(size) << 20


def count_afresh(case: ServerCase) -> str:
    """As a comment: others may watch these figures."""
    view = "checkpointer" if case.major >= _OWN_VIEW else "bgwriter"
    return f"-- so that the next look counts afresh, once it is set: SELECT pg_stat_reset_shared('{view}');"
