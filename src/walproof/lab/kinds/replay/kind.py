"""A study of replay, live: standbys that replay the same WAL again and again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from walproof.facts import Install, Plan, Replay, ReplayConditions, Variant, Workload
from walproof.lab.asked import Asked
from walproof.lab.kind import LabKind
from walproof.lab.kinds.replay.recording import ReplayRecording, prepare_recordings, recording_key
from walproof.lab.kinds.replay.run import ReplayRun
from walproof.lab.kinds.replay.study import (
    READERS,
    ReplayTable,
    check_replay,
    replay_of,
    replay_workload,
    with_conditions,
)
from walproof.lab.sizes import (
    EMPTY_CLUSTER_BYTES,
    ROW_BYTES,
    ROW_IMAGE_BYTES,
    ROW_WAL_BYTES,
    SEGMENT_BYTES,
    SEGMENTS_BYTES,
)
from walproof.lab.studyfile import StudyFile, VariantTable
from walproof.lab.trial import Bench, Measured, TrialOrder, Trials
from walproof.postgres.kernel_audit import audit_refusal


class ReplayLab(LabKind[Replay]):
    """Each trial replays the variant's WAL."""

    kind = Replay
    tables: ClassVar = {"replay": ReplayTable}
    conditions_among_settings = READERS
    takes_workload = False
    hint_when_missing = (
        "Kernel audit needs root (CAP_AUDIT_CONTROL) and the audit tools, and nobody else may be using it."
    )

    def sign(self, study: StudyFile) -> str | None:
        """Its table."""
        return None if study.find(ReplayTable) is None else "[replay]"

    def resolve(self, asked: Asked) -> Replay:
        """The rows whose WAL is replayed."""
        check_replay(asked)
        return replay_of(asked.study.find(ReplayTable) or ReplayTable(), asked.quick)

    def workload(self, workload: Workload, kind: Replay, asked: Asked) -> Workload:
        """One session's transactions."""
        return replay_workload(workload, kind)

    def variant(self, variant: Variant, kind: Replay, table: VariantTable | None) -> Variant:
        """The variant, with what is not a setting kept apart."""
        return with_conditions(variant)

    def missing(self, variant: Variant, install: Install) -> str | None:
        """The kernel's audit."""
        refusal = audit_refusal() if _is_audited(variant) else None
        return None if refusal is None else f"kernel audit: {refusal}"

    def disk_bytes(self, plan: Plan, wal_bytes: int) -> int | None:
        """Recordings, which are kept for the whole run."""
        replay = plan.kind_as(Replay)
        recordings = {
            recording_key(plan, install.label, variant)
            for install in plan.installs
            for variant in plan.variants
        }
        # Base and WAL, in which at most every leaf page that was there has an image, in whole segments.
        each = EMPTY_CLUSTER_BYTES + replay.preloaded_rows * (ROW_BYTES + ROW_IMAGE_BYTES)
        each += replay.rows * (ROW_BYTES + ROW_WAL_BYTES) + 2 * SEGMENT_BYTES
        # In addition, the copy that is replayed, or the primary whose WAL is recorded.
        empty = EMPTY_CLUSTER_BYTES + SEGMENTS_BYTES
        return len(recordings) * each + (each + SEGMENTS_BYTES) + len(plan.installs) * empty

    def prepare(self, bench: Bench) -> Trials:
        """The WAL."""
        return _Trials(bench, prepare_recordings(bench))


def _is_audited(variant: Variant) -> bool:
    return variant.conditions_as(ReplayConditions).kernel_audit != "off"


@dataclass(frozen=True, slots=True)
class _Trials(Trials):
    bench: Bench
    recordings: Mapping[tuple[str, str], ReplayRecording]

    def run(self, order: TrialOrder, measured: Measured) -> None:
        """Replay the variant's WAL. In the first round it is replayed once before, as a warm-up and to count
        system calls, and the baseline's once more for a profile."""
        bench = self.bench
        run = ReplayRun(
            bench.workspace,
            bench.install(order),
            self.recordings[(order.install, order.variant)],
            bench.settings(order),
            bench.variant(order).conditions_as(ReplayConditions),
        )
        if order.round == 1:
            counted = run.count_syscalls(f"syscalls-{order.number}")
            measured.add("syscalls", counted)
            if not counted.metrics:
                run.measure(f"warm-up-{order.number}")
            if order.variant == bench.plan.baseline:
                measured.add("profile", run.profile(f"profile-{order.number}"))
        seen = run.measure(f"trial-{order.number}")
        measured.add("replay", seen)
        measured.window_start, measured.window_s = run.began_at, seen.metrics["replay_wall_s"]
