"""Why do several ways to count a statement's WAL differ? Every byte between them gets a name.

    LSN distance = records + padding to multiples of 8 + page and segment headers + rests of switched segments
    records      = what a method counted + records that belong to no statement, by operation

A method counts records from the start to the end of the executor or utility command. What is written before
or after, or by other processes, is found among the decoded operations: first what can never be counted
(commits), then the set of other such operations whose records and bytes make up what is left, exactly. What
no set makes up stays "not explained".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from walproof.facts import Trial

METHODS = ("statements", "explain", "backend", "stat")
"""Methods that count records, in the order of how close they are to a statement."""

REASONS = {
    "Transaction/COMMIT": "the commit record is written after the counters are read",
    "Transaction/ABORT": "the abort record is written after the counters are read",
    "XLOG/FPI": "pages of relations made in the transaction, written at commit instead of syncing their files"
    " (wal_level=minimal, smaller than wal_skip_threshold)",
    "XLOG/FPI_FOR_HINT": "hint bits set on pages that were read outside of the executor",
    "Standby/RUNNING_XACTS": "the background writer's list of running transactions, every 15 s",
    "XLOG/CHECKPOINT_REDO": "the checkpointer",
    "XLOG/CHECKPOINT_ONLINE": "the checkpointer",
    "Heap2/PRUNE": "catalog pages pruned while the statement was parsed and planned",
    "Heap2/PRUNE_ON_ACCESS": "catalog pages pruned while the statement was parsed and planned",
    "Standby/INVALIDATIONS": "cache invalidations of a transaction without an id, sent at its end",
    "Storage/TRUNCATE": "files of dropped relations, at commit",
}
"""Operations that may belong to no statement -> why (src/backend/access/transam/xact.c, CommitTransaction and
RecordTransactionCommit; catalog/storage.c, smgrDoPendingSyncs; storage/ipc/standby.c, LogStandbySnapshot)."""
_ALWAYS_OUTSIDE = ("Transaction/COMMIT", "Transaction/ABORT")


@dataclass(frozen=True, slots=True)
class OperationBytes:
    """One operation's share of a statement's WAL."""

    operation: str
    records: int
    bytes: int


@dataclass(frozen=True, slots=True)
class MethodGap:
    """What one method counted of a statement, and what it did not."""

    method: str
    records: int
    bytes: int
    outside: tuple[OperationBytes, ...]
    """Named operations that the method did not count."""
    unexplained_bytes: int
    """Decoded bytes that neither were counted nor have a name; negative where the method counted more."""


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """One statement in one trial."""

    statement: str
    lsn_bytes: int
    record_bytes: int
    """Decoded."""
    records: int
    padding_bytes: int
    header_bytes: int
    """Bytes of headers of pages and segments."""
    switch_bytes: int
    operations: tuple[OperationBytes, ...]
    """Operations, those with most bytes first."""
    gaps: tuple[MethodGap, ...]

    @property
    def adds_up(self) -> bool:
        """Whether the parts are the LSN distance, to the byte."""
        parts = self.record_bytes + self.padding_bytes + self.header_bytes + self.switch_bytes
        return parts == self.lsn_bytes

    def gap(self, method: str) -> MethodGap | None:
        """The gap of one method; None where the server does not have it, or the statement cannot be
        explained."""
        return next((gap for gap in self.gaps if gap.method == method), None)


def reconcile(trial: Trial, statement: str) -> Reconciliation | None:
    """The counts of one statement brought together; None when the trial did not measure it."""
    metrics = trial.metrics

    def value(quantity: str) -> int | None:
        found = metrics.get(f"{quantity}.{statement}")
        return None if found is None else round(found)

    lsn_bytes, record_bytes, records = (
        value("wal_bytes_lsn"), value("wal_bytes_decoded"), value("wal_records_decoded"),
    )  # fmt: skip
    if lsn_bytes is None or record_bytes is None or records is None:
        return None
    prefix = f"wal_operation_records.{statement}|"
    operations = tuple(
        sorted(
            (
                OperationBytes(
                    name.removeprefix(prefix),
                    round(count),
                    round(metrics[name.replace("_records.", "_bytes.", 1)]),
                )
                for name, count in metrics.items()
                if name.startswith(prefix)
            ),
            key=lambda found: (-found.bytes, found.operation),
        )
    )
    gaps = []
    for method in METHODS:
        own_records, own_bytes = value(f"wal_records_{method}"), value(f"wal_bytes_{method}")
        if own_records is not None and own_bytes is not None:
            missing = (records - own_records, record_bytes - own_bytes)
            gaps.append(MethodGap(method, own_records, own_bytes, *_outside(operations, missing)))
    return Reconciliation(
        statement=statement,
        lsn_bytes=lsn_bytes,
        record_bytes=record_bytes,
        records=records,
        padding_bytes=value("wal_padding_bytes") or 0,
        header_bytes=(value("wal_page_header_bytes") or 0) + (value("wal_segment_header_bytes") or 0),
        switch_bytes=value("wal_switch_bytes") or 0,
        operations=operations,
        gaps=tuple(gaps),
    )


def _outside(
    operations: Sequence[OperationBytes], missing: tuple[int, int]
) -> tuple[tuple[OperationBytes, ...], int]:
    """The operations that make up ``missing`` (records, bytes), and the bytes that are left of it."""
    always = [operation for operation in operations if operation.operation in _ALWAYS_OUTSIDE]
    maybe = [
        operation for operation in operations if operation.operation in REASONS and operation not in always
    ]
    candidates = [()] if missing == (0, 0) else _sets(always, maybe)
    for chosen in candidates:
        if (
            sum(operation.records for operation in chosen),
            sum(operation.bytes for operation in chosen),
        ) == missing:
            return tuple(chosen), 0
    always_bytes = sum(operation.bytes for operation in always)
    if missing[0] > 0 and missing[1] >= always_bytes:
        return tuple(always), missing[1] - always_bytes
    return (), missing[1]


def _sets(
    always: Sequence[OperationBytes], maybe: Sequence[OperationBytes]
) -> list[tuple[OperationBytes, ...]]:
    """Commits alone, then with one more kind of record, with two, ..."""
    return [(*always, *more) for count in range(len(maybe) + 1) for more in combinations(maybe, count)]
