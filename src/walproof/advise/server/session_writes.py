"""A rule about pages that sessions write themselves, while a query waits: the checkpointer and the background
writer are there for that."""

from __future__ import annotations

from walproof.advise.server.advice import Advice, Fine, Found, Sure, Unseen, Weight
from walproof.advise.server.case import ServerCase
from walproof.sentences import say_count, say_percent

_RULE = "writes of sessions"
_COUNTS_EVICTIONS = 17
"""The version from which on a session's writes are of pages that it had to evict; before, new pages of tables
that grow and the pages of COPY are among them, and their share says nothing."""
LEAST_PAGES = 10_000
MOST_SHARE = 0.5
_DEFAULT_BUFFERS = 16384
"""128 MB in pages, the default of shared_buffers."""


def session_writes(case: ServerCase) -> Found | None:
    """Pages that sessions flush for want of room among the checkpointer's requests, and dirty pages that they
    evict for want of buffers."""
    window = case.window
    if window.is_in_recovery:
        return None
    pages, fsyncs = window.grown("backend_buffers"), window.grown("backend_fsyncs")
    by_checkpoints = window.grown("checkpoint_buffers")
    if pages is None or fsyncs is None or by_checkpoints is None:
        return Unseen(_RULE, "what sessions write is not known")
    if fsyncs > 0:
        return _advice(
            case,
            f"Sessions flushed data files themselves, {say_count(fsyncs, 'time')} in the window: the "
            "checkpointer's queue of such requests, no longer than shared_buffers has pages, was full.",
        )
    if case.major < _COUNTS_EVICTIONS:
        return Fine(_RULE, "No session had to flush a data file.")
    written = pages + by_checkpoints
    buffers = window.base("shared_buffers")
    is_much = written >= LEAST_PAGES and pages > MOST_SHARE * written
    if is_much and buffers is not None and buffers <= _DEFAULT_BUFFERS:
        return _advice(
            case,
            f"Sessions wrote {pages:,.0f} pages to make room for others, and checkpoints "
            f"{by_checkpoints:,.0f}. The WAL of such a page is flushed first, while a query waits.",
        )
    share = f", and they wrote {say_percent(pages / written)} of the pages" if written else ""
    return Fine(_RULE, f"No session had to flush a data file{share}.")


def _advice(case: ServerCase, evidence: str) -> Advice:
    return Advice(
        _RULE,
        Weight.GAIN,
        "Give shared_buffers more memory",
        (f"{evidence} shared_buffers is {case.window.value('shared_buffers') or 'not known'}.",),
        steps=("-- shared_buffers: the manual begins with a quarter of the machine's memory",),
        costs=("A restart, and memory that the system's cache no longer has.",),
        sure=Sure.MEDIUM,
        unknown=("how much memory the server's machine has",),
    )
