"""What /proc tells of a process, and a walk through those of a trial: the postmaster's children and the load
generator.

What is read of each process (CPU, bytes) is the caller's business. A process that ends takes its counters
with it, so a thread reads them all the time and the last reading of each is kept.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from walproof.errors import ProbeError
from walproof.probe.protocol import Subject

POSTMASTER = "postmaster"
DRIVER = "pgbench"
CLIENT_BACKEND = "client_backend"
UNKNOWN = "other"
SAMPLE_HZ = 2.0
"""Readings each second. What a process does between the last one and its end is missed: 0.25 s on average."""

_WALKS = 100
"""How often a walk is tried again until no child ends meanwhile. A walk takes about 1 ms; sessions end less
often."""

_PROC = Path("/proc")
_KINDS = {
    "checkpointer": "checkpointer",
    "walwriter": "walwriter",
    "background writer": "background_writer",
    "autovacuum launcher": "autovacuum",
    "autovacuum worker": "autovacuum",
    "walsender": "walsender",
    "walreceiver": "walreceiver",
    "walsummarizer": "walsummarizer",
    "startup": "startup",
    "archiver": "archiver",
    "logger": "logger",
    "stats collector": "stats_collector",
    "io worker": "io_worker",
    "parallel worker": "parallel_worker",
    "logical replication": "logical_replication",
    "slotsync worker": "logical_replication",
    "bgworker": UNKNOWN,
}
# "user database [local] SELECT" or "user database 10.0.0.7(54321) idle"; the user may be any word.
_SESSION = re.compile(r"\S+ \S+ (?:\[local\]|\S+\(\d+\))(?: |$)")

Reading = tuple[int, ...]


def process_kind(title: str) -> str:
    """The kind of a server process, from its title: ``checkpointer``, ``walwriter``, ``client_backend``, ...

    Titles are ``postgres: [cluster_name: ]what it is`` (set_ps_display(); backend_type of
    pg_stat_activity). A process that has no such title yet, as in the moment after the fork, is ``other``.
    """
    if not title.startswith("postgres: "):
        return UNKNOWN
    body = title.removeprefix("postgres: ").strip()
    # cluster_name may itself hold a colon, so each place where it could end is tried.
    for start in (0, *(match.end() for match in re.finditer(": ", body))):
        rest = body[start:]
        for name, kind in _KINDS.items():
            if rest.startswith(name) and rest[len(name) : len(name) + 1] in ("", " ", ":"):
                return kind
        if _SESSION.match(rest):
            return CLIENT_BACKEND
    # With no host to show (a title that is still being set) a session has at least a user and a database.
    return CLIENT_BACKEND if len(body.split()) >= 2 else UNKNOWN


def is_running(pid: int) -> bool:
    """Whether the process exists and has not ended. A zombie, whose parent has yet to wait for it, has
    ended."""
    stat = read_stat(pid)
    return stat is not None and stat[0] not in (b"Z", b"X")


def read_proc(pid: int, name: str) -> bytes | None:
    """A short file of /proc/PID; None when the process is gone or the file is not for us. It is read by
    system calls, which take a quarter of the time of a file object, because this happens for each process,
    all the time."""
    try:
        file = os.open(f"/proc/{pid}/{name}", os.O_RDONLY)
    except OSError:
        return None
    try:
        return os.read(file, 4096)
    except OSError:
        return None
    finally:
        os.close(file)


def read_stat(pid: int) -> list[bytes] | None:
    """Fields of /proc/PID/stat from the third (the state) on; None when the process is gone."""
    text = read_proc(pid, "stat")
    if not text:
        return None
    return text[text.rindex(b")") + 2 :].split()  # the second field, the name, may hold anything


def read_title(pid: int) -> str:
    """The command line, which is the title of a server process; empty when the process has ended."""
    title = read_proc(pid, "cmdline") or b""
    return title.replace(b"\0", b" ").decode("utf-8", "replace").strip()


def read_io(pid: int) -> dict[str, int]:
    """Counters of /proc/PID/io by name; none when the process is gone or another user's."""
    counters = {}
    for line in (read_proc(pid, "io") or b"").splitlines():
        name, _, value = line.partition(b": ")
        counters[name.decode()] = int(value)
    return counters


def read_schedule(pid: int) -> tuple[int, int] | None:
    """Nanoseconds on a CPU, and ready to run without one (/proc/PID/schedstat); None when the process is gone
    or the kernel does not tell."""
    text = read_proc(pid, "schedstat")
    if not text:
        return None
    run_ns, wait_ns = text.split()[:2]
    return int(run_ns), int(wait_ns)


def startup_pid(postmaster: int) -> int | None:
    """The child that replays, if there is one whose CPU time can be read."""
    for pid in children(postmaster):
        if process_kind(read_title(pid)) == "startup" and read_schedule(pid) is not None:
            return pid
    return None


def children(pid: int) -> list[int]:
    """Process ids of the living children, zombies included; empty when the process is gone."""
    try:
        return [int(child) for child in (_PROC / f"{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        if not (_PROC / str(pid)).exists():
            return []
    # A kernel without CONFIG_PROC_CHILDREN: every process is asked for its parent.
    found = []
    for entry in os.scandir(_PROC):
        if entry.name.isdigit() and (stat := read_stat(int(entry.name))) is not None and int(stat[1]) == pid:
            found.append(int(entry.name))
    return found


@dataclass(slots=True)
class Account:
    """One process, with its counters when it was first and last read."""

    pid: int
    kind: str
    first: Reading
    """The first reading: zeros for a process that began within the window."""
    last: Reading
    alive: bool = True

    @property
    def spent(self) -> Reading:
        """How much the counters grew within the window."""
        return tuple(last - first for first, last in zip(self.first, self.last, strict=True))


@dataclass(slots=True)
class ProcessSampler:
    """Reads counters of every process of a trial at SAMPLE_HZ in a thread, from `start` to `stop`."""

    subject: Subject
    read: Callable[[int], Reading | None]
    """The counters of one process, which only grow; None when it is gone or may not be read."""
    accounts: list[Account] = field(default_factory=list)
    """One reading per process. Stable once `stop` has returned."""
    _current: dict[int, Account] = field(default_factory=dict)
    _stopping: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Take the first reading, and begin sampling. Raises ProbeError when nothing can be read."""
        self._walk_settled(first=True)
        if not self.accounts:
            raise ProbeError(
                "could not read the counters of any server process",
                detail=f"postmaster {self.subject.postmaster_pid} in /proc",
                hint="/proc shows a process's counters to root and to the user it runs as.",
            )
        self._thread = threading.Thread(target=self._sample, name="walproof-processes", daemon=True)
        self._thread.start()

    def stop(self) -> list[Account]:
        """End sampling and take the last reading."""
        self.abandon()
        self._walk_settled(first=False)
        return self.accounts

    def abandon(self) -> None:
        """End sampling."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _sample(self) -> None:
        tick, begun = 1, time.monotonic()
        while not self._stopping.wait(max(0.0, begun + tick / SAMPLE_HZ - time.monotonic())):
            self._walk(first=False)
            tick = max(tick + 1, int((time.monotonic() - begun) * SAMPLE_HZ) + 1)

    def _walk_settled(self, *, first: bool) -> None:
        """Walk at a moment when no child is waited for. When it is, its counters move to the postmaster, and
        a child that moves between the reading of the postmaster and its own reading would be in neither. At
        the start its whole life would be counted in the window; at the end its last reading would be lost."""
        for _ in range(_WALKS):
            if first:
                self.accounts.clear()
                self._current.clear()
            self._walk(first=first)
            account = self._current.get(self.subject.postmaster_pid)
            if account is None or account.last == self.read(self.subject.postmaster_pid):
                return

    def _walk(self, *, first: bool) -> None:
        postmaster = self.subject.postmaster_pid
        pids = [postmaster, self.subject.driver_pid, *children(postmaster)]
        # The postmaster is read first: the CPU of its ended children holds none of a child that is read
        # below.
        living = set()
        for pid in pids:
            reading = self.read(pid)
            if reading is not None:
                living.add(pid)
                self._book(pid, reading, first=first)
        for pid in [pid for pid in self._current if pid not in living]:
            self._current.pop(pid).alive = False

    def _book(self, pid: int, reading: Reading, *, first: bool) -> None:
        account = self._current.get(pid)
        if account is not None and any(new < old for new, old in zip(reading, account.last, strict=True)):
            account.alive = False  # counters never fall: another process was given the same id
            account = None
        if account is None:
            start = reading if first else tuple(0 for _ in reading)
            account = Account(pid, self._kind(pid), start, reading)
            self._current[pid] = account
            self.accounts.append(account)
        account.last = reading
        if account.kind == UNKNOWN:
            account.kind = self._kind(pid)

    def _kind(self, pid: int) -> str:
        if pid == self.subject.postmaster_pid:
            return POSTMASTER
        if pid == self.subject.driver_pid:
            return DRIVER
        return process_kind(read_title(pid))


def totals_by_kind(accounts: list[Account], inherited: int) -> dict[str, int]:
    """Kind -> growth of the first counter within the window, in order of first sight.

    ``inherited`` is the growth of what ended children left to the postmaster, over their whole life. What
    exceeds their last readings is given to the client backends, because those are the ones that end."""
    totals: dict[str, int] = {}
    for account in accounts:
        totals[account.kind] = totals.get(account.kind, 0) + account.spent[0]
    seen = sum(
        account.last[0]
        for account in accounts
        if not account.alive and account.kind not in (POSTMASTER, DRIVER)
    )
    # It may be too small if children ended during every walk (`_walk_settled`).
    if inherited > seen:
        totals[CLIENT_BACKEND] = totals.get(CLIENT_BACKEND, 0) + inherited - seen
    return totals
