"""Rules about storms: much WAL from one relation, by something that begins and ends."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from walproof.advise.watch.concern import SETTLED_S, Concern, Severity
from walproof.facts.wal_causes import WalCause, WalCauses
from walproof.sentences import say_percent
from walproof.units import format_bytes

_SHARE = 0.25
"""The share of all WAL that one kind of work on one relation has to write."""
_IMAGES_PER_KEY = 0.05
"""Keys in order fill a page with hundreds of records before they leave it, so one in hundreds has an image.
Random keys may touch another page each time, which causes up to one image per key in a large index. Images
that VACUUM or REINDEX write of an index tell nothing of its keys."""
_UPDATES_PER_RUN = 20.0
"""Short transactions that share a table take turns; one that updates many rows makes long runs, which short
ones interrupt."""
_UPDATES_PER_S = 100.0
LEAST_BYTES = 6_000_000.0
"""Of one relation within the newest part of the window."""


def storms(causes: WalCauses, at: float) -> Iterator[Concern]:
    """Storms that rage at ``at``, seconds of the epoch by the server's clock.

    Judged by the newest part of the window: the rest of it would hide a storm that follows a larger one, and
    name a burst for a minute after its end.
    """
    if causes.recent_s < SETTLED_S:
        return
    for cause in causes.recent:
        if cause.bytes_per_s * causes.recent_s < LEAST_BYTES:
            continue
        began = None if cause.begun_s is None else at - cause.begun_s
        is_random = cause.images_per_key >= _IMAGES_PER_KEY
        if cause.kind == "index" and cause.share * cause.key_image_share >= _SHARE and is_random:
            yield replace(_random_keys(cause), since=began)
        if cause.share * cause.freeze_share >= _SHARE:
            yield replace(_freezing(cause), since=began)
        is_bulk = cause.updates_per_run >= _UPDATES_PER_RUN and cause.updates_per_s >= _UPDATES_PER_S
        if cause.share * cause.update_share >= _SHARE and is_bulk:
            yield replace(_bulk_update(cause), since=began)


def _random_keys(cause: WalCause) -> Concern:
    return Concern(
        f"index {cause.name}",
        Severity.WARNING,
        f"Index {cause.name} floods the WAL with page images: its keys come in random order.",
        (_written(cause), f"{cause.images_per_key:.2f} page images for each new key"),
        (
            "Keys that grow (a bigint, uuidv7() of 18) touch few pages between two checkpoints; "
            "uuidv4 keys touch all.",
            "With a larger max_wal_size there are fewer checkpoints, and so fewer images.",
        ),
    )


def _freezing(cause: WalCause) -> Concern:
    return Concern(
        f"freezing {cause.name}",
        Severity.WARNING,
        f"VACUUM freezes {cause.name}: that is {say_percent(cause.share * cause.freeze_share)} of all WAL.",
        (_written(cause), f"{say_percent(cause.freeze_share)} of it freezes rows"),
        (
            "It ends when the table is done: pg_stat_progress_vacuum says how far it is.",
            "autovacuum_vacuum_cost_delay slows autovacuum down (a manual VACUUM: vacuum_cost_delay, set "
            "before it). VACUUM (FREEZE) in quiet hours comes before it.",
        ),
    )


def _bulk_update(cause: WalCause) -> Concern:
    return Concern(
        f"bulk update {cause.name}",
        Severity.WARNING,
        f"One transaction updates many rows of {cause.name}: "
        f"that is {say_percent(cause.share * cause.update_share)} of all WAL.",
        (
            _written(cause),
            f"{cause.updates_per_s:,.0f} rows are updated a second, {cause.updates_per_run:,.0f} by one "
            "transaction in succession",
        ),
        (
            "pg_stat_activity names it: the oldest transaction that writes. It ends by itself.",
            "Updates in portions let checkpoints, vacuum and standbys keep up.",
        ),
    )


def _written(cause: WalCause) -> str:
    return (
        f"it writes {format_bytes(cause.bytes_per_s)}/s, {say_percent(cause.share)} of all WAL, "
        f"{say_percent(cause.image_share)} of it page images"
    )
