"""ADBC: columns of Arrow, which its driver sends as COPY in binary.

The driver writes each column as its Arrow type says, and the server takes it only where the table's type is
the same, so this is for types that both have. Both packages are optional (extra ``arrow``).
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
from typing import Any
from urllib.parse import quote

from walproof.errors import WorkloadError, first_line
from walproof.sqltext import folded
from walproof.workload.loading.load_target import LoadTarget
from walproof.workload.loading.rows import Rows
from walproof.workload.loading.table import Session

TYPES = {
    "int2": "int16", "int4": "int32", "int8": "int64", "float4": "float32", "float8": "float64",
    "bool": "bool_", "text": "string", "varchar": "string", "bytea": "binary", "date": "date32",
}  # fmt: skip
"""pg_type's names -> Arrow's."""


def is_there() -> bool:
    """Whether both packages are installed."""
    return all(importlib.util.find_spec(name) for name in ("adbc_driver_postgresql", "pyarrow"))


def load_driver() -> None:
    """Import both, which takes longer than many loads, and load the driver's library. It is kept, so that a
    process that belongs to another user by then need not read any of the files again."""
    for name in ("adbc_driver_postgresql.dbapi", "pyarrow"):
        importlib.import_module(name)
    driver: Any = importlib.import_module("adbc_driver_postgresql")
    ctypes.CDLL(driver._driver_path())


def ingest(session: Session, target: LoadTarget, rows: Rows, batch_rows: int | None) -> None:
    """Build Arrow columns of Python values, which is part of the work, and ingest them in one transaction."""
    assert batch_rows is None
    driver: Any = importlib.import_module("adbc_driver_postgresql.dbapi")
    arrow: Any = importlib.import_module("pyarrow")
    info = session.info
    uri = f"postgresql://{info.user}@/{info.dbname}?host={quote(info.host)}&port={info.port}"
    columns = zip(*rows, strict=True)
    table = arrow.table(
        [
            arrow.array(list(column), getattr(arrow, TYPES[base])())
            for column, base in zip(columns, target.bases, strict=True)
        ],
        names=[folded(name) for name in target.columns],
    )
    schema, name = target.place
    try:
        with driver.connect(uri) as connection, connection.cursor() as cursor:
            cursor.adbc_ingest(name, table, mode="append", db_schema_name=schema)
            connection.commit()
    except driver.Error as error:
        raise WorkloadError(f"ADBC could not load the rows: {first_line(error)}") from error
