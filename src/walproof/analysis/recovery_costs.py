"""How long a recovery takes: what it has to do, times what each part costs on a machine.

    CPU         = sum of quantity x coefficient (TERMS)                      warm cache, one core
    CPU, cold   = CPU + reads of the disk and WAL from it x cost of reading them
    redo        = CPU, cold                                    or, where it takes longer,
                  reads of the disk / IOPS                     recovery_prefetch=try
                  reads of the disk x latency, beside the CPU, recovery_prefetch=off; piece by piece of
                  the way, because most pages are read at its beginning
    checkpoint  = pages that it writes, pages that it only flushes, runs of neighbours, segments of WAL that
                  it recycles, each x its coefficient; with a cold cache what it writes costs more: the kernel
                  has none of it

Coefficients are fitted to a calibration or scaled to the log of your last crash (`recovery_fit`), or are
the shipped ones. docs/recovery-validation.md says how wrong they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from walproof.units import Lsn
from walproof.wal.recovery import PAGE_BYTES, READ_AHEAD_KB, RecoveryWork

MB = 1e6


@dataclass(frozen=True, slots=True)
class Term:
    """A part of redo's CPU."""

    name: str
    unit: str
    """Name of the quantity."""
    says: str
    """End of a sentence: "the time goes into ..."."""
    shipped_us: float
    """Cost of a unit in us, rounded, of PostgreSQL 15.18 on a virtual Xeon. Those of
    ``unforeseen`` and ``extensions``, which were not counted there, are of an EPYC, the first one halved;
    ``records`` and ``changes``, which were one there, are divided as on that EPYC."""
    quantities: tuple[tuple[str, float], ...]
    """Names of measured quantities, and units in each."""
    refines: str | None = None
    """Name of the term some of whose units it makes more expensive."""


TERMS = (
    Term("records", "record", "reading records and finding their pages", 0.13, (("records", 1.0),)),
    Term("unforeseen", "record", "such records, of a kind that the processor could not predict", 0.13,
         (("unforeseen", 1.0),), "records"),
    Term("changes", "page", "changing pages", 0.08, (("changes", 1.0),)),
    Term("bytes", "MB of WAL", "reading, checking and copying WAL", 400.0, (("record_bytes", 1 / MB),)),
    Term("gin", "record", "putting lists of GIN indexes together", 0.3, (("gin_records", 1.0),)),
    Term("compactions", "page", "putting pruned and split pages together", 0.55, (("compactions", 1.0),)),
    Term("extensions", "page", "making pages of files that were dropped later", 6.0, (("extensions", 1.0),)),
    Term("recent_misses", "reference", "references to pages that left the processor's cache", 0.64,
         (("recent_misses", 1.0),)),
    Term("far_misses", "reference", "such pages, far from the one before", 0.3,
         (("far_misses", 1.0),), "recent_misses"),
    Term("distant_misses", "reference", "such pages, followed by 32 MB of others", 0.54,
         (("distant_misses", 1.0),), "recent_misses"),
    Term("pglz", "image", "decompressing images (pglz)", 4.3, (("images_pglz", 1.0),)),
    Term("lz4", "image", "decompressing images (lz4)", 1.0, (("images_lz4", 1.0),)),
    Term("zstd", "image", "decompressing images (zstd)", 22.0, (("images_zstd", 1.0),)),
    Term("frames", "buffer", "buffers used for the first time", 3.4, (("frames", 1.0),)),
    Term("reads", "page", "pages that are not in shared_buffers", 2.1, (("reads", 1.0),)),
    Term("far_reads", "page", "such pages, far from the one before", 1.6, (("far_reads", 1.0),), "reads"),
    Term("evictions", "page", "pages that make room for others", 0.5, (("evictions", 1.0),)),
    Term("far_evictions", "page", "such pages, far from the one before", 2.3,
         (("far_evictions", 1.0),), "evictions"),
    Term("first_writes", "page", "such pages, clean in the kernel until then", 1.4,
         (("first_writes", 1.0),), "evictions"),
    Term("prefetches", "call", "asking the kernel for pages ahead of need", 0.75, (("prefetches", 1.0),)),
)  # fmt: skip
CHECKPOINT_TERMS = (
    ("resident", 5.4), ("spilled", 4.0), ("runs", 6.0), ("cold_resident", 5.0), ("cold_spilled", 2.0),
    ("segments", 400.0),
)  # fmt: skip
"""Quantity and shipped cost in us."""
COLD_TERMS = (("requests", 7.5), ("wal", 450.0))
"""CPU of the startup process for what comes from the disk: us for each read of pages, each MB of WAL."""
START_S = 0.08
"""Time from the first line of the log to redo, and from the checkpoint to ready, if nothing has to be
synced."""
_PARTS = 8
"""Pieces of the way, where a disk may limit some of it."""

BANDS = {"calibrated": 1.4, "own crash": 1.8, "shipped": 2.2}
COLD_BANDS = {"calibrated": 1.5, "own crash": 2.0, "shipped": 2.5}
"""Factor by source: in 9 of 10 cases the measured CPU is between the prediction divided by this factor and
multiplied by it, with a warm and with a cold cache (bench/recovery/validate.py; docs/recovery-validation.md
has the counts)."""


@dataclass(frozen=True, slots=True)
class Coefficients:
    """Costs on one machine."""

    source: str
    """``calibrated``, ``own crash`` or ``shipped``."""
    cpu_us: Mapping[str, float]
    """Term -> us for a unit."""
    cold_us: Mapping[str, float]
    """As COLD_TERMS."""
    checkpoint_us: Mapping[str, float]
    phase_error: float | None = None
    """Median error of the fit on the phases that it was made of, as a share."""
    host_us: float | None = None
    """What the first use of a buffer takes on top of its cost where a host has taken the memory back that the
    machine did not use; None where that was not measured."""

    @property
    def band(self) -> float:
        """Factor around a prediction with a warm cache; see BANDS."""
        return BANDS[self.source]

    @property
    def cold_band(self) -> float:
        """Factor around one with a cold cache."""
        return COLD_BANDS[self.source]


SHIPPED = Coefficients(
    "shipped",
    {term.name: term.shipped_us for term in TERMS},
    dict(COLD_TERMS),
    dict(CHECKPOINT_TERMS),
)


@dataclass(frozen=True, slots=True)
class Disk:
    """The disk that a cold recovery reads from; None where it is not known or sets no limit."""

    iops: float | None = None
    """Random reads of 8 kB a second, many at a time."""
    read_latency_us: float | None = None
    """Latency of one such read."""
    read_ahead_kb: int = READ_AHEAD_KB
    """Most that the kernel reads from it at once: the work is counted with this (``analyse``)."""


@dataclass(frozen=True, slots=True)
class ColdRedo:
    """Redo with nothing in the kernel's cache."""

    pages: int
    """Pages read from the disk."""
    requests: int
    """Reads that the disk does for them."""
    bytes: float
    """Bytes read from the disk, including WAL."""
    cpu_s: float
    disk_s: float | None
    """What the disk needs for the pages, if its limits are known."""
    redo_s: float


@dataclass(frozen=True, slots=True)
class RecoveryPrediction:
    """A recovery with one size of shared_buffers, in seconds."""

    buffers: int
    work: RecoveryWork
    terms_s: Mapping[str, float]
    """Term -> CPU of redo, warm; their sum is ``warm_s``."""
    warm_s: float
    cold: ColdRedo
    """Redo with a cold cache and recovery_prefetch=try (before 15 there is no prefetch)."""
    cold_off: ColdRedo
    """With recovery_prefetch=off."""
    checkpoint_s: float
    """Seconds of the checkpoint with a warm cache."""
    cold_checkpoint_s: float
    coefficients: Coefficients

    @property
    def total_s(self) -> float:
        """Seconds from the start of the server until it accepts connections, with a warm cache."""
        return START_S + self.warm_s + self.checkpoint_s

    def cold_total_s(self, prefetch: bool = True) -> float:
        """The same with a cold cache."""
        return START_S + (self.cold if prefetch else self.cold_off).redo_s + self.cold_checkpoint_s

    @property
    def host_s(self) -> float | None:
        """Seconds added when a host has taken back the memory that shared_buffers needs; None: not known."""
        host_us = self.coefficients.host_us
        return None if host_us is None else self.work.pool(self.buffers).frames * host_us / 1e6

    @property
    def cold_host_s(self) -> float | None:
        """The same with a cold cache: the kernel, too, needs memory for what is read."""
        host_us, host_s = self.coefficients.host_us, self.host_s
        if host_us is None or host_s is None:
            return None
        return host_s + self.cold.bytes / PAGE_BYTES * host_us / 1e6

    @property
    def dominating(self) -> Term:
        """The term that takes most of warm redo, with those that refine it."""
        return max((term for term in TERMS if term.refines is None), key=self.part_s)

    def part_s(self, term: Term) -> float:
        """Seconds of warm redo for a term and those that refine it."""
        return sum(self.terms_s[other.name] for other in TERMS if term.name in (other.name, other.refines))

    def band(self, seconds: float, *, is_cold: bool = False) -> tuple[float, float]:
        """The interval that should hold the measured time, in seconds."""
        factor = self.coefficients.cold_band if is_cold else self.coefficients.band
        return seconds / factor, seconds * factor


def predict(
    work: RecoveryWork,
    buffers: int,
    coefficients: Coefficients,
    disk: Disk | None = None,
    steps: Sequence[RecoveryWork] = (),
) -> RecoveryPrediction:
    """Predict the recovery of ``work`` by a server with that many buffers (one of ``work.pools``).

    ``steps``: the work up to some places on the way, for a disk that limits some of the way and not the rest.
    """
    disk = disk or Disk()
    way = (*steps, work)
    terms = redo_terms_s(work.quantities(buffers), coefficients)
    warm, ending = sum(terms.values()), work.checkpoint(buffers)
    return RecoveryPrediction(
        buffers=buffers,
        work=work,
        terms_s=terms,
        warm_s=warm,
        cold=_cold(way, buffers, coefficients, disk, prefetch=True),
        cold_off=_cold(way, buffers, coefficients, disk, prefetch=False),
        checkpoint_s=checkpoint_s(ending, coefficients),
        cold_checkpoint_s=checkpoint_s(cold_checkpoint(ending), coefficients),
        coefficients=coefficients,
    )


def is_limited(prediction: RecoveryPrediction) -> bool:
    """Whether a disk takes a part of redo that is worth a look at the way."""
    both = (prediction.cold, prediction.cold_off)
    return any(cold.disk_s is not None and cold.disk_s > 0.1 * cold.cpu_s for cold in both)


def places(work: RecoveryWork) -> tuple[Lsn, ...]:
    """Where to look at the work on its way, for `predict`: ends of equal pieces, the last one left out."""
    return tuple(Lsn(work.start + work.wal_bytes * part // _PARTS) for part in range(1, _PARTS))


def redo_terms_s(quantities: Mapping[str, float], coefficients: Coefficients) -> dict[str, float]:
    """Term -> CPU of redo in s, warm cache, from quantities by name (walproof.wal.recovery.QUANTITIES)."""
    units = zip(TERMS, term_units(quantities), strict=True)
    return {term.name: count * coefficients.cpu_us[term.name] / 1e6 for term, count in units}


def checkpoint_s(quantities: Mapping[str, float], coefficients: Coefficients) -> float:
    """The checkpoint at the end, from the quantities of `RecoveryWork.checkpoint` or `cold_checkpoint`."""
    return sum(quantities.get(name, 0.0) * cost / 1e6 for name, cost in coefficients.checkpoint_us.items())


def cold_checkpoint(quantities: Mapping[str, float]) -> dict[str, float]:
    """Quantities of a checkpoint for whose pages the kernel had nothing in its cache when recovery began."""
    cold = {f"cold_{name}": quantities[name] for name in ("resident", "spilled")}
    return {**quantities, **cold}


def _cold(
    way: Sequence[RecoveryWork], buffers: int, coefficients: Coefficients, disk: Disk, *, prefetch: bool
) -> ColdRedo:
    """Quantities of the last of ``way``, each of which continues where the one before ended."""
    parts = _parts(way, buffers, coefficients, prefetch=prefetch)
    work, pool = way[-1], way[-1].pool(buffers, prefetch=prefetch)
    requests = sum(part.requests for part in parts)
    limited = requests / disk.iops if disk.iops else None
    latency_s = (disk.read_latency_us or 0.0) / 1e6 if pool.prefetches == 0 else 0.0
    if latency_s:
        limited = max(limited or 0.0, requests * latency_s)
    redo_s = sum(
        # Without the prefetcher nothing is asked for ahead but by the kernel: replay waits for each read.
        max(part.cpu_s + part.requests * latency_s, part.requests / disk.iops if disk.iops else 0.0)
        for part in parts
    )
    return ColdRedo(
        pages=pool.disk_reads,
        requests=requests,
        bytes=work.record_bytes + float(PAGE_BYTES) * pool.disk_reads,
        cpu_s=sum(part.cpu_s for part in parts),
        disk_s=limited,
        redo_s=redo_s,
    )


@dataclass(frozen=True, slots=True)
class _Part:
    """Seconds of redo with a cold cache."""

    cpu_s: float
    requests: int


def _parts(
    way: Sequence[RecoveryWork], buffers: int, coefficients: Coefficients, *, prefetch: bool
) -> list[_Part]:
    """The work between each place and the next: at first most pages come from the disk, later few."""
    asked, cold = way[-1].requests(buffers, prefetch=prefetch), coefficients.cold_us
    parts, cpu_before, asked_before, bytes_before = [], 0.0, 0, 0
    for work in way:
        warm_s = sum(redo_terms_s(work.quantities(buffers, prefetch=prefetch), coefficients).values())
        # What is dropped later on is found to have been no read: never less than at a place before.
        so_far = max(asked_before, min(work.requests(buffers, prefetch=prefetch), asked))
        requests = so_far - asked_before
        from_disk_us = requests * cold["requests"] + (work.record_bytes - bytes_before) / MB * cold["wal"]
        parts.append(_Part(warm_s - cpu_before + from_disk_us / 1e6, requests))
        cpu_before, asked_before, bytes_before = warm_s, so_far, work.record_bytes
    return parts


def term_units(quantities: Mapping[str, float]) -> list[float]:
    """Units of each of TERMS in quantities by name."""
    return [sum(quantities.get(name, 0.0) * units for name, units in term.quantities) for term in TERMS]
