"""A standby: a cluster made by a base backup of another one, which it follows until it is promoted.

It streams from its upstream, a primary or (cascading) another standby, or only restores an archive. What kind
it is beyond that (delayed, ``hot_standby = off``) are settings. A standby that streams has started when its
upstream reports it as streaming, not before: a server that runs and never streams looks healthy in every
other way.
"""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Mapping
from typing import Protocol

import psycopg

from walproof.errors import ClusterError, one_line
from walproof.facts import Install
from walproof.postgres.base_backup import BaseBackup, take_base_backup
from walproof.postgres.cluster import SUPERUSER, Cluster
from walproof.postgres.workspace import Workspace
from walproof.privilege.acting import acting_as
from walproof.units import Lsn

_STREAMING_PATIENCE_S = 60.0
_CATCH_UP_PATIENCE_S = 60.0
_PROMOTION_PATIENCE_S = 60.0
_POLL_S = 0.01
_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")

# A standby whose first attempt comes too early would otherwise sleep for five seconds.
_OWN_SETTINGS = {"wal_retrieve_retry_interval": "200ms"}


class Upstream(Protocol):
    """What a standby has to know of the server that it follows."""

    @property
    def install(self) -> Install:
        """The version of the server."""

    @property
    def route(self) -> str:
        """Connection string of a standby, without a database."""

    @property
    def conninfo(self) -> str:
        """Connection string for sessions that ask it how far the standby is."""

    def connect(self) -> psycopg.Connection[tuple[object, ...]]:
        """A new session in autocommit mode. Raises ClusterError."""


class Standby(Cluster):
    """One standby of ``upstream``. Made by ``build``, run by ``start``, stopped like every cluster."""

    def __init__(
        self,
        upstream: Upstream,
        workspace: Workspace,
        name: str,
        *,
        streaming: bool = True,
        slot: bool = True,
        route: str | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """``name``: its application_name, and that of its slot and folder (small letters, digits, ``_``).

        ``streaming``: whether it connects to the upstream at all; ``slot``: whether the upstream keeps WAL
        for it in a physical replication slot; ``route``: host and port that it connects through instead of
        the upstream's own (a :class:`walproof.postgres.link.Link`);
        ``environment``: see Cluster.
        """
        assert _NAME.fullmatch(name), name
        super().__init__(upstream.install, workspace, workspace.make_folder(name), environment)
        self.name = name
        self.upstream = upstream
        self._streaming = streaming
        self._slot = slot and streaming
        self._route = route
        self._settings: dict[str, str] = {}

    @property
    def primary_conninfo(self) -> str:
        """How it connects to its upstream."""
        route = self.upstream.route if self._route is None else f"{self._route} user={SUPERUSER}"
        return f"{route} application_name={self.name}"

    def build(self, source: Cluster | None = None) -> BaseBackup:
        """Make the data directory from a base backup of ``source`` (None: the upstream), and the slot.

        ``source`` is another cluster where the upstream accepts no connections or should not be disturbed; it
        has to be of the same system. Raises ClusterError.
        """
        if self._slot:
            self._make_slot()
        chosen = source or self.upstream
        assert isinstance(chosen, Cluster), "of this machine"
        backup = take_base_backup(chosen, self.data)
        with acting_as(self.user):
            (self.data / "standby.signal").touch(mode=0o600)
        return backup

    def start(self, settings: Mapping[str, str], patience_s: float | None = None) -> None:
        """Start with ``settings``; return when it is ready and, if it should stream, streams.

        max_connections, max_worker_processes, max_wal_senders, max_prepared_transactions and
        max_locks_per_transaction must not be smaller than the primary's (manual, "Hot Standby").
        Raises ClusterError with the newest error of the standby's log, and stops it, when it does not.
        """
        self.launch(settings)
        patience_s = _STREAMING_PATIENCE_S if patience_s is None else patience_s
        self._wait(self._is_up, patience_s, self._complaint)

    def launch(self, settings: Mapping[str, str]) -> None:
        """As for a cluster, in addition to what makes it a standby."""
        super().launch(self._complete(settings))

    def reload(self, settings: Mapping[str, str]) -> None:
        """As for a cluster, in addition to what makes it a standby; ``settings`` may replace that too."""
        super().reload(self._complete(settings))

    def is_streaming(self) -> bool:
        """Whether the upstream sends to it and it is in step with new WAL (state ``streaming``)."""
        try:
            with psycopg.connect(self.upstream.conninfo, autocommit=True) as session:
                row = session.execute(
                    "SELECT FROM pg_stat_replication WHERE application_name = %s AND state = 'streaming'",
                    [self.name],
                ).fetchone()
        except psycopg.Error:
            return False
        return row is not None

    def wait_for_replay(self, lsn: Lsn, patience_s: float = _CATCH_UP_PATIENCE_S) -> None:
        """Return when it has replayed up to ``lsn``. Raises ClusterError when it takes too long.

        The standby is asked, or its upstream if the standby accepts no connections.
        """
        deadline = time.monotonic() + patience_s
        while (reached := self.replayed()) is None or reached < lsn:
            if not self.is_running():
                raise ClusterError(
                    f'standby "{self.name}" ended: {self.last_complaint()}', detail=self.log_tail()
                )
            if time.monotonic() > deadline:
                raise ClusterError(
                    f'standby "{self.name}" did not replay up to {lsn} within {patience_s:.0f} s',
                    detail=f"It has reached {reached}.\n{self.log_tail()}",
                )
            time.sleep(_POLL_S)

    def replayed(self) -> Lsn | None:
        """The position up to which it has replayed; None when nobody knows."""
        if self._settings.get("hot_standby") == "off":
            source, query = (
                self.upstream.conninfo,
                ("SELECT replay_lsn FROM pg_stat_replication WHERE application_name = %s"),
            )
            parameters = [self.name]
        else:
            source, query, parameters = self.conninfo, "SELECT pg_last_wal_replay_lsn()", []
        try:
            with psycopg.connect(source, autocommit=True) as session:
                row = session.execute(query, parameters or None).fetchone()
        except psycopg.Error:
            return None
        return Lsn.parse(str(row[0])) if row is not None and row[0] is not None else None

    def promote(self) -> None:
        """Make it a primary as ``pg_ctl promote`` does, and wait until it accepts writes.

        Raises ClusterError.
        """
        assert self._server is not None, "the server runs"
        # src/bin/pg_ctl/pg_ctl.c, do_promote: needs no connection, which hot_standby = off would refuse.
        with acting_as(self.user):
            (self.data / "promote").touch(mode=0o600)
        self._server.send_signal(signal.SIGUSR1)
        self._wait(self._is_primary, _PROMOTION_PATIENCE_S, "was not promoted")

    def _is_primary(self) -> bool:
        try:
            with psycopg.connect(self.conninfo, autocommit=True) as session:
                row = session.execute("SELECT pg_is_in_recovery()").fetchone()
        except psycopg.Error:
            return False
        return row == (False,)

    def _is_up(self) -> bool:
        return self._is_ready() and (not self._streaming or self.is_streaming())

    @property
    def _complaint(self) -> str:
        return (
            f'standby "{self.name}" did not stream from its upstream'
            if self._streaming
            else f'standby "{self.name}" was not ready'
        )

    def _complete(self, settings: Mapping[str, str]) -> dict[str, str]:
        defaults = dict(_OWN_SETTINGS)
        if self._streaming:
            defaults["primary_conninfo"] = self.primary_conninfo
        if self._slot:
            defaults["primary_slot_name"] = self.name
        self._settings = {**defaults, **settings}
        return self._settings

    def _make_slot(self) -> None:
        with self.upstream.connect() as session:
            try:
                session.execute("SELECT pg_create_physical_replication_slot(%s, true)", [self.name])
            except psycopg.Error as error:
                raise ClusterError(
                    f'could not make the replication slot of standby "{self.name}": {one_line(error)}',
                    hint="The primary needs wal_level replica or logical, and max_replication_slots.",
                ) from error
