"""What trials of loading start from: a cluster with the empty table, rows as files, and what has to arrive.

Everything is made once for each install, kept as a template, and cloned by every trial:

    data/         the DDL applied, rows in the tables that foreign keys point at
    rows.copy     COPY's text format
    load.json     rows, and for each number of rows that a variant loads a checksum of the table after it
"""

from __future__ import annotations

import itertools
import json
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import psycopg

from walproof.errors import WorkloadError, one_line
from walproof.facts import Install, Load, LoadMethod, Plan
from walproof.lab.trial import Bench
from walproof.postgres import template as templates
from walproof.postgres.cluster import Cluster
from walproof.postgres.workspace import Workspace
from walproof.privilege.acting import acting_as
from walproof.privilege.user import server_user
from walproof.sqltext import for_parameters
from walproof.units import format_bytes
from walproof.workload.loading import parquet, source
from walproof.workload.loading.contents import (
    Contents,
    column_checksums,
    contents_of,
    rows_elsewhere,
)
from walproof.workload.loading.feeds import READY_BYTES
from walproof.workload.loading.file_rows import line_of_row
from walproof.workload.loading.named_keys import named_keys
from walproof.workload.loading.owner import (
    apply_ddl,
    confine_superuser,
    loader_conninfo,
    privilege_hint,
    superuser_notes,
)
from walproof.workload.loading.rows import OUTPUT_SETTINGS, TEXT_FILE, read_values, value_loaders
from walproof.workload.loading.steps import obstacle
from walproof.workload.loading.table import LoadedColumn, LoadedTable, Session, read_table

_FACTS_FILE = "load.json"
_FORMAT = 6
_DISK_FACTOR = 8
"""Room that a trial needs, in multiples of the rows as text: heap, indexes, a second copy of both, and
WAL."""


@dataclass(frozen=True, slots=True)
class ExpectedTable:
    """What is there after a number of rows were loaded."""

    contents: Contents
    elsewhere: Mapping[str, int]
    """How many rows the other tables have."""


@dataclass(frozen=True, slots=True)
class PreparedLoad:
    """A template, with its facts."""

    folder: Path
    rows: int
    filled: int
    """Rows that the table holds before the load."""
    text_bytes: int
    columns: tuple[str, ...]
    """Rows that are loaded."""
    compared: tuple[str, ...]
    """Columns whose values two loads of the same rows agree on."""
    differing: tuple[str, ...]
    """All others: a trigger or a default gave them another value each time."""
    expected: Mapping[int, ExpectedTable]

    def rows_of(self, method: LoadMethod) -> int:
        """How many rows the method loads."""
        return min(self.rows, method.rows_most or self.rows)


def prepare_loads(bench: Bench) -> dict[str, PreparedLoad]:
    """Install -> what its trials start from.

    Raises WorkloadError, also when a variant cannot load this table or the disk is too small for it.
    """
    load = bench.plan.kind_as(Load)
    found: dict[str, PreparedLoad] = {}
    for label, install in bench.installs.items():
        bench.progress.preparing(f"rows of {load.table} on PostgreSQL {label}")
        found[label] = _prepare(bench.plan, load, install, bench.workspace, bench.progress.preparing)
    return found


def _prepare(
    plan: Plan, load: Load, install: Install, workspace: Workspace, say: Callable[[str], None]
) -> PreparedLoad:
    methods = [variant.conditions_as(LoadMethod) for variant in plan.variants]
    setup = json.dumps(
        [_FORMAT, load.table, load.ddl, load.rows, load.filled, load.file_digest, load.replay, plan.seed,
         load.ddl_as_superuser, [[method.rows_most, method.feed in READY_BYTES] for method in methods]]
    )  # fmt: skip

    def fill(cluster: Cluster) -> None:
        _fill(cluster, load, methods, plan.seed)

    table = table_of(
        load.ddl, load.table, install, workspace, plan.initdb_options,
        as_superuser=load.ddl_as_superuser, say=say,
    )  # fmt: skip
    folder = templates.prepare_loaded(workspace, install, plan.initdb_options, setup, fill)
    prepared = _read(folder)
    _check_methods(plan, load, install, prepared, table)
    needed, free = prepared.text_bytes * _DISK_FACTOR, shutil.disk_usage(folder).free
    if needed > free:
        raise WorkloadError(
            f"not enough disk for loading {prepared.rows} rows",
            detail=f"Needs about {format_bytes(needed)}; free are {format_bytes(free)}.",
            hint="Fewer --rows, or another folder (--on), needs less.",
        )
    return prepared


def table_of(
    ddl: str,
    name: str,
    install: Install,
    workspace: Workspace,
    initdb_options: Sequence[str] = (),
    *,
    as_superuser: bool = False,
    say: Callable[[str], None] | None = None,
) -> LoadedTable:
    """What the catalogs of ``install`` say of the table that ``ddl`` makes in a cluster, removed at once.

    ``say`` is told what will run as superuser, before anything does.
    Raises WorkloadError with the line of DDL that does not apply, or for a partition, whose indexes and keys
    belong to its parent; ClusterError or DiskError.
    """
    folder = workspace.make_folder("table")
    try:
        templates.clone(templates.prepare_empty(workspace, install, initdb_options), folder, flush=False)
        cluster = Cluster(install, workspace, folder)
        cluster.start(templates.LOAD_SETTINGS)
        try:
            if say is not None:
                for note in superuser_notes(cluster.conninfo, ddl, as_superuser=as_superuser):
                    say(note)
            apply_ddl(cluster.conninfo, ddl, as_superuser=as_superuser)
            with cluster.connect(loader_conninfo(cluster.conninfo, as_superuser=as_superuser)) as session:
                table = read_table(session, name)
        finally:
            cluster.stop("immediate")
    finally:
        workspace.remove_folder(folder)
    if table.partition_of is not None:
        raise WorkloadError(
            f"{table.name} is a partition of {table.partition_of}",
            detail="Its indexes and keys belong to its parent, so they cannot be dropped for a load.",
            hint=f"Name {table.partition_of}; or load a table of its own, given as --table FILE.sql:NAME, "
            "and attach it afterwards.",
        )
    return table


def _check_methods(
    plan: Plan, load: Load, install: Install, prepared: PreparedLoad, table: LoadedTable
) -> None:
    columns = [column for column in table.columns if column.name in prepared.columns]
    bad = [
        f"{variant.name}: {reason}"
        for variant in plan.variants
        if (
            reason := obstacle(
                table,
                columns,
                variant.conditions_as(LoadMethod),
                install.version_num,
                load.replay,
                is_filled=load.filled > 0,
            )
        )
        is not None
    ]
    if bad:
        raise WorkloadError(
            f"{len(bad)} of {len(plan.variants)} methods cannot load {load.table} on {install.label}",
            detail="\n".join(bad),
            hint="Leave them out of the study.",
        )


def _fill(cluster: Cluster, load: Load, methods: list[LoadMethod], seed: int) -> None:
    apply_ddl(cluster.conninfo, load.ddl, as_superuser=load.ddl_as_superuser)
    loader = loader_conninfo(cluster.conninfo, as_superuser=load.ddl_as_superuser)
    with cluster.connect(loader) as session:
        table = read_table(session, load.table)
        if source.has_rows(session, table.name):
            raise WorkloadError(
                f"the DDL puts rows into {table.name}",
                hint="filled in [load], or --filled, says how many it is to hold.",
            )
        if load.file is None:
            source.fill_source(session, table, load.filled + load.rows, seed)
            source.fill_table(session, table, load.filled)
            rows = load.rows
        else:
            # Beside the cluster's folder, whose contents belong to the servers' user.
            with tempfile.TemporaryDirectory(dir=cluster.folder.parent) as ours:
                file = Path(load.file)
                if file.suffix == parquet.SUFFIX:
                    file = parquet.as_csv(file, Path(ours))
                rows = source.read_source(session, table, file)
            named = named_keys(session, table, source.loaded_columns(session, table), source.SOURCE)
            source.fill_referenced(session, table, seed, named)
        columns = source.loaded_columns(session, table)
        counts = {min(rows, method.rows_most or rows) for method in methods}
        facts = _expect(session, table, columns, sorted(counts), load)
        with acting_as(cluster.user):
            text_bytes = _write(session, columns, cluster.folder, load.filled)
        # COPY wrote every value, but a Python client needs a value of its own for each that it sends.
        as_values = [
            min(rows, method.rows_most or rows) for method in methods if method.feed not in READY_BYTES
        ]
        _check_values(cluster, columns, max(as_values, default=0))
        session.execute(f"DROP TABLE {source.SOURCE}".encode())
        said = json.dumps(
            {
                "rows": rows,
                "filled": load.filled,
                "text_bytes": text_bytes,
                "columns": [c.name for c in columns],
                **facts,
            }
        )
        with acting_as(cluster.user):
            (cluster.folder / _FACTS_FILE).write_text(said)
    with cluster.connect() as superuser:
        # What was rolled back has left dead rows, in catalogs as well: an empty table has to be an empty
        # file.
        superuser.execute("VACUUM (FULL)")
        if not load.ddl_as_superuser:
            confine_superuser(superuser)


def _expect(
    session: Session, table: LoadedTable, columns: tuple[LoadedColumn, ...], counts: list[int], load: Load
) -> dict[str, object]:
    """What the table holds after plain INSERTs of so many rows, each load rolled back.

    Two loads show which columns get another value each time (a serial, now() in a trigger): those cannot be
    compared. Raises WorkloadError with the server's complaint about a row.
    """
    listed = ", ".join(column.name for column in columns)
    insert = f"INSERT INTO {table.name} ({listed}) SELECT {listed} FROM {source.SOURCE}"
    filled = load.filled
    rest = f" WHERE {source.NUMBER} >= {filled} AND {source.NUMBER} < %s ORDER BY {source.NUMBER}"
    command = (for_parameters(insert) + rest).encode()
    expected: dict[str, object] = {}
    first: dict[str, str] = {}
    try:
        with session.transaction(force_rollback=True):
            session.execute(command, (filled + counts[-1],))
            first = column_checksums(session, table.name)
        for count in reversed(counts):
            with session.transaction(force_rollback=True):
                session.execute(command, (filled + count,))
                if count == counts[-1]:
                    second = column_checksums(session, table.name)
                    compared = [name for name, sum_ in first.items() if second[name] == sum_]
                expected[str(count)] = {
                    "contents": asdict(contents_of(session, table.name, compared)),
                    "elsewhere": rows_elsewhere(session, table.name, (source.SOURCE,)),
                }
    except psycopg.Error as error:
        where = None if load.file is None else _place(session, table, columns, Path(load.file))
        raise WorkloadError(
            f"{table.name} does not take the rows: {error.diag.message_primary or one_line(error)}",
            detail="\n".join(filter(None, (where, error.diag.message_detail))) or None,
            hint=privilege_hint(error)
            or (
                "--file names a CSV of rows that the table takes."
                if load.file is None
                else "Nothing was loaded."
            ),
        ) from error
    differing = [name for name in first if name not in compared]
    return {"compared": compared, "differing": differing, "expected": expected}


def _place(session: Session, table: LoadedTable, columns: tuple[LoadedColumn, ...], file: Path) -> str | None:
    """The row of the file that the table does not take; None where no row is refused by itself."""
    row = source.refused_row(session, table, columns)
    if row is None:
        return None
    line = None if file.suffix == parquet.SUFFIX else line_of_row(file, row)
    return f'file "{file}", row {row + 1:,}' if line is None else f'file "{file}", line {line}'


def _write(session: Session, columns: tuple[LoadedColumn, ...], folder: Path, filled: int) -> int:
    """Write the rows as a file; return its bytes."""
    listed = ", ".join(column.name for column in columns)
    text_bytes = 0
    query = f"SELECT {listed} FROM {source.SOURCE} WHERE {source.NUMBER} >= {filled} ORDER BY {source.NUMBER}"
    session.execute(OUTPUT_SETTINGS)
    with (
        (folder / TEXT_FILE).open("wb") as file,
        session.cursor() as cursor,
        cursor.copy(f"COPY ({query}) TO STDOUT".encode()) as copy,
    ):
        for block in copy:
            file.write(block)
            text_bytes += len(block)
    return text_bytes


def _check_values(cluster: Cluster, columns: tuple[LoadedColumn, ...], count: int) -> None:
    """Raises WorkloadError if one of the first ``count`` rows holds something that Python has no value
    for."""
    try:
        with acting_as(cluster.user):
            file = (cluster.folder / TEXT_FILE).open("rb")
        with file:
            loaders = value_loaders([column.base for column in columns])
            for _ in read_values(itertools.islice(file, count), loaders):
                pass
    except psycopg.DataError as error:
        raise WorkloadError(f"Python has no value for one of the rows: {one_line(error)}") from error


def _read(folder: Path) -> PreparedLoad:
    with acting_as(server_user()):
        data = json.loads((folder / _FACTS_FILE).read_text())
    return PreparedLoad(
        folder=folder,
        rows=data["rows"],
        filled=data["filled"],
        text_bytes=data["text_bytes"],
        columns=tuple(data["columns"]),
        compared=tuple(data["compared"]),
        differing=tuple(data["differing"]),
        expected={
            int(count): ExpectedTable(Contents(**item["contents"]), item["elsewhere"])
            for count, item in data["expected"].items()
        },
    )
