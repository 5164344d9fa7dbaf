"""The load: pgbench, because its figures are the ones that readers trust (manual, "pgbench").

A run is started, left alone, and asked for its own summary at the end; what happened inside the window is
read from its per-transaction log (``--log``) by ``walproof.probe.throughput``.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import select
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import psycopg
from psycopg.conninfo import make_conninfo

from walproof.errors import WorkloadError, first_line
from walproof.facts import Workload
from walproof.privilege.acting import acting_as
from walproof.privilege.environment import child_environment
from walproof.privilege.user import running_as, server_user
from walproof.sqltext import visible
from walproof.workload.loading.ddl import statements

_LOG_PREFIX = "pgbench_log"
_CONNECT_ALLOWANCE_S = 60.0
_PAUSE_PATIENCE_S = 5.0
_COUNTS_EVERY_S = 1.1
"""A little more than a session keeps counts of rows to itself (PGSTAT_MIN_INTERVAL, pgstat.c)."""
_ITS_SESSION = "SELECT FROM pg_stat_activity WHERE application_name = 'pgbench'"
_DAY_S = 86_400.0
_SHOWN = 100
"""Characters of a statement that fails."""
_TRANSACTIONS_ALLOWANCE_S = 1800.0
_HOLD = ("/bin/sh", "-c", 'read -r go && exec "$@" </dev/null', "sh")
"""What goes before a command that is to begin at a line of its input, under the same process id. Should
walproof end before that, the command never begins."""


@dataclass(frozen=True, slots=True)
class PgbenchTarget:
    """The unix socket that pgbench connects to."""

    host: Path
    port: int
    user: str
    database: str

    @property
    def arguments(self) -> list[str]:
        """pgbench's connection arguments."""
        return ["-h", str(self.host), "-p", str(self.port), "-U", self.user]


@dataclass(frozen=True, slots=True)
class Summary:
    """What pgbench printed about its whole run, warm-up included."""

    tps: float
    """The rate without the initial connection time."""
    transactions: int
    latency_ms_avg: float | None
    connect_ms: float | None
    text: str


class PgbenchRun:
    """One running pgbench in ``folder``, as the servers' user, who owns that.

    Always ended with ``finish`` or ``kill``. ``held``: it has its process id, but does nothing before ``go``.
    """

    def __init__(
        self,
        pgbench: Path,
        workload: Workload,
        target: PgbenchTarget,
        folder: Path,
        seed: int,
        *,
        held: bool = False,
    ) -> None:
        self.workload = workload
        self.folder = folder
        self._output = folder / "pgbench.out"
        self._errors = folder / "pgbench.err"
        self._user = server_user()
        with acting_as(self._user):
            arguments = _load_arguments(workload, folder)
        command = [str(pgbench), *target.arguments, *arguments, "--no-vacuum"]
        # The same seed for all variants of a round: they get the same random transactions.
        command += [f"--random-seed={seed}", "--log", f"--log-prefix={folder / _LOG_PREFIX}"]
        command.append(target.database)
        if held:
            command = [*_HOLD, *command]
        with acting_as(self._user):
            output, errors = self._output.open("wb"), self._errors.open("wb")
        with output, errors:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE if held else subprocess.DEVNULL, stdout=output, stderr=errors,
                start_new_session=True, cwd="/", env=child_environment(), **running_as(self._user),
            )  # fmt: skip

    def go(self) -> None:
        """Let it begin, if it was held."""
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):  # `finish` says why it has ended
                self._process.stdin.write(b"go\n")
                self._process.stdin.close()

    @property
    def pid(self) -> int:
        """Process id of pgbench."""
        return self._process.pid

    @property
    def logs(self) -> list[Path]:
        """Its per-transaction logs, one for each thread."""
        return sorted(self.folder.glob(f"{_LOG_PREFIX}.*"))

    @property
    def longest_s(self) -> float:
        """Seconds after which a run that has not ended is considered stuck."""
        if self.workload.duration_s is None:
            return _TRANSACTIONS_ALLOWANCE_S
        return 2 * (self.workload.warmup_s + self.workload.duration_s) + _CONNECT_ALLOWANCE_S

    def poll(self) -> bool:
        """Whether it has ended."""
        return self._process.poll() is not None

    def wait_until(self, at: float) -> None:
        """Return at that Unix time, or when it has ended.

        Nothing of walproof wakes up meanwhile: who looks every 2 ms keeps processors from resting, and makes
        another load of it (bench/sure/slice_profile.py).
        """
        if self.poll():
            return
        handle = os.pidfd_open(self._process.pid)
        try:
            ends = select.poll()
            ends.register(handle, select.POLLIN)
            while not self.poll() and (left_s := at - time.time()) > 0:
                ends.poll(1000 * min(left_s, _DAY_S))
        finally:
            os.close(handle)

    def finish(self, patience_s: float) -> Summary:
        """Wait until it ends, and read its summary. Raises WorkloadError."""
        try:
            status = self._process.wait(patience_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise WorkloadError(f"pgbench did not end within {patience_s:.0f} s") from None
        with acting_as(self._user):
            output = self._output.read_text(errors="replace")
        if status != 0:
            said = self._complaints()
            errors = [line for line in said if "error" in line.lower()] or said
            raise WorkloadError(
                f"pgbench failed: {(errors or [f'exit status {status}'])[0]}",
                detail="\n".join(said[-5:]),
            )
        return read_summary(output)

    def aborted(self) -> str | None:
        """What it said of the first client that gave up after an error; None while all are at work."""
        return next((line for line in self._complaints() if " aborted " in line), None)

    def failure(self) -> WorkloadError | None:
        """The reason why it is not at work, or not with all its clients; None while it is."""
        if (said := self.aborted()) is not None:
            return WorkloadError(f"pgbench failed: {said}")
        if not self.poll():
            return None
        try:
            self.finish(0)
        except WorkloadError as error:
            return error
        return WorkloadError("pgbench ended before it was to")

    def _complaints(self) -> list[str]:
        with acting_as(self._user):
            complaints = self._errors.read_text(errors="replace")
        for number, script in enumerate(self.workload.scripts):
            # Its copy is gone by the time somebody reads this, and numbers say nothing.
            complaints = complaints.replace(str(_script_path(self.folder, number)), script.name)
            complaints = complaints.replace(f" script {number} aborted", f' script "{script.name}" aborted')
        return [line for line in complaints.splitlines() if line]

    def end(self) -> None:
        """Let it end as if its time were up: sessions finish their transactions, and logs are complete.

        For a workload with ``duration_s``; ``finish`` follows.
        """
        # pgbench.c, setalarm: what --time sets is this signal's handler. Any other signal ends it in the
        # middle of a line.
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGALRM)
            self._process.send_signal(signal.SIGCONT)  # it may be paused

    def pause(self) -> None:
        """Stop it (SIGSTOP), and return when it does nothing. Its clock goes on, so latencies are lost."""
        self._process.send_signal(signal.SIGSTOP)
        deadline = time.monotonic() + _PAUSE_PATIENCE_S
        with contextlib.suppress(ChildProcessError):  # it has ended
            # Only stops are waited for; its end is left to whoever waits for that.
            while os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WNOHANG) is None:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    return
                time.sleep(0.0005)

    def resume(self) -> None:
        """Let it go on after ``pause``."""
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """End it at once, and wait."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()


def initialise(pgbench: Path, workload: Workload, target: PgbenchTarget) -> None:
    """Make and fill the workload's tables (pgbench --initialize, then its own SQL).

    Raises WorkloadError with what pgbench or the server said.
    """
    done = subprocess.run(
        [str(pgbench), *target.arguments, "--initialize", "--quiet", f"--scale={workload.scale}",
         target.database],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, cwd="/",
        env=child_environment(), **running_as(server_user()),
    )  # fmt: skip
    if done.returncode != 0:
        raise WorkloadError(
            f"pgbench --initialize --scale={workload.scale} failed",
            detail="\n".join(done.stderr.splitlines()[-3:]),
        )
    # pgbench does so, too, but its session tells how many rows it inserted only after that: autovacuum would
    # come within a minute to tables that are as good as new, in the middle of what is measured.
    with _session(target) as connection:
        deadline = time.monotonic() + _PAUSE_PATIENCE_S
        while connection.execute(_ITS_SESSION).fetchone() is not None and time.monotonic() < deadline:
            time.sleep(0.005)
        connection.execute("VACUUM (ANALYZE) pgbench_accounts, pgbench_branches, pgbench_tellers")
    if workload.setup_sql:
        _run_setup(workload.name, workload.setup_sql, target)


def _session(target: PgbenchTarget) -> psycopg.Connection[tuple[object, ...]]:
    conninfo = make_conninfo(
        host=str(target.host), port=target.port, user=target.user, dbname=target.database
    )
    return psycopg.connect(conninfo, autocommit=True)


def _run_setup(name: str, text: str, target: PgbenchTarget) -> None:
    """Run the statements in one transaction; VACUUM, which cannot be in one, between two."""
    with _session(target) as connection:
        for is_vacuum, group in groupby(statements(text), lambda each: each.outline.startswith("VACUUM")):
            if is_vacuum:
                # So that what was inserted is told of before, not after it.
                time.sleep(_COUNTS_EVERY_S)
                connection.execute("SELECT")
            with contextlib.nullcontext() if is_vacuum else connection.transaction():
                for each in group:
                    try:
                        connection.execute(each.sql.encode())
                    except psycopg.Error as error:
                        raise WorkloadError(
                            f'setup of workload "{name}" failed in line {each.line}: {first_line(error)}',
                            detail="It begins with: " + visible(" ".join(each.sql.split()))[:_SHOWN],
                            hint="It is plain SQL in one string or file; psql's backslash commands are not "
                            "known here.",
                        ) from error


def setup_description(workload: Workload) -> str:
    """Text of what ``initialise`` depends on, for the key of a template."""
    return f"pgbench scale {workload.scale}, vacuumed after its session; {workload.setup_sql or ''}"


def read_summary(text: str) -> Summary:
    """The summary that pgbench prints at its end, versions 13 to 18. Raises WorkloadError.

    Version 13 prints two tps figures, "including" and "excluding connections establishing"; later ones
    print one, "without initial connection time". The figure without connecting is taken.
    """
    tps = re.search(r"tps = ([\d.]+) \((?:without initial connection|excluding connections)", text)
    count = re.search(r"number of transactions actually processed: (\d+)", text)
    if tps is None or count is None:
        raise WorkloadError("pgbench printed no result", detail=text.strip()[-500:])
    latency = re.search(r"latency average = ([\d.]+) ms", text)
    connect = re.search(r"initial connection time = ([\d.]+) ms", text)
    return Summary(
        tps=float(tps[1]),
        transactions=int(count[1]),
        latency_ms_avg=float(latency[1]) if latency else None,
        connect_ms=float(connect[1]) if connect else None,
        text=text,
    )


def _load_arguments(workload: Workload, folder: Path) -> list[str]:
    arguments = [
        f"--client={workload.clients}",
        f"--jobs={workload.threads}",
        f"--protocol={workload.protocol}",
    ]
    if workload.duration_s is not None:
        # pgbench takes whole seconds.
        arguments.append(f"--time={math.ceil(workload.warmup_s + workload.duration_s)}")
    else:
        arguments.append(f"--transactions={workload.transactions}")
    if workload.rate_tps is not None:
        arguments.append(f"--rate={workload.rate_tps:g}")
    if workload.builtin is not None:
        arguments.append(f"--builtin={workload.builtin}")
    else:
        arguments += _script_arguments(workload, folder)
    return arguments


def _script_path(folder: Path, number: int) -> Path:
    return folder / f"script{number}.sql"


def _script_arguments(workload: Workload, folder: Path) -> Sequence[str]:
    # Builtin scripts read :scale from the database; for others pgbench must be told.
    arguments = [f"--scale={workload.scale}"]
    for number, script in enumerate(workload.scripts):
        path = _script_path(folder, number)
        path.write_text(script.text, encoding="utf-8")
        arguments.append(f"--file={path}@{script.weight}")
    return arguments
