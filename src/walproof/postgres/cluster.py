"""A throw-away cluster: a data directory and its server, reachable by a unix socket alone.

The server is a child of walproof, started without pg_ctl, so that its end is noticed and waited for. It
gets its settings from ``walproof.conf``, which postgresql.conf includes.
"""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import psycopg
from psycopg.conninfo import make_conninfo

from walproof.errors import ClusterError, DisturbedError, one_line
from walproof.facts import Install
from walproof.postgres.reaper import remove_remains
from walproof.postgres.signals import Descendants, is_halted
from walproof.postgres.workspace import Workspace
from walproof.privilege.acting import acting_as
from walproof.privilege.environment import child_environment
from walproof.privilege.user import running_as
from walproof.settings.conf import quoted

SUPERUSER = "postgres"
_START_PATIENCE_S = 60.0
_STOP_PATIENCE_S = 30.0
_LOG_TAIL_LINES = 20
_OUTER_SIGNALS = frozenset({signal.SIGHUP, signal.SIGINT, signal.SIGKILL, signal.SIGTERM})
"""Signals that end a process because somebody wants that (the kernel, too, where memory is short), not
because of what the process did."""
_DISTURBED = re.compile(
    r"received (?:smart|fast|immediate) shutdown request"
    r"|terminating connection due to administrator command"
    r"|\w[\w ]* \(PID \d+\) was terminated by signal"
    rf" (?:{'|'.join(str(int(number)) for number in sorted(_OUTER_SIGNALS))})\b.*"
    r"|could not fork .*"
    r"|could not .*: (?:No space left on device|Cannot allocate memory|Too many open files in system)"
)
"""Lines of a server's log that report something outside the server."""
_REFUSED = re.compile(
    r"^[^\n]*\bFATAL:  the database system is (?:starting up|shutting down|in recovery mode"
    r"|not (?:yet )?accepting connections)\n(?:[^\n]*\b(?:DETAIL|HINT):  [^\n]*\n)*",
    re.MULTILINE,
)
"""What a server logs about sessions that ask too early whether it is ready. Walproof asks many times a
second, and none of these lines explains why a server ended (src/backend/tcop/backend_startup.c)."""


class Cluster:
    """One data directory in ``folder`` of ``workspace``, and its server while it runs."""

    def __init__(
        self,
        install: Install,
        workspace: Workspace,
        folder: Path,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """``environment``: variables that the server gets besides walproof's own, and its clients do not.

        They may be changed while it is down.
        """
        self.install = install
        self.folder = folder
        self.data = folder / "data"
        self.log = folder / "server.log"
        self.sockets = workspace.sockets
        self.port = workspace.take_port()
        self.user = workspace.user
        self.environment = dict(environment or {})
        self._server: subprocess.Popen[bytes] | None = None
        self._status: int | None = None
        self._log_from = 0

    @property
    def route(self) -> str:
        """libpq connection string of the superuser, without a database: as a standby connects."""
        return make_conninfo(host=str(self.sockets), port=self.port, user=SUPERUSER)

    @property
    def conninfo(self) -> str:
        """libpq connection string of the superuser."""
        return f"{self.route} dbname=postgres"

    @property
    def pid(self) -> int:
        """Process id of the postmaster."""
        assert self._server is not None, "the server runs"
        return self._server.pid

    def init(self, options: Sequence[str] = ()) -> None:
        """Make the data directory (initdb). Raises ClusterError with what initdb said."""
        program = Path(self.install.bindir) / "initdb"
        command = [str(program), "-D", str(self.data), "-U", SUPERUSER, "-A", "trust", "-E", "UTF8"]
        command += ["--locale=C", "--no-sync", *options]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, env=child_environment(), cwd="/",
            **running_as(self.user),
        )  # fmt: skip
        if done.returncode != 0:
            said = [line for line in done.stderr.splitlines() if line.strip()]
            raise ClusterError(
                f"initdb of PostgreSQL {self.install.version} failed",
                detail="\n".join(said[-3:]) or f"exit status {done.returncode}",
                hint=f"Its options were: {' '.join(options) or 'none beyond the defaults'}.",
            )
        with acting_as(self.user), (self.data / "postgresql.conf").open("a") as conf:
            conf.write("\ninclude_if_exists = 'walproof.conf'\n")

    def start(self, settings: Mapping[str, str], patience_s: float | None = None) -> None:
        """Start the server with ``settings`` and return when it accepts connections.

        Raises ClusterError with the server's own last lines when it ends, DisturbedError when that was not
        its own doing or when it takes too long.
        """
        self.launch(settings)
        self.wait_until_ready(_START_PATIENCE_S if patience_s is None else patience_s)

    def wait_until_ready(self, patience_s: float) -> None:
        """Return when the server that was launched accepts connections. Raises ClusterError as ``start``."""
        self._wait(self._is_ready, patience_s, "was not ready")

    def reload(self, settings: Mapping[str, str]) -> None:
        """Replace the settings of the running server by ``settings`` and make it read them (SIGHUP).

        A setting that only a start can change keeps its value. The server takes the others a moment later.
        """
        assert self._server is not None, "the server runs"
        self._write_conf(settings)
        self._server.send_signal(signal.SIGHUP)

    def launch(self, settings: Mapping[str, str]) -> None:
        """Start the server's process and return at once, before it accepts connections."""
        assert self._server is None, "not started twice"
        self._status = None
        self._write_conf(settings)
        program = str(Path(self.install.bindir) / "postgres")
        with acting_as(self.user):
            log = self.log.open("ab")
        with log:
            self._log_from = log.tell()
            self._server = subprocess.Popen(
                [program, "-D", str(self.data)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env=child_environment(self.environment), cwd="/",
                # Out of the terminal's process group: Ctrl-C reaches walproof, which stops the server.
                start_new_session=True,
                **running_as(self.user),
            )  # fmt: skip

    def _wait(self, is_done: Callable[[], bool], patience_s: float, complaint: str) -> None:
        """Return once ``is_done`` says so. Raises as ``start`` does when the server ends, or takes too long
        and is stopped."""
        assert self._server is not None
        deadline = time.monotonic() + patience_s
        while not is_done():
            self._status = self._server.poll()
            if self._status is not None:
                self._end()
                kind = ClusterError if self.disturbance() is None else DisturbedError
                raise kind(
                    f"PostgreSQL {self.install.version} did not start: {self.last_complaint()}",
                    detail=self.log_tail(),
                )
            if time.monotonic() > deadline:
                said = self.last_complaint()
                self.stop("immediate")
                raise DisturbedError(
                    f"PostgreSQL {self.install.version} {complaint} after {patience_s:.0f} s: {said}",
                    detail=self.log_tail(),
                )
            time.sleep(0.005)

    def connect(self, conninfo: str | None = None) -> psycopg.Connection[tuple[object, ...]]:
        """A new connection in autocommit mode, as the superuser unless told otherwise. Raises
        ClusterError."""
        try:
            return psycopg.connect(conninfo or self.conninfo, autocommit=True)
        except psycopg.Error as error:
            raise ClusterError(
                f"could not connect to PostgreSQL {self.install.version}: {one_line(error)}",
                detail=self.log_tail(),
            ) from error

    def is_running(self) -> bool:
        """Whether the postmaster lives."""
        return self._server is not None and self._server.poll() is None

    def disturbance(self) -> str | None:
        """What has ended or hindered the server since its start, and is neither its own doing nor its data's:
        a signal or shutdown that walproof did not send, no memory, no room. None: nothing of the kind is
        known. Ask before :meth:`stop`, because its signal would be found, too."""
        status = self._status if self._server is None else self._server.poll()
        if status is not None and -status in _OUTER_SIGNALS:
            return f"it was ended by signal {-status}"
        said = _DISTURBED.search(self._read_log(self._log_from))
        return None if said is None else said[0]

    def stop(self, mode: str = "fast") -> bool:
        """Stop the server as pg_ctl's mode says (``fast`` checkpoints, ``immediate`` does not) and wait. If
        it does not obey, it is ended by force and false is returned: its files may be of any moment. Does
        nothing when it is down."""
        if self._server is None:
            return True
        number = {"fast": signal.SIGINT, "immediate": signal.SIGQUIT}[mode]
        self._server.send_signal(number)
        try:
            self._server.wait(_STOP_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.kill()
            return False
        self._end()
        return True

    def kill(self) -> None:
        """End every process of the server by SIGKILL, as a power cut would, and free its shared memory.

        Raises ClusterError where they were not all ended at one moment.
        """
        if self._server is None:
            return
        deadline = time.monotonic() + _STOP_PATIENCE_S
        try:
            self._halt(deadline)
            if self._server.poll() is None:
                with Descendants(self._server.pid) as children:
                    self._server.kill()
                    children.send(signal.SIGKILL)
                    children.wait_ended(deadline)
        finally:
            self._server.kill()  # also where its children could not be held
            self._server.wait()
            self._end()

    def _end(self) -> None:
        # A killed server, whoever killed it, leaves its memory, and for a while some of its children.
        assert self._server is not None, "it was started"
        remove_remains(self.data, self.user, self._server.pid)
        self._server = None

    @contextlib.contextmanager
    def suspended(self) -> Iterator[None]:
        """Stop every process of the server (SIGSTOP) for a while: its files are as after a crash.

        Raises ClusterError where some could not be stopped.
        """
        assert self._server is not None, "the server runs"
        deadline = time.monotonic() + _STOP_PATIENCE_S
        try:
            self._halt(deadline)
            with Descendants(self._server.pid) as children:
                try:
                    children.send(signal.SIGSTOP)
                    children.wait_halted(deadline)
                    yield
                finally:
                    children.send(signal.SIGCONT)
        finally:
            self._server.send_signal(signal.SIGCONT)

    def _halt(self, deadline: float) -> None:
        """Stop the postmaster, so that it starts no more children. On a busy machine that takes a while."""
        assert self._server is not None, "it was started"
        self._server.send_signal(signal.SIGSTOP)
        while not is_halted(self._server.pid) and time.monotonic() < deadline:
            time.sleep(0.001)

    def log_tail(self) -> str:
        """The last lines of the server's log, without those of sessions that came too early."""
        return "\n".join(_REFUSED.sub("", self.log_text()).splitlines()[-_LOG_TAIL_LINES:])

    def log_text(self) -> str:
        """The whole of the server's log; empty before its first start."""
        return self._read_log(0)

    def forget_postmaster(self) -> None:
        """Remove postmaster.pid, which says who owns the data directory: the server that it names is gone."""
        with acting_as(self.user):
            (self.data / "postmaster.pid").unlink(missing_ok=True)

    def last_complaint(self) -> str:
        """The newest FATAL, PANIC or ERROR line of the log, without its prefix."""
        for line in reversed(self.log_tail().splitlines()):
            for severity in ("FATAL:", "PANIC:", "ERROR:"):
                if severity in line:
                    return line.split(severity, 1)[1].strip()
        return "it left no message"

    def _read_log(self, start: int) -> str:
        try:
            with acting_as(self.user), self.log.open("rb") as log:
                log.seek(start)
                return log.read().decode(errors="replace")
        except OSError:
            return ""

    def _is_ready(self) -> bool:
        # Line 8 of postmaster.pid is the state that pg_ctl waits for (src/include/utils/pidfile.h): "ready",
        # or "standby" of a server in recovery that takes no connections (hot_standby = off).
        try:
            with acting_as(self.user):
                lines = (self.data / "postmaster.pid").read_text().splitlines()
        except OSError:
            return False
        return len(lines) >= 8 and lines[7].strip() in ("ready", "standby")

    def _write_conf(self, settings: Mapping[str, str]) -> None:
        defaults = {
            "listen_addresses": "",
            "port": str(self.port),
            "unix_socket_directories": str(self.sockets),
            "unix_socket_permissions": "0700",
            "log_destination": "stderr",
            "logging_collector": "off",
            "log_line_prefix": "%m [%p] ",
            "log_timezone": "UTC",
            "lc_messages": "C",
            # A crash of the server ends the trial instead of hiding in it.
            "restart_after_crash": "off",
        }
        lines = [f"{name} = {quoted(value)}\n" for name, value in {**defaults, **settings}.items()]
        path = self.data / "walproof.conf"
        with acting_as(self.user):
            # Replaced as a whole: sessions of a running server read it whenever they come to it.
            written = path.with_name("walproof.conf.new")
            with written.open("w") as conf:
                conf.writelines(lines)
            written.replace(path)
