"""Reads what a database says of the application that uses it.

Every query reads catalogs and views only: no table of the application is read.
Manual, "pg_stat_statements", "System Catalogs".
"""

from __future__ import annotations

import math
import re
import time
from collections import defaultdict
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass

from walproof.errors import ProbeError
from walproof.facts.application import HIDDEN, MASKED, Application, AppStatement
from walproof.observe.app_tables import read_tables
from walproof.observe.asking import Asking, number_in
from walproof.observe.counters import counter_queries
from walproof.observe.cycles import CycleClock, usual_cycles
from walproof.observe.objects import read_settings
from walproof.probe.connection import connect_foreign
from walproof.probe.startup import is_here
from walproof.sqltext import tokens

_LOOK_S = 1.0
STATEMENTS_MOST = 2000
"""How many statements: those with the most WAL, and those with the most calls."""

_EXTENSION = """
    SELECT quote_ident(n.nspname) || '.pg_stat_statements', quote_ident(n.nspname), e.extversion,
           has_schema_privilege(n.oid, 'USAGE')
    FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
    WHERE e.extname = 'pg_stat_statements'"""
_STATEMENTS = """
    SELECT userid::text || '/' || queryid::text, query, calls, rows, wal_records, wal_fpi, wal_bytes
    FROM {view}
    WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) {toplevel}
          AND query IS NOT NULL"""
_HIDDEN_MOST = 0.5
"""Share of the calls."""
_RESET = "SELECT extract(epoch FROM now() - stats_reset) FROM {schema}.pg_stat_statements_info"
"""From 14 on."""
_DROPPED = "SELECT dealloc FROM {schema}.pg_stat_statements_info"
_COMMITS = "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()"
_INSERTED = """
    SELECT coalesce(pg_partition_root(s.relid)::oid, s.relid), sum(s.n_tup_ins)::float8
    FROM pg_stat_user_tables s GROUP BY 1"""
"""Of a partitioned table in all its partitions."""
_FLUSHES_LEAST = 20
_SESSIONS = """
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()
          AND (state <> 'idle' OR state_change > now() - interval '1 second')"""
_FUNCTIONS = """
    SELECT DISTINCT p.proname FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
    WHERE n.nspname <> 'pg_catalog' AND n.nspname <> 'information_schema'
          AND NOT EXISTS (SELECT FROM pg_proc o WHERE o.proname = p.proname
                          AND o.pronamespace = 'pg_catalog'::regnamespace)
    ORDER BY 1"""
"""Without those that the server has, too: citext has a max of its own. A call that means that one fails where
it is tried."""
_VIEWS = """
    SELECT n.nspname, c.relname, c.relkind::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('v', 'm', 'f') AND n.nspname <> 'information_schema' AND n.nspname !~ '^pg_'
          AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass
                          AND d.objid = c.oid AND d.deptype = 'e')
    ORDER BY 1, 2"""
_SEGMENT = "SELECT setting::int8 FROM pg_settings WHERE name = 'wal_segment_size'"
_SETTINGS = re.compile(
    "(?:autovacuum|vacuum_|bgwriter_|wal_|commit_|checkpoint_|io_|enable_|geqo|jit|track_|max_parallel_|max_wal_|"
    "max_slot_wal_|max_pred_|min_wal_).*|.*(?:_cost|_work_mem|_io_concurrency|_collapse_limit|_flush_after)|"
    "fsync|full_page_writes|synchronous_commit|shared_buffers|temp_buffers|work_mem|hash_mem_multiplier|"
    "effective_cache_size|default_statistics_target|plan_cache_mode|deadlock_timeout|max_worker_processes|"
    "max_locks_per_transaction|max_prepared_transactions|max_replication_slots|recovery_prefetch|summarize_wal"
)
"""By name: the category that pg_settings tells is in the server's language."""
_NOT_THE_SERVERS = (
    "default",
    "override",
    "user",
    "database user",
    "client",
    "session",
    "interactive",
    "test",
)
"""Sources of values that other sessions of the server do not have."""


@dataclass(frozen=True, slots=True)
class _Look:
    """Counts at a moment."""

    at: float
    """Of time.monotonic(): spans do not change when somebody sets the clock."""
    statements: dict[str, AppStatement]
    commits: float | None
    dropped: float
    flushes: tuple[float, float] | None
    """Flushes of WAL and their milliseconds."""


def read_application(conninfo: str, for_s: float | None) -> Application:
    """Look at the database; with ``for_s`` twice, so many seconds apart, and what was counted in between.

    Raises ProbeError, ConninfoError.
    """
    with closing(connect_foreign(conninfo)) as session:
        asking = Asking(session)
        view, schema = _extension(asking)
        clock, look = CycleClock(asking), _look(asking, view, schema)
        commits, sessions = None, [_sessions(asking)]
        inserted: dict[int, float] = {}
        if for_s is None:
            seconds = number_in(
                asking.value("since when statements are counted", _RESET.format(schema=schema))
            )
            parts = usual_cycles(asking, seconds) if seconds else ()
        else:
            first, middle, asked = look, None, asking.count
            before = _inserted(asking)
            while (passed := time.monotonic() - first.at) < for_s:
                time.sleep(min(_LOOK_S, for_s - passed))
                sessions.append(_sessions(asking))
                clock.look(time.monotonic() - first.at)
                if middle is None and time.monotonic() - first.at >= for_s / 2:
                    middle = _look(asking, view, schema)
            look = _look(asking, view, schema)
            middle = middle or look
            seconds = look.at - first.at
            parts = clock.parts(middle.at - first.at, seconds)
            if look.commits is not None and first.commits is not None:
                commits = max(0.0, look.commits - first.commits - asking.count + asked)
            inserted = _grown_counts(before, _inserted(asking))
            grown = _grown(first.statements, middle.statements, look.statements)
            flushes = _more(first.flushes, look.flushes)
            look = _Look(look.at, grown, commits, look.dropped - first.dropped, flushes)
        return Application(
            version_num=session.info.server_version,
            database=session.info.dbname,
            seconds=seconds,
            statements=_most(look.statements.values()),
            tables=read_tables(asking, inserted),
            sessions=max(sessions),
            commits=commits,
            cycle_parts=parts,
            functions=tuple(str(row[0]) for row in asking.rows("functions", _FUNCTIONS)),
            dropped=look.dropped,
            lacks=asking.lacks,
            settings=_settings(asking),
            flush_s=_mean_s(look.flushes),
            views=tuple(
                (str(schema), str(name), str(kind)) for schema, name, kind in asking.rows("views", _VIEWS)
            ),
            is_here=is_here(session),
            segment_bytes=int(asking.value("wal_segment_size", _SEGMENT) or 16 << 20),
        )


def _extension(asking: Asking) -> tuple[str, str]:
    found = asking.rows("extensions", _EXTENSION)
    if not found:
        raise ProbeError(
            f'database "{asking.session.info.dbname}" has no extension pg_stat_statements',
            detail="It counts the statements that a load is made of.",
            hint="Set shared_preload_libraries = 'pg_stat_statements', restart, and run "
            "CREATE EXTENSION pg_stat_statements in this database; or name another database.",
        )
    view, schema, version, may_use = found[0]
    # 1.8, of 13, has wal_bytes; 1.9 has what is asked of 14: toplevel, pg_stat_statements_info.
    least = "1.9" if asking.major >= 14 else "1.8"
    if _parts(str(version)) < _parts(least):
        raise ProbeError(
            f"pg_stat_statements is of version {version} here, and a load needs {least} on this server",
            detail="After an upgrade by pg_upgrade an extension keeps its old version.",
            hint="ALTER EXTENSION pg_stat_statements UPDATE, as its owner.",
        )
    if not may_use:
        raise ProbeError(
            f"the role may not use schema {schema}, which has pg_stat_statements",
            hint=f"GRANT USAGE ON SCHEMA {schema} TO the role.",
        )
    return view, schema


def _parts(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def _look(asking: Asking, view: str, schema: str) -> _Look:
    toplevel = "AND toplevel" if asking.major >= 14 else ""
    rows = asking.rows("statements", _STATEMENTS.format(view=view, toplevel=toplevel))
    lack = next((lack for lack in asking.lacks if lack.startswith("statements:")), None)
    if not rows and lack is not None:
        raise ProbeError(
            "could not read pg_stat_statements",
            detail=lack,
            hint="It has to be in shared_preload_libraries, and the role needs pg_read_all_stats.",
        )
    sums: dict[str, list[float]] = defaultdict(lambda: [0.0] * 5)
    texts: dict[str, str] = {}
    for name, text, *counts in rows:
        # A statement that is hidden has no name.
        key = str(name or text)
        texts[key] = _without_literals(str(text))
        sums[key] = [total + float(count or 0) for total, count in zip(sums[key], counts, strict=True)]
    if sums[HIDDEN][0] > _HIDDEN_MOST * sum(counts[0] for counts in sums.values()):
        raise ProbeError(
            "the texts of most statements are hidden from this role",
            hint="GRANT pg_read_all_stats TO the role (pg_monitor includes it).",
        )
    statements = {key: AppStatement(text, *sums[key]) for key, text in texts.items()}
    dropped = asking.value("full", _DROPPED.format(schema=schema)) if asking.major >= 14 else 0
    commits = number_in(asking.value("commits", _COMMITS))
    return _Look(time.monotonic(), statements, commits, float(dropped or 0), _flushes(asking))


def _inserted(asking: Asking) -> dict[int, float]:
    """Table -> rows that were inserted so far."""
    return {int(oid): float(count or 0) for oid, count in asking.rows("rows inserted", _INSERTED)}


def _grown_counts(first: dict[int, float], last: dict[int, float]) -> dict[int, float]:
    """By how much each count has grown, without those that were reset in between."""
    return {oid: count - first[oid] for oid, count in last.items() if count >= first.get(oid, math.inf)}


def _flushes(asking: Asking) -> tuple[float, float] | None:
    for query in counter_queries(asking.major):
        if query.about == "flushes of WAL":
            found = asking.named(query.about, query.sql)
            return found.get("wal_flushes", 0.0), found.get("wal_flush_ms", 0.0)
    return None


def _settings(asking: Asking) -> tuple[tuple[str, str], ...]:
    """Texts are none of them: they have no base value."""
    return tuple(
        (name, setting.value)
        for name, setting in sorted(read_settings(asking).items())
        if name == "shared_buffers"
        or (
            _SETTINGS.fullmatch(name)
            and setting.base is not None
            and setting.base != setting.boot
            and setting.context != "internal"
            and setting.source not in _NOT_THE_SERVERS
        )
    )


def _more(first: tuple[float, float] | None, last: tuple[float, float] | None) -> tuple[float, float] | None:
    return None if first is None or last is None else (last[0] - first[0], last[1] - first[1])


def _mean_s(flushes: tuple[float, float] | None) -> float | None:
    """Mean seconds of a flush; None for too few, or without their time."""
    if flushes is None or flushes[0] < _FLUSHES_LEAST or flushes[1] <= 0:
        return None
    return flushes[1] / flushes[0] / 1000


def _without_literals(text: str) -> str:
    """A statement without what stands in quotes: of commands the view keeps passwords as they were typed, and
    of a statement that it had forgotten meanwhile every constant."""
    return "".join(MASKED if token.kind in ("literal", "dollar") else token.text for token in tokens(text))


def _sessions(asking: Asking) -> int:
    return int(asking.value("sessions", _SESSIONS) or 0)


def _grown(
    first: dict[str, AppStatement], middle: dict[str, AppStatement], last: dict[str, AppStatement]
) -> dict[str, AppStatement]:
    """What each statement did between two looks. A count that fell was reset in between."""
    nothing = AppStatement("", 0, 0, 0, 0, 0)
    found: dict[str, AppStatement] = {}
    for name, row in last.items():
        before = first.get(name, nothing)
        if before.calls > row.calls:
            before = nothing
        half = middle.get(name, before)
        if row.calls > before.calls:
            found[name] = AppStatement(
                row.query,
                row.calls - before.calls,
                row.rows - before.rows,
                row.wal_records - before.wal_records,
                row.wal_fpi - before.wal_fpi,
                row.wal_bytes - before.wal_bytes,
                max(0.0, half.wal_fpi - before.wal_fpi),
            )
    return found


def _most(rows: Iterable[AppStatement]) -> tuple[AppStatement, ...]:
    """The statements with the most WAL and the most calls, those of several users as one."""
    sums: dict[str, list[float]] = defaultdict(lambda: [0.0] * 6)
    for row in rows:
        halves = row.wal_fpi_first_half
        counts = (row.calls, row.rows, row.wal_records, row.wal_fpi, row.wal_bytes, halves or 0.0)
        sums[row.query] = [total + count for total, count in zip(sums[row.query], counts, strict=True)]
    found = [AppStatement(query, *counts) for query, counts in sums.items()]
    by_wal = sorted(found, key=lambda row: -row.wal_bytes)[:STATEMENTS_MOST]
    by_calls = sorted(found, key=lambda row: -row.calls)[:STATEMENTS_MOST]
    return tuple(dict.fromkeys([*by_wal, *by_calls]))
