"""A study of a live stream, live: a primary under load whose standby replays what it is sent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from walproof.facts import Install, Plan, Streaming, StreamingConditions, Variant, Workload
from walproof.lab.asked import Asked
from walproof.lab.between import lacks_tls
from walproof.lab.joining import JoinedHere
from walproof.lab.kind import LabKind
from walproof.lab.kinds.streaming.stream import StreamLab, StreamOrder, prepare_pairs
from walproof.lab.kinds.streaming.study import (
    CONDITIONS,
    StreamingTable,
    check_streaming,
    streaming_of,
    streaming_workload,
    with_stream,
)
from walproof.lab.sizes import (
    EMPTY_CLUSTER_BYTES,
    ROW_BYTES,
    ROW_WAL_BYTES,
    SEGMENTS_BYTES,
    WAL_BYTES_PER_S,
)
from walproof.lab.studyfile import StudyFile, VariantTable
from walproof.lab.trial import Bench, Measured, TrialOrder, Trials


class StreamingLab(LabKind[Streaming]):
    """Each trial loads a primary while its standby streams."""

    kind = Streaming
    tables: ClassVar = {"streaming": StreamingTable}
    conditions_among_settings = CONDITIONS
    has_standbys: ClassVar = True

    def sign(self, study: StudyFile) -> str | None:
        """Its table."""
        return None if study.find(StreamingTable) is None else "[streaming]"

    def resolve(self, asked: Asked) -> Streaming:
        """The rows that are there before the load, and those of a transaction."""
        check_streaming(asked)
        return streaming_of(asked.study.find(StreamingTable) or StreamingTable())

    def workload(self, workload: Workload, kind: Streaming, asked: Asked) -> Workload:
        """Each client is a stream of commits."""
        return streaming_workload(workload)

    def variant(self, variant: Variant, kind: Streaming, table: VariantTable | None) -> Variant:
        """The variant, with what is not a setting kept apart."""
        return with_stream(variant)

    def missing(self, variant: Variant, install: Install) -> str | None:
        """TLS, between hosts."""
        return lacks_tls(variant.conditions_as(StreamingConditions), install)

    def wal_bytes(self, plan: Plan, wal_bytes: int) -> int:
        """All that a load writes: the primary keeps it to be decoded, a standby what it has not replayed."""
        rows = plan.kind_as(Streaming).rows_per_commit
        return max(wal_bytes, *(_written_bytes(workload, rows) for workload in plan.workloads))

    def disk_bytes(self, plan: Plan, wal_bytes: int) -> int | None:
        """Templates, and two servers at a time."""
        empty = EMPTY_CLUSTER_BYTES + SEGMENTS_BYTES
        cluster = empty + plan.kind_as(Streaming).preloaded_rows * ROW_BYTES
        checksums = {variant.conditions_as(StreamingConditions).checksums for variant in plan.variants}
        return len(plan.installs) * len(checksums) * (empty + cluster) + 2 * (cluster + wal_bytes)

    def prepare(self, bench: Bench) -> Trials:
        """Filled tables, with checksums and without."""
        return _Trials(bench, prepare_pairs(bench))


def _written_bytes(workload: Workload, rows_per_commit: int) -> int:
    """WAL of a load, at most."""
    bytes_per_s = WAL_BYTES_PER_S
    if workload.rate_tps is not None:
        bytes_per_s = min(bytes_per_s, workload.rate_tps * rows_per_commit * ROW_WAL_BYTES)
    return int((workload.duration_s or 0.0) * bytes_per_s)


@dataclass(frozen=True, slots=True)
class _Trials(Trials):
    bench: Bench
    pairs: Mapping[tuple[str, bool], Path]

    def run(self, order: TrialOrder, measured: Measured) -> None:
        bench = self.bench
        conditions = bench.variant(order).conditions_as(StreamingConditions)
        lab = StreamLab(
            bench.workspace,
            bench.install(order),
            bench.pgbench,
            self.pairs[(order.install, conditions.checksums)],
            bench.plan.kind_as(Streaming).rows_per_commit,
        )
        streamed = lab.run(
            StreamOrder(
                number=order.number,
                settings=bench.settings(order),
                workload=bench.workload(order),
                seed=bench.seed(order),
                checkpoint_before=bench.plan.checkpoint_before,
                replay_cpu_share=conditions.replay_cpu_share,
            ),
            bench.far_way()
            if conditions.between_hosts
            else JoinedHere(bench.workspace, conditions.distance_s, conditions.bandwidth_bytes_per_s),
        )
        measured.add("stream", streamed.seen)
        measured.settings.update(streamed.settings)
        measured.window_start, measured.window_s = streamed.began_at, streamed.load_s
