"""Rules about what limits a cell: the WAL flush, a row lock, the processors, the disk, another wait.

Wait events are as pg_stat_activity spells them. IO:WALSync and IO:WALWrite became IO:WalSync and IO:WalWrite
in PostgreSQL 17, and LWLock:WALWriteLock became LWLock:WALWrite in 13, so they are compared in lower case.
The sleep of commit_delay is Timeout:CommitDelay from 19 on, and no wait before.
"""

from __future__ import annotations

from collections.abc import Mapping

from walproof.advise.case import Case
from walproof.advise.finding import Finding, FindingKind
from walproof.sentences import say_list, say_percent
from walproof.units import format_duration

NOTABLE = 0.25
"""Share of active-backend samples from which a wait is worth a sentence."""
BUSY = 0.90
"""Share of the window from which a disk or the processors count as the limit."""
_OWN_CPU = 0.5
"""Share of the host's CPU time below which the server and its load are not what keeps it busy."""

# WalWrite belongs here: wal_sync_method=open_datasync flushes with the write itself, and LWLock:WALWrite is
# held across both, and across the sleep of commit_delay, so backends queue on it for another's flush
# (XLogFlush in xlog.c).
_FLUSH = frozenset(
    {"io:walsync", "io:walwrite", "lwlock:walwrite", "lwlock:walwritelock", "timeout:commitdelay"}
)
_ROW_LOCK = frozenset({"lock:transactionid", "lock:tuple"})
_NO_WAIT = "cpu"


def commit_flush(case: Case) -> Finding | None:
    """Commits wait for the WAL flush, directly or in the queue for it."""
    flush = _among(case.waits, _FLUSH)
    share = sum(flush.values())
    if share < NOTABLE:
        return None
    sentence = (
        f"commits wait for the {_flush_word(case)} in {say_percent(share)} of samples ({_say_waits(flush)})"
    )
    if "disk_busy_share" in case.mean:
        sentence += f", disk busy {say_percent(case.mean['disk_busy_share'])}"
    if "wal_sync_ms_avg" in case.mean:
        sentence += f", {format_duration(case.mean['wal_sync_ms_avg'] / 1000)} per flush"
    evidence = case.pick("disk_busy_share", "wal_sync_ms_avg")
    return case.find(FindingKind.FLUSH, sentence, _wait_metrics(flush) | evidence)


def row_lock(case: Case) -> Finding | None:
    """Transactions queue for a row; whether its holder waits for the flush is read from the others."""
    locked = _among(case.waits, _ROW_LOCK)
    share = sum(locked.values())
    if share < NOTABLE:
        return None
    sentence = f"transactions wait for a row lock in {say_percent(share)} of samples ({_say_waits(locked)})"
    if _updates_one_branch(case):
        sentence += ": at scale 1 every transaction updates the same row of pgbench_branches"
    flush = _among(case.waits, _FLUSH)
    # Few backends are free of the lock wait; what those wait for is what the queue waits for.
    held = sum(flush.values()) / (1 - share) if share < 1 else 0.0
    if held >= NOTABLE:
        sentence += (
            f"; {say_percent(held)} of the other samples wait for the {_flush_word(case)}, "
            "so the row stays locked until that is done"
        )
    return case.find(FindingKind.LOCK, sentence, _wait_metrics(locked) | _wait_metrics(flush))


def processors(case: Case) -> Finding | None:
    """The host's processors are busy; who uses them. Without ``host_cpu_busy_s``, which older trials lack, it
    is not known how much of that is not accounted for."""
    busy = case.mean.get("host_cpu_busy_share")
    if busy is None or busy < BUSY:
        return None
    kinds = {n.removeprefix("cpu_s."): v for n, v in case.mean.items() if n.startswith("cpu_s.")}
    total = sum(kinds.values())
    busy_s = case.mean.get("host_cpu_busy_s")
    if busy_s is not None and kinds and total < _OWN_CPU * busy_s:
        sentence = (
            f"other programs keep the CPU busy: {say_percent(1 - total / busy_s)} of the CPU time that the "
            f"host spent (busy {say_percent(busy)}) is neither the server's nor the load generator's; "
            "measure on a quiet machine"
        )
        evidence = {"host_cpu_busy_share": busy, "host_cpu_busy_s": busy_s}
        return case.find(FindingKind.OTHERS, sentence, evidence)
    sentence = f"the CPU is the limit: host busy {say_percent(busy)}"
    users = sorted(kinds, key=lambda kind: -kinds[kind])[:3]
    spoken = [
        f"{kind} {say_percent(kinds[kind] / total)}"
        for kind in users
        if total and kinds[kind] / total >= 0.05
    ]
    if spoken:
        sentence += f"; of the CPU time accounted for, {say_list(spoken)}"
    evidence = {"host_cpu_busy_share": busy} | {f"cpu_s.{kind}": kinds[kind] for kind in users}
    return case.find(FindingKind.CPU, sentence, evidence)


def disk(case: Case) -> Finding | None:
    """The disk is busy although commits do not wait for the flush: writes of another kind fill it."""
    busy = case.mean.get("disk_busy_share")
    flush = sum(_among(case.waits, _FLUSH).values())
    locked = sum(_among(case.waits, _ROW_LOCK).values())
    # When most wait for a row lock, few backends can be seen in the flush: the lock's own finding says so.
    if busy is None or busy < BUSY or not case.waits or flush >= NOTABLE or locked >= NOTABLE:
        return None
    sentence = (
        f"disk busy {say_percent(busy)}, but commits wait for the WAL flush in only "
        f"{say_percent(flush)} of samples: other writes fill the disk"
    )
    writers = {
        n.removeprefix("write_bytes."): v for n, v in case.mean.items() if n.startswith("write_bytes.")
    }
    total = sum(writers.values())
    if total > 0:
        most = max(writers, key=lambda kind: writers[kind])
        sentence += f", {say_percent(writers[most] / total)} of them by {most}"
    return case.find(FindingKind.DISK, sentence, case.pick("disk_busy_share", *_names(writers)))


def client(case: Case) -> Finding | None:
    """Backends wait, inside their transactions, for the load generator to send the next statement."""
    if case.mean.get("host_cpu_busy_share", 0.0) >= BUSY:
        return None  # the load generator is late because it waits for a processor, as all do
    idle, active = case.mean.get("idle_in_transaction_avg"), case.mean.get("active_backends_avg")
    if idle is None or active is None or idle <= 0 or idle / (idle + active) < NOTABLE:
        return None
    sentence = (
        f"the server waits for the load generator: of {idle + active:.1f} backends inside a transaction, "
        f"{idle:.1f} are idle between statements"
    )
    return case.find(FindingKind.IDLE, sentence, case.pick("idle_in_transaction_avg", "active_backends_avg"))


def other_wait(case: Case) -> Finding | None:
    """The largest wait that no other rule knows."""
    known = _FLUSH | _ROW_LOCK | {_NO_WAIT}
    # Activity is what background processes do when they have nothing to do.
    rest = {
        name: share
        for name, share in case.waits.items()
        if name.lower() not in known and not name.startswith("Activity:") and share >= NOTABLE
    }
    if not rest:
        return None
    sentence = (
        f"backends wait for {say_list([f'{n} in {say_percent(s)}' for n, s in rest.items()])} of samples"
    )
    return case.find(FindingKind.WAIT, sentence, _wait_metrics(rest))


def lock_share(case: Case) -> Finding | None:
    """How much of a variant's gain at scale 1 is the lock held across the flush, from the lock model."""
    lock = next((k for k in case.analysis.locks if (k.install, k.workload, k.variant) == case.cell), None)
    if lock is None:
        return None
    sentence = (
        f"at scale 1 a transaction holds the branch row for {format_duration(lock.flush_s)} of flush and "
        f"{format_duration(lock.work_s)} of other work, a gain of {lock.gain:.1f}x without the flush"
    )
    metrics = {"flush_s": lock.flush_s, "work_s": lock.work_s, "gain": lock.gain}
    if lock.share is not None and lock.large_gain is not None:
        low_high = ""
        if lock.share.interval is not None:
            low_high = f" ({100 * lock.share.interval.low:.0f} to {100 * lock.share.interval.high:.0f})"
        sentence += (
            f"; {say_percent(lock.share.lock)}{low_high} of that gain, on the log scale, is the lock, "
            f"since with a row per client it is {lock.large_gain:.1f}x"
        )
        metrics |= {"lock_share": lock.share.lock, "large_gain": lock.large_gain}
    elif lock.share_reason is not None:
        sentence += f"; lock and disk cannot be told apart: {lock.share_reason}"
    if lock.sync_ms is not None and lock.predicted_gain is not None:
        sentence += (
            f"; the server's own flush time of {format_duration(lock.sync_ms / 1000)} "
            f"predicts {lock.predicted_gain:.1f}x"
        )
        metrics |= {"wal_sync_ms_avg": lock.sync_ms, "predicted_gain": lock.predicted_gain}
    workloads = [name for name in (lock.workload, lock.large_workload) if name is not None]
    trials = case.numbers(workloads, (case.plan.baseline, lock.variant))
    return case.find(FindingKind.LOCK, sentence, metrics, trials)


def _flush_word(case: Case) -> str:
    """Without fsync the same waits are for writing alone."""
    variant = case.plan.variant(case.cell[2])
    off = case.plan.settings_of(variant).get("fsync") == "off"
    return "WAL write" if off else "WAL flush"


def _updates_one_branch(case: Case) -> bool:
    workload = case.plan.workload(case.cell[1])
    return workload.scale == 1 and workload.builtin == "tpcb-like"


def _among(waits: Mapping[str, float], names: frozenset[str]) -> dict[str, float]:
    return {name: share for name, share in waits.items() if name.lower() in names and share > 0}


def _say_waits(waits: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {say_percent(share)}" for name, share in waits.items())


def _wait_metrics(waits: Mapping[str, float]) -> dict[str, float]:
    return {f"wait_share.{name}": share for name, share in waits.items()}


def _names(writers: Mapping[str, float]) -> tuple[str, ...]:
    return tuple(f"write_bytes.{kind}" for kind in writers)
