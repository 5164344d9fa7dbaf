"""A request to a run, in words."""

from __future__ import annotations

from walproof.facts import Request, RequestKind


def say_request(request: Request) -> str:
    """``stop: the run ends here``; ``3 more rounds: not heard yet``."""
    what = "stop"
    if request.kind is RequestKind.ROUNDS:
        what = "1 more round" if request.rounds == 1 else f"{request.rounds} more rounds"
    if request.answered_at is None:
        return f"{what}: not heard yet; runs listen between trials"
    return f"{what}: {request.words}" if request.is_granted else f"{what}: refused, {request.words}"
