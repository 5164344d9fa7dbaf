"""Bytes that each kind of process wrote, from the counters that iotop reads.

/proc/PID/io (proc(5)) has two counts. ``wchar`` is what the process handed to write(); ``write_bytes``,
iotop's DISK WRITE, is what this made dirty in the page cache. Where files are cached in large folios (XFS,
and ext4 since Linux 6.16) the second counts the whole folio for every page of it: a WAL flush of 8 KiB is
shown as 1 MiB. So ``wchar`` is used here. PostgreSQL talks to its clients with send(), which does not count.

When a child is waited for, the kernel adds its counts to its parent's (wait_task_zombie() in
kernel/exit.c). So what a backend wrote after it was last read is found in the postmaster, whose own
writing, a few lines of log, is counted as client backends' with it.
"""

from __future__ import annotations

from walproof.errors import ProbeError
from walproof.probe.processes import POSTMASTER, ProcessSampler, Reading, read_io, totals_by_kind
from walproof.probe.protocol import Observation, Subject


class IoProbe:
    """Metrics: ``write_bytes.<kind>``, kinds as of `CpuProbe` without ``postmaster``.

    What pgbench writes after its last reading, at most 0.5 s before its end, is missed.
    """

    def __init__(self) -> None:
        self._sampler: ProcessSampler | None = None

    def start(self, subject: Subject) -> None:
        """Take the first reading; begin sampling. Raises ProbeError when no server process may be read."""
        if _read_written(subject.postmaster_pid) is None:
            raise ProbeError(
                "could not read the bytes that the server writes",
                detail=f"/proc/{subject.postmaster_pid}/io is not readable",
                hint="The kernel shows it to root and to the user that the server runs as.",
            )
        self._sampler = ProcessSampler(subject, _read_written)
        self._sampler.start()

    def stop(self) -> Observation:
        """Take the last reading and sum by kind."""
        if self._sampler is None:
            return Observation(warnings=("bytes by process were not observed",))
        accounts = self._sampler.stop()
        self._sampler = None
        inherited = sum(account.spent[0] for account in accounts if account.kind == POSTMASTER)
        others = [account for account in accounts if account.kind != POSTMASTER]
        totals = totals_by_kind(others, inherited)
        return Observation({f"write_bytes.{kind}": float(count) for kind, count in totals.items()})

    def abandon(self) -> None:
        """End sampling."""
        if self._sampler is not None:
            self._sampler.abandon()
            self._sampler = None


def _read_written(pid: int) -> Reading | None:
    """(bytes handed to write(),)."""
    written = read_io(pid).get("wchar")
    return None if written is None else (written,)
