"""Whether two servers are a pair, the second a physical standby of the first, and both may be watched."""

from __future__ import annotations

from dataclasses import dataclass

import psycopg
from psycopg.rows import TupleRow

from walproof.errors import ProbeError, one_line
from walproof.sqltext import quoted


@dataclass(frozen=True, slots=True)
class Identity:
    """Which server a session is on."""

    which: str
    """``primary`` or ``standby``: the option that named it."""
    version: str
    version_num: int
    system_identifier: int
    is_in_recovery: bool
    has_rights: bool
    """Whether its role has the rights of pg_monitor."""
    role: str
    started_at: float
    segment_bytes: int
    lists_wal: bool
    """Whether its role may list pg_wal, which pg_monitor may unless somebody took that away."""
    timeline: int | None = None
    """Of the WAL that it writes or replays; None where it does not tell."""

    @property
    def major(self) -> int:
        """The major version."""
        return self.version_num // 10000


def identify(session: psycopg.Connection[TupleRow], which: str) -> Identity:
    """Ask a server who it is. Raises ProbeError."""
    try:
        row = session.execute(
            "SELECT current_setting('server_version'), current_setting('server_version_num')::int,"
            " (SELECT system_identifier FROM pg_control_system()), pg_is_in_recovery(),"
            " pg_has_role(current_user, 'pg_monitor', 'USAGE'), current_user::text,"
            " extract(epoch FROM pg_postmaster_start_time())::float8,"
            " pg_size_bytes(current_setting('wal_segment_size')),"
            " has_function_privilege('pg_catalog.pg_ls_waldir()', 'EXECUTE')"
        ).fetchone()
    except psycopg.Error as error:
        raise ProbeError(f"could not ask the {which} who it is: {one_line(error)}") from error
    assert row is not None
    version, number, identifier, is_in_recovery, has_rights, role, started_at, segment_bytes, lists = row
    return Identity(
        which, str(version).split()[0], number, identifier, is_in_recovery, has_rights, role, started_at,
        segment_bytes, lists, _timeline(session),
    )  # fmt: skip


def _timeline(session: psycopg.Connection[TupleRow]) -> int | None:
    """After a promotion the control file has the new timeline only when a checkpoint has completed."""
    try:
        row = session.execute(
            "SELECT CASE WHEN pg_is_in_recovery() THEN greatest("
            " (SELECT timeline_id FROM pg_control_checkpoint()),"
            " (SELECT min_recovery_end_timeline FROM pg_control_recovery()),"
            " (SELECT received_tli FROM pg_stat_wal_receiver))"
            " ELSE ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int END"
        ).fetchone()
    except psycopg.Error:
        return None  # it only helps to word a refusal
    return None if row is None or row[0] is None else int(row[0])


def _shown(timeline: int | None) -> str:
    return "?" if timeline is None else str(timeline)


def check_pair(upstream: Identity, standby: Identity) -> None:
    """Refuse what is not a pair. Raises ProbeError about rights, order, version or system identifier."""
    for side in (upstream, standby):
        if not side.has_rights:
            raise ProbeError(
                f'role "{side.role}" may not see what the {side.which} does',
                detail="Statistics of other sessions, and settings, are shown to members of pg_monitor.",
                hint=f"On the primary: GRANT pg_monitor TO {quoted(side.role)};",
            )
    if upstream.is_in_recovery and not standby.is_in_recovery:
        if (
            upstream.system_identifier == standby.system_identifier
            and upstream.timeline is not None
            and (standby.timeline or 0) > upstream.timeline
        ):
            raise ProbeError(
                "the standby has been promoted",
                detail=f"The server of --standby writes timeline {standby.timeline}, that of --primary "
                f"replays timeline {upstream.timeline}.",
                hint="If --standby was to name the primary's standby, swap the two connection strings.",
            )
        raise ProbeError(
            "--primary names a standby and --standby a primary",
            detail="The server of --primary is in recovery, that of --standby is not.",
            hint="Swap the two connection strings.",
        )
    is_same = upstream.system_identifier == standby.system_identifier
    if not standby.is_in_recovery and is_same and upstream.started_at != standby.started_at:
        raise ProbeError(
            "the standby has been promoted: there are two primaries of one system",
            detail=f"The server of --primary writes timeline {_shown(upstream.timeline)}, that of --standby "
            f"timeline {_shown(standby.timeline)}.",
            hint="Only one of them may be written to. pg_rewind makes the other one its standby.",
        )
    if not standby.is_in_recovery:
        raise ProbeError(
            "the server of --standby is not a standby",
            detail="It is not in recovery: it is a primary, or has been promoted.",
        )
    if upstream.major != standby.major:
        raise ProbeError(
            f"--primary is PostgreSQL {upstream.version} and --standby {standby.version}",
            detail="A standby has the major version of its primary.",
            hint="One of the two connection strings names another server.",
        )
    if upstream.system_identifier != standby.system_identifier:
        raise ProbeError(
            "--standby is a standby of another system",
            detail=f"System identifier of --primary: {upstream.system_identifier}, "
            f"of --standby: {standby.system_identifier}.",
            hint="Name the primary that it was made from, or make the standby again from a base backup.",
        )
    ours, theirs = upstream.timeline, standby.timeline
    if not upstream.is_in_recovery and ours is not None and theirs is not None and theirs > ours:
        raise ProbeError(
            "the standby follows another primary",
            detail=f"It is on timeline {theirs}, and the server of --primary writes timeline {ours}: their "
            "histories have parted.",
            hint="Name the server that was promoted as --primary. pg_rewind makes the old one its standby.",
        )
    if upstream.is_in_recovery and upstream.started_at == standby.started_at:
        raise ProbeError(
            "--primary and --standby name the same server",
            detail="It is in recovery and was started at the same moment.",
        )
