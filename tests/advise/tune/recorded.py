"""A judge over golden WAL: what its load was is known, what other settings would do is simulated."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.golden.unpack import unpack
from walproof.advise.tune.judge import LoadRecording, RecordedJudge
from walproof.analysis.forecast import Costs
from walproof.facts.tuning import Factor, Promises, Scale
from walproof.settings.durability import DurabilityClass
from walproof.wal import stats

VERSION = 15
SIZE = Factor("max_wal_size", ("32MB", "128MB", "1GB", "8GB"), Scale.LOG, "1GB", "fresh")
COMPRESSION = Factor("wal_compression", ("off", "pglz", "lz4"), None, "off", "toggled")
BUFFERS = Factor("shared_buffers", ("128MB", "1024MB", "8192MB"), Scale.LOG, "128MB", "fresh")
FACTORS = (SIZE, COMPRESSION, BUFFERS)
NOTHING = Promises(DurabilityClass.NONE)


def judge(
    folder: Path,
    promises: Promises = NOTHING,
    *,
    speed: float = 1.0,
    keep: Mapping[str, str] | None = None,
    is_archiving: bool = False,
) -> RecordedJudge:
    """Over the golden WAL of ``VERSION``, which is put into ``folder`` where it is not there yet."""
    if not any(folder.glob("0*")):
        unpack(VERSION, folder)
    return RecordedJudge(
        LoadRecording(
            folder, stats(folder).start, {"wal_level": "replica", "wal_compression": "pglz"}, 8000.0
        ),
        VERSION * 10000,
        promises,
        FACTORS,
        {"wal_compression": "pglz", **(keep or {})},
        clients=10,
        memory_bytes=4 << 30,
        costs=Costs(),
        speed=speed,
        is_archiving=is_archiving,
    )
