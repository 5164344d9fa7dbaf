"""A Parquet file as CSV, which then goes the way of every other file. By pyarrow (extra ``arrow``)."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from typing import Any

from walproof.errors import WorkloadError

SUFFIX = ".parquet"


def as_csv(file: Path, folder: Path) -> Path:
    """Write the rows of a Parquet file as CSV into ``folder``, a portion at a time; NULL is an empty field.

    Raises WorkloadError: for a file that is none, and for types that CSV does not have (lists, structs).
    """
    if importlib.util.find_spec("pyarrow") is None:
        raise WorkloadError(
            f'file "{file}" is Parquet, which needs pyarrow', hint="pip install 'walproof[arrow]', or a CSV."
        )
    arrow: Any = importlib.import_module("pyarrow")
    csv: Any = importlib.import_module("pyarrow.csv")
    parquet: Any = importlib.import_module("pyarrow.parquet")
    path = folder / f"{file.stem}.csv"
    try:
        with parquet.ParquetFile(file) as rows, csv.CSVWriter(path, rows.schema_arrow) as writer:
            for batch in rows.iter_batches():
                writer.write_batch(batch)
    except (arrow.ArrowException, OSError) as error:
        raise WorkloadError(
            f'could not read Parquet file "{file}"', detail=str(error).splitlines()[0]
        ) from error
    return path
