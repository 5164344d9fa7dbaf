"""The rule about storms of page images."""

from __future__ import annotations

from collections.abc import Iterator

from walproof.advise.watch.concern import SETTLED_S, Concern, Severity
from walproof.facts.watch import WalCauses
from walproof.units import format_bytes

_SHARE = 0.25
"""Of all WAL: page images of one index."""
_IMAGES_PER_RECORD = 0.05
"""Keys in order fill a page with hundreds of records before they leave it, so one in hundreds has an image. A
random one may touch another page each time: up to one image a record in a large index."""
_LEAST_BYTES_PER_S = 100_000.0


def storms(causes: WalCauses) -> Iterator[Concern]:
    """Indexes whose keys come in random order: nearly every insert writes a page image."""
    if causes.seconds < SETTLED_S:
        return
    for one in causes.top:
        is_large = one.share * one.image_share >= _SHARE and one.bytes_per_s >= _LEAST_BYTES_PER_S
        if one.kind == "index" and is_large and one.images_per_record >= _IMAGES_PER_RECORD:
            yield Concern(
                f"index {one.name}",
                Severity.WARNING,
                f"Index {one.name} floods the WAL with page images: its keys come in random order.",
                (
                    f"it writes {format_bytes(one.bytes_per_s)}/s, {one.share:.0%} of all WAL, "
                    f"{one.image_share:.0%} of it page images",
                    f"{one.images_per_record:.2f} page images a record",
                ),
                (
                    "Keys that grow (a bigint, uuidv7() of 18) touch few pages between two checkpoints; "
                    "uuidv4 keys touch all.",
                    "A larger max_wal_size makes checkpoints, and so images, fewer.",
                ),
            )
