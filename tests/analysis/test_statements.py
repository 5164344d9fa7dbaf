"""The counts of one statement brought together: every byte has a name, or says that it has none."""

from __future__ import annotations

from walproof.analysis.statements import OperationBytes, reconcile
from walproof.facts import Trial, TrialState


def trial(**metrics: float) -> Trial:
    return Trial(1, 1, "15", "w", "minimal", TrialState.DONE, 0.0, 1.0, 0.0, 1.0, metrics, {})


def counted(operations: dict[str, tuple[int, int]], **methods: tuple[int, int]) -> Trial:
    """A trial of statement "s" with those operations (records, bytes) and counters of methods."""
    records = sum(count for count, _ in operations.values())
    size = sum(length for _, length in operations.values())
    metrics = {
        "wal_bytes_lsn.s": float(size + 6 + 24), "wal_bytes_decoded.s": float(size),
        "wal_records_decoded.s": float(records), "wal_padding_bytes.s": 6.0,
        "wal_page_header_bytes.s": 24.0, "wal_segment_header_bytes.s": 0.0, "wal_switch_bytes.s": 0.0,
    }  # fmt: skip
    for name, (count, length) in operations.items():
        metrics[f"wal_operation_records.s|{name}"] = count
        metrics[f"wal_operation_bytes.s|{name}"] = length
    for method, (count, length) in methods.items():
        metrics[f"wal_records_{method}.s"] = count
        metrics[f"wal_bytes_{method}.s"] = length
    return trial(**metrics)


TABLE = {"Heap/INSERT": (3, 200), "XLOG/FPI": (1, 8241), "Transaction/COMMIT": (1, 34)}


def test_commits_and_images_at_commit_are_named() -> None:
    found = reconcile(counted(TABLE, statements=(3, 200), backend=(5, 8475)), "s")
    assert found is not None
    assert found.adds_up
    gap = found.gap("statements")
    assert gap is not None
    assert {operation.operation for operation in gap.outside} == {"Transaction/COMMIT", "XLOG/FPI"}
    assert gap.unexplained_bytes == 0
    gap_here = found.gap("backend")
    assert gap_here is not None
    assert gap_here.outside == ()
    assert found.gap("stat") is None


def test_images_that_were_counted_are_not_named() -> None:
    found = reconcile(counted(TABLE, statements=(4, 8441)), "s")
    assert found is not None
    gap = found.gap("statements")
    assert gap is not None
    assert gap.outside == (OperationBytes("Transaction/COMMIT", 1, 34),)


def test_what_has_no_name_says_so() -> None:
    found = reconcile(counted(TABLE, statements=(2, 150), stat=(7, 8600)), "s")
    assert found is not None
    gap = found.gap("statements")
    assert gap is not None
    assert gap.unexplained_bytes == 8475 - 150 - 34
    more = found.gap("stat")
    assert more is not None
    assert (more.outside, more.unexplained_bytes) == ((), 8475 - 8600)


def test_parts_that_do_not_add_up_are_seen() -> None:
    whole = counted(TABLE)
    broken = trial(**{**whole.metrics, "wal_padding_bytes.s": 7.0})
    found = reconcile(broken, "s")
    assert found is not None
    assert not found.adds_up
    assert reconcile(whole, "another") is None
