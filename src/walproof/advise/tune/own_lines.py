"""The user's own lines that an answer does not have: which of them may stay on their server beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from walproof.advise.tune.shown_by import OF_DISTANCE, ShownBy, shown_by
from walproof.facts.tuning import Candidate, Judge, Limit, RuledOut

_TOO_LARGE = "larger than this machine can try, and left as it is on your server"
_NOT_SHOWN = (
    "it acts at checkpoints, where windows do not show what it saves; your own line keeps the promises, and "
    "is left as it is on your server"
)


def lines_left(
    own: Mapping[str, str],
    keep: Mapping[str, str],
    conf: Candidate,
    judge: Judge,
    is_too_large: Callable[[str, str], bool],
    margin: float,
) -> dict[str, str]:
    """The user's own lines that the answer does not have and that stay as they are, each with the reason.

    Those may stay that this machine cannot try, and those that act at checkpoints. What stays is judged
    together, since two lines that each keep a promise may break it side by side: a line that would break one,
    or write more WAL, is not among them. ``own``: name -> value; ``keep``: what every configuration has;
    ``conf``: what is advised; ``judge``: at the speed of that; ``margin``: the largest share by which WAL may
    be more. Raises WalError, SettingError.
    """
    may_stay: dict[str, str] = {}
    for name, value in own.items():
        # What --keep says counts: the lines have that value, not the user's own.
        if name in conf.conf or name in keep:
            continue
        if is_too_large(name, value):
            may_stay[name] = _TOO_LARGE
        elif shown_by(name) is not ShownBy.WINDOWS:
            may_stay[name] = _NOT_SHOWN
    if not may_stay:
        return {}
    without = judge(conf)[0].wal_bytes_per_txn

    def fit(names: Iterable[str]) -> bool:
        predicted, broken = judge(Candidate.of({**conf.conf, **{name: own[name] for name in names}}))
        wal = predicted.wal_bytes_per_txn
        writes_more = wal is not None and without is not None and wal > (1 + margin) * without
        # What this machine has no memory for may fit on the user's.
        return not writes_more and all(each.limit is Limit.MEMORY for each in broken)

    if fit(may_stay):
        return may_stay
    left: dict[str, str] = {}
    # Of two that only together break a promise, one about the distance of checkpoints goes.
    for name in sorted(may_stay, key=lambda name: name in OF_DISTANCE):
        if fit([*left, name]):
            left[name] = may_stay[name]
    return left


def broken_as_pasted(
    own: Mapping[str, str],
    changes: Mapping[str, str],
    conf: Candidate,
    judge: Judge,
    *,
    is_memory_promised: bool,
) -> tuple[RuledOut, ...]:
    """Promises that the user's server would break after the changes, and that the answer itself keeps.

    A platform may refuse some of the lines, whose settings then stay as the user's server has them. ``own``:
    those of the user's conf; ``changes``: the lines that the platform takes; ``conf``: what is advised;
    ``is_memory_promised``: whether the user named a limit of memory. Without one what this machine has no
    memory for may fit on the user's. Raises WalError.
    """
    if not changes:
        return ()
    known = {each.limit for each in judge(conf)[1]}
    if not is_memory_promised:
        known.add(Limit.MEMORY)
    _, broken = judge(Candidate.of({**own, **changes}))
    return tuple(each for each in broken if each.limit not in known)
