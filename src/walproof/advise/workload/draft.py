"""The draft of a load: its files, and what of the application it does not have."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from walproof.advise.workload.naming import Catalog, NoneOfIt, Unreadable
from walproof.advise.workload.parameters import ReadStatement, read_statement
from walproof.advise.workload.parts import Part
from walproof.advise.workload.repeats import with_repeats
from walproof.advise.workload.schema import Schema, schema_sql
from walproof.advise.workload.scripts import check, script
from walproof.advise.workload.server_conf import FILE, conf_of, device, shared_buffers
from walproof.advise.workload.spaces import MadeTable, make_table
from walproof.advise.workload.table_keys import is_unique
from walproof.advise.workload.toast import toast_notes, widened
from walproof.advise.workload.transactions import Member, Transaction, committed, transactions
from walproof.advise.workload.turns import in_whole_turns
from walproof.advise.workload.unevenness import drawn_by
from walproof.advise.workload.upserts import inserting, new_shares, upsert_notes
from walproof.advise.workload.weights import rare_notes, weights_of
from walproof.advise.workload.writer import Drawing
from walproof.analysis.working_set import Draws
from walproof.facts.application import HIDDEN, Application, AppStatement, AppTable
from walproof.sentences import say_count, say_list, say_percent
from walproof.sqltext import visible
from walproof.units import format_bytes

_UTILITY = (
    "BEGIN", "START TRANSACTION", "COMMIT", "END", "ROLLBACK", "ABORT", "SAVEPOINT", "RELEASE", "SET",
    "RESET", "SHOW", "DISCARD", "DEALLOCATE", "LISTEN", "UNLISTEN", "FETCH", "CLOSE",
)  # fmt: skip
"""What is no load of its own."""
_EQUAL = "OPERATOR(pg_catalog.=)"
_CHECK = re.compile(
    r'SELECT (?:1|\$[0-9]+) FROM (?:ONLY )?(?:[^\s"]|"[^"]*")+ x WHERE .* FOR KEY SHARE OF x', re.DOTALL
)
"""What the server itself runs for a foreign key (src/backend/utils/adt/ri_triggers.c). It is counted like a
statement of the application where the key is checked at commit; the load has the key."""
_ACTION = re.compile(
    r'(?:DELETE FROM|UPDATE) (?:ONLY )?(?:[^\s"]|"[^"]*")+ (?:SET .*)?WHERE \$[0-9]+ OPERATOR\(', re.DOTALL
)
"""What it runs for ON DELETE and ON UPDATE."""
_CLIENTS = (4, 64)
_VARIANTS = (("wal_compression", "on"), ("commit_delay", "200"), ("synchronous_commit", "off"))
"""What is asked about first, and exists in every version."""
_RARE = 0.0005
"""Share of the calls and of the WAL below which a statement does not matter."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A statement that the load does not have."""

    statement: AppStatement
    why: str
    calls_share: float
    wal_share: float


@dataclass(frozen=True, slots=True)
class Draft:
    """A load."""

    name: str
    files: Mapping[str, str]
    """Name -> text; ``<name>.toml`` is the load."""
    scripts: Mapping[str, Transaction]
    """Name of a script's file -> what it has."""
    tables: tuple[MadeTable, ...]
    calls_share: float
    """Share of the calls of statements on tables that the load has."""
    wal_share: float
    """Share of their WAL."""
    left_out: tuple[LeftOut, ...]
    """Those with the most WAL first."""
    notes: tuple[str, ...]
    laws: Mapping[str, Draws]
    """Table -> how its rows are drawn, as far as images tell."""
    rate: float | None
    """Scripts a second at which the application ran."""
    shared_buffers: str | None = None
    """Its value as it is fitted to the tables; None where it is the server's."""
    device: str | None = None
    """An emulated disk that flushes like the server's; None if that is not known."""


@dataclass(frozen=True, slots=True)
class DraftOrder:
    """What a draft is to be."""

    name: str
    most_bytes: int
    """Size of the tables, at most."""
    statements: int
    """Number of statements, at most."""


def draft(
    application: Application, order: DraftOrder, refused: Mapping[AppStatement, str] | None = None
) -> Draft:
    """Make a load of what the database says of its application.

    ``refused``: statements that cannot be part of it, and why, as its try has shown.
    """
    as_read = {table.name: table for table in application.tables}
    application = replace(application, tables=tuple(map(widened, application.tables)))
    read, why = _read(application)
    shares = new_shares(read, why)
    upserts = inserting(read, shares)
    for row, reason in (refused or {}).items():
        del read[row]
        why[row] = reason
    rows = [*read, *why]
    calls, wal = sum(row.calls for row in rows) or 1.0, sum(row.wal_bytes for row in rows) or 1.0
    frequent = [row for row in read if max(row.calls / calls, row.wal_bytes / wal) >= _RARE]
    chosen = _chosen(frequent, order.statements, calls, wal)
    too_many = f"it is not among the {order.statements} that matter most (--statements)"
    why |= {row: "it is rare" if row not in frequent else too_many for row in read if row not in chosen}
    used = _with_foreign([table for row in chosen for table in read[row].tables], application.tables)
    size_bytes = sum(table.size_bytes for table in used)
    share = min(1.0, order.most_bytes / max(1, size_bytes))
    table_bytes = share * size_bytes
    by_name = {table.name: table for table in used}
    drawing = Drawing({table.name: make_table(table, by_name, share) for table in used}, {}, upserts)
    members = []
    for row in chosen:
        member = Member(row, read[row])
        try:
            check(member, drawing)
            members.append(member)
        except Unreadable as error:
            why[row] = str(error)
    alike = transactions(members, committed(application.statements), application.commits)
    made = with_repeats(alike, application.commits)
    laws = drawn_by(application, made, used)
    drawing = Drawing({table.name: make_table(table, by_name, share, laws) for table in used}, laws, upserts)
    turns = chain.from_iterable(map(in_whole_turns, made))
    scripts = {f"{number:02}-{_label(each)}.sql": each for number, each in enumerate(turns, start=1)}
    rate = sum(each.calls for each in made) / application.seconds if application.seconds else None
    fitted = shared_buffers(application, share, table_bytes)
    texts = {name: script(each, drawing) for name, each in scripts.items()}
    schema = _schema(order.name, members, tuple(drawing.made.values()), texts, share)
    files = {"schema.sql": schema.sql, FILE: conf_of(application, fitted)} | texts
    keeps_answers = any(r"\gset" in text for text in texts.values())
    files[f"{order.name}.toml"] = _toml(
        application, order, scripts, rate, fitted, keeps_answers=keeps_answers
    )
    return Draft(
        name=order.name,
        files=files,
        scripts=scripts,
        tables=tuple(drawing.made.values()),
        calls_share=sum(member.statement.calls for member in members) / calls,
        wal_share=sum(member.statement.wal_bytes for member in members) / wal,
        left_out=tuple(
            LeftOut(row, reason, row.calls / calls, row.wal_bytes / wal)
            for row, reason in sorted(why.items(), key=lambda item: (-item[0].wal_bytes, -item[0].calls))
        ),
        notes=(
            *_notes(application, alike, made, used, share),
            *toast_notes(as_read[table.name] for table in used),
            *upsert_notes((member.read for member in members), shares),
            *rare_notes(scripts),
            *schema.notes,
        ),
        laws=drawing.laws,
        rate=rate,
        shared_buffers=fitted,
        device=device(application),
    )


def _schema(
    name: str,
    members: Sequence[Member],
    tables: Sequence[MadeTable],
    texts: Mapping[str, str],
    share: float,
) -> Schema:
    deleted = frozenset(
        member.read.target.name
        for member in members
        if member.read.target is not None and member.read.verb == "delete"
    )
    rows = "all rows" if share >= 1 else f"{say_percent(share)} of the rows"
    head = f"-- Tables of the load {name}: {rows}, with invented values."
    return schema_sql(tables, deleted, texts.values(), head)


def _read(application: Application) -> tuple[dict[AppStatement, ReadStatement], dict[AppStatement, str]]:
    """The application's statements, and why others cannot be read."""
    catalog = Catalog(application.tables, application.functions, application.views)
    why: dict[AppStatement, str] = {}
    read: dict[AppStatement, ReadStatement] = {}
    for row in application.statements:
        if row.calls <= 0 or _is_utility(row.query):
            continue
        if row.query == HIDDEN:
            why[row] = "its text is hidden from this role (pg_read_all_stats shows it)"
            continue
        if _EQUAL in row.query and _ACTION.match(row.query) is not None:
            why[row] = "a foreign key does it by itself (ON DELETE, ON UPDATE)"
            continue
        try:
            read[row] = read_statement(row.query, catalog)
        except NoneOfIt:
            continue
        except Unreadable as error:
            why[row] = str(error)
    return read, why


def _is_utility(query: str) -> bool:
    first = query.lstrip(" (\n").upper()
    is_check = _EQUAL in query and _CHECK.match(query) is not None
    is_own = "PG_STAT_STATEMENTS" in first or is_check
    return is_own or any(re.match(rf"{word}\b", first) for word in _UTILITY)


def _chosen(rows: Sequence[AppStatement], most: int, calls: float, wal: float) -> list[AppStatement]:
    """The statements that matter most: for WAL, and half as much for calls."""
    ranked = sorted(rows, key=lambda row: -(row.wal_bytes / wal + 0.5 * row.calls / calls))
    return ranked[:most]


def _with_foreign(tables: Sequence[AppTable], all_tables: Sequence[AppTable]) -> tuple[AppTable, ...]:
    """The tables and those that their foreign keys point to, what is pointed to first."""
    by_name = {table.name: table for table in all_tables}
    found: dict[str, AppTable] = {}
    pending: set[str] = set()

    def add(table: AppTable) -> None:
        if table.name in found or table.name in pending:
            return
        pending.add(table.name)
        for key in table.keys:
            if key.kind == "f" and key.other in by_name:
                add(by_name[key.other])
        found[table.name] = table

    for table in tables:
        add(table)
    return tuple(found.values())


def _label(made: Transaction) -> str:
    first = next((each for each in made.members if each.read.target is not None), made.members[0])
    table = first.read.target or first.read.tables[0]
    return re.sub(r"[^a-z0-9]+", "-", f"{first.read.verb}-{table.relation}".lower()).strip("-")[:40]


def _toml(
    application: Application,
    order: DraftOrder,
    scripts: Mapping[str, Transaction],
    rate: float | None,
    fitted: str | None,
    *,
    keeps_answers: bool,
) -> str:
    clients = min(_CLIENTS[1], max(_CLIENTS[0], application.sessions))
    lines = [
        f"# Drafted from the statistics of a database of PostgreSQL {application.version_num // 10000}.",
        "# Read the scripts before you trust them: docs/workload.md says what is guessed.",
        "# walproof tune --load and compare --load take the load, walproof run measures the variants below.",
        "",
        f"name = {json.dumps(order.name)}",
        f"title = {json.dumps(f'What do settings of the write path do to {order.name}?')}",
        "# The server's major version; --pg runs another one.",
        f'pg = ["{application.version_num // 10000}"]',
        *_initdb(application.segment_bytes),
        *_base(fitted),
        "",
        "[quick]",
        "rounds = 3",
        'duration = "5s"',
        "",
        "[[workload]]",
        f"name = {json.dumps(order.name)}",
        'setup = "schema.sql"',
        f"clients = {clients}",
        "threads = 2",
        *(["# Not simple: what scripts keep of answers (new1_id) has no quotes there."] * keeps_answers),
        'protocol = "prepared"',
        'warmup = "5s"',
    ]
    if rate is not None:
        lines.append(f"# rate = {max(1, round(rate))}  # transactions a second in the application")
    weights = weights_of([each.calls for each in scripts.values()])
    for name, weight in zip(scripts, weights, strict=True):
        lines += ["", "[[workload.script]]", f"file = {json.dumps(name)}", f"weight = {weight}"]
    lines += ["", "[[variant]]", 'name = "default"']
    for name, value in _VARIANTS:
        lines += ["", "[[variant]]", f'name = "{name}={value}"', f'settings = {{ {name} = "{value}" }}']
    return "\n".join(lines) + "\n"


def _initdb(segment_bytes: int) -> tuple[str, ...]:
    """Sizes of WAL that hold at least two segments on the server would be refused with larger ones."""
    if segment_bytes == 16 << 20:
        return ()
    return ("# The server's wal_segment_size.", f'initdb = ["--wal-segsize={segment_bytes >> 20}"]')


def _base(fitted: str | None) -> tuple[str, ...]:
    """What every configuration has: what is best for cut-down tables is not best for whole ones."""
    if fitted is None:
        return ()
    return (
        "",
        "[base]",
        "# Fitted to these tables. tune does not move it: what is best here is not best for the server's.",
        f"shared_buffers = {json.dumps(fitted)}",
    )


def _emptied(made: Sequence[Transaction]) -> Iterator[str]:
    """Tables of which the load deletes the rows of the start: by key that matters where it inserts others."""
    members = [member for each in made for member in each.members]
    filled = {member.read.target for member in members if member.read.verb == "insert"}
    deleting = [member for member in members if member.read.verb == "delete"]
    for table in dict.fromkeys(member.read.target for member in deleting):
        if table is None:
            continue
        by_key = [_deletes_by_key(member) for member in deleting if member.read.target == table]
        if not all(by_key):
            yield (
                f"{table.name}: DELETE asks for the same rows of the start again and again, which are soon "
                "gone."
            )
        elif table in filled:
            yield (
                f"{table.name}: DELETE draws from the rows of the start, not from those that the load "
                "inserts: the longer it runs, the fewer it finds."
            )


def _repeated(made: Transaction) -> str:
    """What a transaction inserts one by one."""
    inserted = [(each.read.target, each.times) for each in made.members
                if each.read.target is not None and each.read.verb == "insert"]  # fmt: skip
    pointed = {key.other for table, times in inserted if times > 1 for key in table.keys}
    parents = say_list([table.name for table, times in inserted if times == 1 and table.name in pointed])
    several = say_list([f"{times:.1f} of {table.name}" for table, times in inserted if times > 1])
    return (
        f"Where {parents} gets a row, others are inserted one by one, in the mean {several}: commits and "
        "locks in the WAL say that they belong together."
    )


def _deletes_by_key(member: Member) -> bool:
    return member.read.verb == "delete" and any(
        each.part is Part.EQUAL
        and each.column is not None
        and each.table == member.read.target
        and is_unique(each.table, each.column.name)
        for each in member.read.parameters
        if each.table is not None
    )


def _notes(
    application: Application,
    alike: Sequence[Transaction],
    made: Sequence[Transaction],
    used: Sequence[AppTable],
    share: float,
) -> Iterator[str]:
    if share < 1:
        size = format_bytes(share * sum(table.size_bytes for table in used))
        yield (
            f"Tables have {say_percent(share)} of their rows (about {size}), and shared_buffers in {FILE} is "
            "smaller in proportion."
        )
    yield from _emptied(made)
    guessed = sum(len(each.members) > 1 for each in alike)
    if guessed:
        yield (
            f"{say_count(guessed, 'transaction')} put together what was called equally often; "
            "which statements belong to one transaction is not recorded."
        )
    yield from map(_repeated, (each for each in made if any(member.times > 1 for member in each.members)))
    blocks = committed(application.statements)
    grouped = sum(each.calls for each in made if len(each.members) > 1)
    if blocks > 1.05 * grouped and blocks - grouped > 0.01 * sum(each.calls for each in made):
        yield (
            f"{blocks - grouped:,.0f} commits of transaction blocks belong to statements that stand alone "
            "here: the load commits more often than the application."
        )
    if application.commits is not None and application.seconds:
        yield (
            f"The database committed {application.commits / application.seconds:,.0f} transactions a "
            f"second; the load has {sum(each.calls for each in made) / application.seconds:,.0f} scripts for "
            "them."
        )
    without = [
        table.name for table in used
        if table.columns and all(column.distinct is None for column in table.columns) and table.size_bytes > 0
    ]  # fmt: skip
    if without:
        yield (
            f"Of {say_count(len(without), 'table')} there are no statistics to read (no ANALYZE, or no right "
            "to SELECT): how many values a column has is guessed, and that it is never NULL; so is how many "
            "rows a table has that was never analysed."
        )
    if application.flush_s is None:
        yield (
            "How long a flush of the server's WAL takes is not known (track_wal_io_timing): what "
            "commit_delay and synchronous_commit do depends on it. --device flush=1ms emulates a disk."
        )
    if application.dropped > 0:
        yield (
            f"pg_stat_statements was full {application.dropped:,.0f} times meanwhile and forgot what was "
            "called least: raise pg_stat_statements.max."
        )
    yield from (visible(lack) for lack in application.lacks)
