"""How many rows a file holds, before anything loads it."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from walproof.errors import WorkloadError
from walproof.workload.loading import parquet

_READ_BYTES = 1 << 20


def rows_in(file: Path) -> int:
    """Rows of a CSV file with a header, or of a Parquet file. Raises WorkloadError, also for none."""
    try:
        stat = file.stat()
        rows = _counted(file, stat.st_size, stat.st_mtime_ns)
    except OSError as error:
        raise WorkloadError(f'could not read file "{file}": {error.strerror}') from error
    if rows < 1:
        raise WorkloadError(f'file "{file}" has no rows')
    return rows


@lru_cache(maxsize=1)
def _counted(file: Path, _bytes: int, _changed_ns: int) -> int:
    """Its rows; size and time of change say whether it is still the file that was counted."""
    return parquet.rows_of(file) if file.suffix == parquet.SUFFIX else _records(file) - 1


def _records(file: Path) -> int:
    """Records of a CSV file as COPY counts them: a line end between quotes is part of a value.

    Every quote begins or ends a quoted part, a doubled one both; line ends are LF, CR LF, or CR alone
    (CopyReadLineText in PostgreSQL's copyfromparse.c).
    """
    is_quoted, last = False, b""
    feeds = returns = 0
    with file.open("rb") as opened:
        while block := opened.read(_READ_BYTES):
            parts = block.split(b'"')
            for part in parts[is_quoted::2]:
                feeds += part.count(b"\n")
                returns += part.count(b"\r")
            is_quoted ^= len(parts) % 2 == 0
            last = block[-1:]
    return (feeds or returns) + (last not in (b"", b"\n", b"\r"))
