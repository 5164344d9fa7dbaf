"""Watched servers as metrics for Prometheus (its documentation, "Metric and label naming").

The table `METRICS` is all there is: docs, alert rules and the dashboard are tested against it. What is not
known has no sample, so neither have figures of a server that does not answer; an alert on it is ``absent()``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from walproof.advise.watch.concern import Severity
from walproof.facts.watch import StreamPhase
from walproof.report.watch.view import ServerView, known_lag_s, splits

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric

Sample = tuple[tuple[str, ...], float | None]
"""Values of the labels after ``server``, and the figure."""


@dataclass(frozen=True, slots=True)
class WatchMetric:
    """A row of the table."""

    name: str
    """The name as it is scraped; a counter ends with ``_total``."""
    about: str
    samples: Callable[[ServerView], Iterable[Sample]]
    labels: tuple[str, ...] = ()
    is_own: bool = False
    """Whether walproof knows it by itself, so that it is told while the server does not answer, too."""

    @property
    def is_counter(self) -> bool:
        """Whether it only grows."""
        return self.name.endswith("_total")


def _one(figure: Callable[[ServerView], float | None]) -> Callable[[ServerView], Iterable[Sample]]:
    return lambda view: [((), figure(view))]


def _is_live(view: ServerView) -> float | None:
    """None where nobody streams: from a standby, or where it is turned off."""
    is_standby = view.seen.look is not None and view.seen.look.is_in_recovery
    if is_standby or view.stream.phase is StreamPhase.OFF:
        return None
    return float(view.stream.phase is StreamPhase.LIVE)


def _up(view: ServerView) -> float:
    return float(view.seen.no_answer is None)


def _lags(view: ServerView) -> Iterator[Sample]:
    for name, split in splits(view).items():
        yield (name,), known_lag_s(view, name, split)


def _catch_ups(view: ServerView) -> Iterator[Sample]:
    for name, split in splits(view).items():
        yield (name,), split.catch_up_s


def _stages(view: ServerView) -> Iterator[Sample]:
    for name, split in splits(view).items():
        for stage in split.stages:
            yield (name, stage.stage.value.replace(" ", "_")), float(stage.lag_bytes)


def _slots(view: ServerView) -> Iterator[Sample]:
    if view.seen.look is not None:
        for slot in view.seen.look.slots:
            held_bytes = None if slot.held_from is None else view.seen.look.since(slot.held_from)
            if held_bytes is not None:
                yield (slot.name,), float(max(0, held_bytes))


def _active_slots(view: ServerView) -> Iterator[Sample]:
    if view.seen.look is not None:
        for slot in view.seen.look.slots:
            if not slot.is_synced:
                yield (slot.name,), float(slot.is_active)


def _logical(view: ServerView) -> Iterator[Sample]:
    for state in view.seen.logical:
        yield (state.slot.name,), float(state.behind_bytes)


def _causes(view: ServerView) -> Iterator[Sample]:
    for name, totals in {} if view.causes is None else view.causes.totals.items():
        yield (name, "records"), float(totals.record_bytes)
        yield (name, "images"), float(totals.image_bytes)


def _concerns(view: ServerView) -> Iterator[Sample]:
    for severity in Severity:
        yield (severity.name.lower(),), float(sum(concern.severity is severity for concern in view.concerns))


def _concern(view: ServerView) -> Iterator[Sample]:
    worst: dict[str, Severity] = {}
    for concern in view.concerns:
        worst[concern.key] = max(concern.severity, worst.get(concern.key, concern.severity))
    for key, severity in worst.items():
        yield (key, severity.name.lower()), 1.0


METRICS: tuple[WatchMetric, ...] = (
    WatchMetric("walproof_up", "Whether the server answers.", _one(_up), is_own=True),
    WatchMetric(
        "walproof_last_look_timestamp_seconds",
        "When the server answered last; absent until it has.",
        _one(lambda view: view.seen.seen_at),
        is_own=True,
    ),
    WatchMetric(
        "walproof_stream_live",
        "Whether WAL is streamed up to the end, so that the crash clock is known; not of a standby, nor "
        "where the stream is turned off.",
        _one(_is_live),
        is_own=True,
    ),
    WatchMetric(
        "walproof_stream_received_bytes_total",
        "WAL streamed from the server since watching began.",
        _one(lambda view: float(view.stream.received_bytes)),
        is_own=True,
    ),
    WatchMetric(
        "walproof_crash_recovery_seconds",
        "Forecast: how long crash recovery would take now; warm with the sync of the data directory.",
        lambda view: [] if view.clock is None else [
            (("warm",), view.clock.warm.seconds), (("cold",), view.clock.cold.seconds),
        ],
        ("cache",),
    ),
    WatchMetric(
        "walproof_crash_recovery_high_seconds",
        "Upper end of the range that holds 9 of 10 recoveries.",
        lambda view: [] if view.clock is None else [
            (("warm",), view.clock.warm.high), (("cold",), view.clock.cold.high),
        ],
        ("cache",),
    ),
    WatchMetric(
        "walproof_crash_sync_seconds",
        "Part of the forecast: the sync of the data directory before redo; absent where not known.",
        _one(lambda view: None if view.clock is None or view.clock.sync is None
             else view.clock.sync.span.seconds),
    ),
    WatchMetric(
        "walproof_crash_recovery_target_seconds",
        "Longest acceptable crash recovery (--recovery-target).",
        _one(lambda view: view.target_s),
        is_own=True,
    ),
    WatchMetric(
        "walproof_redo_distance_bytes",
        "WAL from the last redo point to the end: what crash recovery reads.",
        _one(lambda view: None if view.seen.checkpoint is None else view.seen.checkpoint.distance_bytes),
    ),
    WatchMetric(
        "walproof_next_checkpoint_seconds",
        "Time until the next checkpoint begins, by time or by WAL.",
        _one(lambda view: None if view.seen.checkpoint is None else view.seen.checkpoint.next_s),
    ),
    WatchMetric(
        "walproof_wal_bytes_total",
        "WAL by resource manager, page images apart, streamed since watching began; each byte once.",
        _causes,
        ("cause", "part"),
        is_own=True,
    ),
    WatchMetric(
        "walproof_wal_written_bytes_total",
        "WAL that the server has written since watching began; a failover adds nothing.",
        _one(lambda view: view.seen.written_bytes if view.seen.look and view.seen.look.lsn else None),
        is_own=True,
    ),
    WatchMetric(
        "walproof_wal_position_bytes",
        "Position in the WAL up to which the server has written; it may go back at a failover.",
        _one(lambda view: None if view.seen.look is None else view.seen.look.lsn),
    ),
    WatchMetric(
        "walproof_pg_wal_bytes",
        "Size of the files in pg_wal.",
        _one(lambda view: None if view.seen.disk is None else view.seen.disk.pg_wal_bytes),
    ),
    WatchMetric(
        "walproof_pg_wal_room_bytes",
        "Room for pg_wal (--wal-disk).",
        _one(lambda view: None if view.seen.disk is None else view.seen.disk.room_bytes),
    ),
    WatchMetric(
        "walproof_pg_wal_full_seconds",
        "Time until pg_wal fills its room at present rates; absent while it does not fill.",
        _one(lambda view: None if view.seen.disk is None else view.seen.disk.full_s),
    ),
    WatchMetric(
        "walproof_wal_held_bytes",
        "WAL that somebody needs: checkpoint, slot, archiver or wal_keep_size.",
        lambda view: [] if view.seen.disk is None else [
            ((holder.kind.value, holder.name), float(holder.held_bytes))
            for holder in view.seen.disk.holders
        ],
        ("holder", "name"),
    ),
    WatchMetric("walproof_slot_held_bytes", "WAL that a replication slot holds.", _slots, ("slot",)),
    WatchMetric(
        "walproof_slot_active",
        "Whether a slot is used; absent for one that a standby keeps in step with the primary.",
        _active_slots,
        ("slot",),
    ),
    WatchMetric(
        "walproof_logical_behind_bytes",
        "WAL that the consumer of a logical slot has not confirmed.",
        _logical,
        ("slot",),
    ),
    WatchMetric(
        "walproof_archive_waiting_segments",
        "Segments that wait for the archiver.",
        _one(lambda view: None if view.seen.archive is None else view.seen.archive.waiting),
    ),
    WatchMetric(
        "walproof_archived_segments_total",
        "Segments that were archived.",
        _one(lambda view: None if view.seen.look is None or view.seen.look.archiver is None
             else float(view.seen.look.archiver.archived)),
    ),
    WatchMetric(
        "walproof_archive_failures_total",
        "Calls of the archiver that failed.",
        _one(lambda view: None if view.seen.look is None or view.seen.look.archiver is None
             else float(view.seen.look.archiver.failed)),
    ),
    WatchMetric(
        "walproof_archive_behind_since_timestamp_seconds",
        "When the backlog of the archive began; absent where there is none.",
        _one(lambda view: None if view.seen.archive is None else view.seen.archive.since),
    ),
    WatchMetric(
        "walproof_standby_lag_seconds",
        "Age of what a standby has replayed. Where it was behind before watching began, the least that it "
        "can be, and absent until that says something.",
        _lags,
        ("standby",),
    ),
    WatchMetric(
        "walproof_standby_lag_bytes",
        "WAL that a standby has not replayed, by stage.",
        _stages,
        ("standby", "stage"),
    ),
    WatchMetric(
        "walproof_standby_catch_up_seconds",
        "Time until a standby has replayed all WAL at present rates; absent unless it catches up.",
        _catch_ups,
        ("standby",),
    ),
    WatchMetric("walproof_concerns", "Concerns by severity.", _concerns, ("severity",), is_own=True),
    WatchMetric(
        "walproof_concern",
        "1 for each concern: what it is about.",
        _concern,
        ("concern", "severity"),
        is_own=True,
    ),
)  # fmt: skip


def registry(views: Callable[[], Sequence[ServerView]]) -> CollectorRegistry:
    """A registry that collects what ``views`` returns when it is scraped."""
    from prometheus_client import CollectorRegistry
    from prometheus_client.registry import Collector

    class Watched(Collector):
        """The servers at the moment of a scrape."""

        def collect(self) -> Iterator[Metric]:
            yield from families(views())

    found = CollectorRegistry()
    found.register(Watched())
    return found


def families(views: Sequence[ServerView]) -> Iterator[Metric]:
    """The metrics of all servers."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    for row in METRICS:
        labels = ("server", *row.labels)
        family: CounterMetricFamily | GaugeMetricFamily
        if row.is_counter:
            family = CounterMetricFamily(row.name.removesuffix("_total"), row.about, labels=labels)
        else:
            family = GaugeMetricFamily(row.name, row.about, labels=labels)
        for view in views:
            if view.seen.no_answer is not None and not row.is_own:
                # The other figures are those of the last look: a scrape would take them for today's.
                continue
            for values, figure in row.samples(view):
                if figure is not None:
                    family.add_metric((view.name, *values), float(figure))
        yield family
