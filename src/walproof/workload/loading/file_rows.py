"""How many rows a file holds, before anything loads it, and at which of its lines one of them is."""

from __future__ import annotations

import shlex
from functools import lru_cache
from pathlib import Path

from walproof.errors import WorkloadError
from walproof.files import reason
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


def header_of(file: Path) -> list[str]:
    """Names of the columns of a CSV file, or of a Parquet file. Raises WorkloadError."""
    import csv

    if file.suffix == parquet.SUFFIX:
        return parquet.names_of(file)
    try:
        with file.open(encoding="utf-8-sig", newline="") as opened:
            return next(csv.reader(opened), [])
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        if isinstance(error, UnicodeDecodeError):
            require_utf8(file)
        raise WorkloadError(f'could not read file "{file}"', detail=reason(error)) from error


def line_of_row(file: Path, row: int) -> int | None:
    """Line of a CSV file, from 1, at which a row, from 0, begins; None where lines end by CR alone."""
    records, is_quoted = 0, False
    with file.open("rb") as opened:
        for number, line in enumerate(opened, start=1):
            if not is_quoted:
                if records == row + 1:  # the first record is the header
                    return number
                records += 1
            is_quoted ^= line.count(b'"') % 2 == 1
    return None


def require_utf8(file: Path) -> None:
    """Raises WorkloadError with line and byte if the file has another encoding."""
    with file.open("rb") as opened:
        for number, line in enumerate(opened, start=1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError as error:
                raise WorkloadError(
                    f'file "{file}" is not UTF-8: line {number}, byte {error.start + 1} is '
                    f"0x{line[error.start]:02x}",
                    hint=f"If it is Latin-1: iconv -f latin1 -t utf8 {shlex.quote(str(file))} > utf8.csv",
                ) from None


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
