"""A Parquet file as CSV, which then goes the way of every other file. By pyarrow (extra ``arrow``)."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from walproof.errors import WorkloadError, first_line

SUFFIX = ".parquet"


def as_csv(file: Path, folder: Path) -> Path:
    """Write the rows of a Parquet file as CSV into ``folder``, a portion at a time; NULL is an empty field.

    Raises WorkloadError: for a file that is none, and for types that CSV does not have (lists, structs).
    """
    path = folder / f"{file.stem}.csv"
    with _opened(file) as rows:
        csv: Any = importlib.import_module("pyarrow.csv")
        with csv.CSVWriter(path, rows.schema_arrow) as writer:
            for batch in rows.iter_batches():
                writer.write_batch(batch)
    return path


def rows_of(file: Path) -> int:
    """How many rows it holds, by what its end says of them. Raises WorkloadError for a file that is none."""
    with _opened(file) as rows:
        return int(rows.metadata.num_rows)


def names_of(file: Path) -> list[str]:
    """Names of its columns. Raises WorkloadError for a file that is none."""
    with _opened(file) as rows:
        return [str(name) for name in rows.schema_arrow.names]


@contextmanager
def _opened(file: Path) -> Iterator[Any]:
    if importlib.util.find_spec("pyarrow") is None:
        raise WorkloadError(
            f'file "{file}" is Parquet, which needs pyarrow',
            # Not the extra's name: walproof is on no index.
            hint="pip install pyarrow, by the pip that installed walproof, brings it; or name a CSV file.",
        )
    arrow: Any = importlib.import_module("pyarrow")
    parquet: Any = importlib.import_module("pyarrow.parquet")
    try:
        with parquet.ParquetFile(file) as rows:
            yield rows
    except (arrow.ArrowException, OSError) as error:
        raise WorkloadError(f'could not read Parquet file "{file}"', detail=first_line(error)) from error
