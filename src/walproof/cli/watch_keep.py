"""``--history``: what is shown is kept, too."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import replace

import walproof
from walproof.cli.watch_order import HistoryOrder
from walproof.facts.replication import ReplicationWindow
from walproof.facts.watch import SaidConcern, WatchLook, WatchRecord
from walproof.facts.watch_recorder import HistoryRecorder
from walproof.report.watch.view import ServerView

_TRAIL_MOST = 60


class Keeper:
    """Context manager: keeps every view it is given. Raises StoreError when the file cannot be created."""

    def __init__(self, order: HistoryOrder, every_s: float, *, says: bool) -> None:
        """``says``: a problem is reported on stderr, too, when it begins."""
        self._path = order.path
        self._recorder = HistoryRecorder(order.path, order.limits, every_s, walproof.__version__)
        self._says = says
        self._is_said = False
        self._kept: dict[str, WatchLook] = {}

    def __enter__(self) -> Keeper:
        return self

    def __exit__(self, *details: object) -> None:
        self._recorder.__exit__(*details)
        self._tell()

    def keep(self, views: Sequence[ServerView]) -> list[ServerView]:
        """The views, with a note if they could not be kept."""
        at = time.time()
        self._recorder.add(
            [
                (view.name, watch_record(view, at, self._recorder.session))
                for view in views
                if self._is_new(view)
            ]
        )
        note = self._tell()
        return [view if note is None else replace(view, notes=(*view.notes, note)) for view in views]

    def _tell(self) -> str | None:
        """What is said while nothing can be written; on stderr when that begins."""
        problem = self._recorder.problem
        if problem is None:
            self._is_said = False
            return None
        note = f'The history "{self._path}" cannot be written at present: {problem}.'
        if self._says and not self._is_said:
            sys.stderr.write(f"warning: {note}\n")
        self._is_said = True
        return note

    def _is_new(self, view: ServerView) -> bool:
        """A look that was shown before is kept once."""
        look = view.seen.look
        if view.seen.no_answer is not None or look is None:
            return True
        is_new = self._kept.get(view.name) is not look
        self._kept[view.name] = look
        return is_new


def watch_record(view: ServerView, at: float, session: int) -> WatchRecord:
    """What a history keeps of a view."""
    seen = view.seen.no_answer or view.seen.look
    assert seen is not None
    return WatchRecord(
        at=at,
        session=session,
        seen=seen,
        stream=view.stream,
        clock=view.clock,
        causes=view.causes,
        windows=tuple(_slim(window) for window in view.windows),
        pair_names=tuple(view.pairs),
        concerns=tuple(
            SaidConcern(concern.key, int(concern.severity), concern.sentence, concern.since)
            for concern in view.concerns
        ),
        notes=view.notes,
        target_s=view.target_s,
        room_bytes=view.room_bytes,
        walsenders={state.standby.pid: state.name for state in view.seen.standbys},
        promoted=dict(view.promoted),
        primaries=view.seen.primaries,
    )


def _slim(window: ReplicationWindow) -> ReplicationWindow:
    """Ages are read from a trail: nobody asks about what was replayed long ago."""
    replayed = min(window.first.standby.replayed, window.last.standby.replayed)
    trail = window.trail
    begin = max((place for place, (_, lsn) in enumerate(trail) if lsn <= replayed), default=0)
    wanted = trail[begin:]
    step = max(1, -(-len(wanted) // _TRAIL_MOST))
    kept = wanted[:-1:step] + wanted[-1:]
    return replace(window, trail=kept)
