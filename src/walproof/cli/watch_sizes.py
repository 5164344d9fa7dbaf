"""The what-if curve of a watched server: simulated while its WAL comes, asked now and then."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import replace

from walproof.advise.watch.sizes import size_curve
from walproof.analysis.server_limits import ServerLimits, WalKeepers
from walproof.analysis.watch.away import TimesAway
from walproof.analysis.whatif import Question
from walproof.errors import SettingError
from walproof.facts.watch import CrashClock
from walproof.facts.watch_sizes import SizeCurve
from walproof.observe.feed import FeedBeginning
from walproof.wal.rolling import SPAN_S, RollingWhatIf
from walproof.wal.whatif_target import SETTINGS, target_of

_ASK_S_LEAST, _ASK_S_MOST = 20.0, 300.0
_ASK_SHARE = 20.0
"""Asked again when a twentieth of what it covers has passed."""
NAMES = tuple(name for name in SETTINGS if name != "wal_compression")
"""Images are compressed as they were, whatever the setting says."""


class WatchedSizes:
    """Simulations of one server; they outlive streams, so that a cut of the network costs a gap alone."""

    def __init__(self, recovery_s: float | None, wal_disk_bytes: int | None) -> None:
        self._limits = ServerLimits(wal_disk_bytes, None, recovery_s)
        self._rolling: RollingWhatIf | None = None
        self._question: Question | None = None
        self._begun: FeedBeginning | None = None
        self._settings: dict[str, str] = {}
        self._times = TimesAway(SPAN_S)
        self._curve: SizeCurve | None = None
        self._due_s = 0.0
        self._lock = threading.Lock()

    def begin(self, beginning: FeedBeginning) -> RollingWhatIf | None:
        """What a stream feeds from now on: what it fed before, where it is the same server's WAL."""
        with self._lock:
            before = self._begun
            self._begun = beginning
            is_other = (
                before is None
                or before.system_identifier != beginning.system_identifier
                or before.segment_bytes != beginning.segment_bytes
                or before.version_num // 10000 != beginning.version_num // 10000
                or (self._rolling is not None and self._rolling.timeline != beginning.timeline)
            )
            if is_other or self._is_changed(beginning.settings):
                self._begin_anew(beginning.settings)
            return self._rolling

    def now(
        self,
        settings: Mapping[str, str] | None,
        clock: CrashClock | None,
        keepers: WalKeepers | None = None,
    ) -> SizeCurve | None:
        """The newest curve. ``settings``: as the server shows them now; ``keepers``: who keeps WAL
        there. Both are None where it does not answer."""
        with self._lock:
            if keepers is not None:
                self._limits = replace(self._limits, keepers=keepers)
            return self._now(time.monotonic(), settings, clock)

    def _now(
        self, now_s: float, settings: Mapping[str, str] | None, clock: CrashClock | None
    ) -> SizeCurve | None:
        if clock is not None and not clock.is_recomputing:
            sync_s = 0.0 if clock.sync is None else clock.sync.span.seconds
            self._times.see(now_s, clock.distance_bytes, clock.warm.seconds, sync_s)
        if settings is not None and self._begun is not None and self._is_changed(settings):
            self._begin_anew({**self._settings, **settings})
        rolling, question = self._rolling, self._question
        if rolling is None or question is None or now_s < self._due_s:
            return self._curve
        found = rolling.answer()
        if found is not None:
            away = self._times.curve()
            self._curve = size_curve(
                found, question, self._limits, None if away is None else away.seconds, rolling.memory_bytes
            )
        elif rolling.is_overfull:
            self._curve = None
        covered_s = 0.0 if self._curve is None else self._curve.until - self._curve.since
        self._due_s = now_s + min(_ASK_S_MOST, max(_ASK_S_LEAST, covered_s / _ASK_SHARE))
        return self._curve

    @property
    def rolling(self) -> RollingWhatIf | None:
        """What is to be fed now; another one when settings were changed."""
        return self._rolling

    @property
    def notes(self) -> tuple[str, ...]:
        """Why there will be no curve."""
        rolling = self._rolling
        if rolling is None or not rolling.is_overfull:
            return ()
        return ("The server writes to so many relations that other sizes of max_wal_size are not simulated.",)

    def _is_changed(self, settings: Mapping[str, str]) -> bool:
        return any(settings[name] != self._settings.get(name) for name in NAMES if name in settings)

    def _begin_anew(self, settings: Mapping[str, str]) -> None:
        """What was simulated was another server's, or with other settings."""
        begun = self._begun
        assert begun is not None
        self._settings = {name: settings[name] for name in NAMES if name in settings}
        self._curve, self._rolling, self._question = None, None, None
        self._due_s = 0.0
        try:
            present = target_of(begun.version_num // 10000, begun.segment_bytes, [self._settings])
        except SettingError:
            # A value that this version of walproof does not know: the rest of the page goes on.
            return
        self._question = Question(present, True, with_others=False, segment_bytes=begun.segment_bytes)
        self._rolling = RollingWhatIf(
            begun.system_identifier, begun.segment_bytes, begun.timeline, self._question.targets()
        )
