"""The files of a drafted load, and what is kept of it beside them."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import replace
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

from walproof.errors import StoreError, StudyError, WalproofError

if TYPE_CHECKING:
    from walproof.advise.workload.draft import Draft
    from walproof.facts.drafted import DraftedLoad

INTERRUPTED = "its try was interrupted."
_MAJOR = re.compile(r"[1-9][0-9]?")


def write(made: Draft, to: Path, before: Draft | None = None) -> None:
    """Write the files, in place of those of the draft before. Raises StoreError."""
    from walproof.files import private_folder, write_whole

    try:
        private_folder(to)
        for name in set() if before is None else set(before.files) - set(made.files):
            (to / name).unlink(missing_ok=True)
        for name, text in made.files.items():
            write_whole(to / name, text)
    except OSError as error:
        raise StoreError(
            f'could not write the load to "{to}": {error.strerror}', hint="Name another folder with --to."
        ) from error


def keep(load: DraftedLoad) -> None:
    """Write the facts of the load beside its files. Raises StoreError."""
    from walproof.facts.codec import to_json
    from walproof.facts.drafted import FILE
    from walproof.files import write_whole

    path = Path(load.file).parent / FILE
    try:
        write_whole(path, to_json(load) + "\n")
    except OSError as error:
        raise StoreError(f'could not write "{path}": {error.strerror}') from error


def read_draft(file: Path) -> DraftedLoad:
    """What is kept of the load of a file, which may be in another folder now. Raises StudyError."""
    from walproof.facts.codec import from_json
    from walproof.facts.drafted import FILE, FORMAT, DraftedLoad
    from walproof.files import reason

    path = file.parent / FILE
    if not file.is_file():
        raise StudyError(f'"{file}" is not there', hint='"walproof workload" writes it with a load\'s files.')
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise StudyError(
            f'could not read "{path}"',
            detail=reason(error),
            hint='"walproof workload" writes it beside the load: it says what the application does.',
        ) from error
    if (found := _format(text)) != FORMAT:
        raise StudyError(
            f'"{path}" is no draft of this version of walproof: its format is {found}, expected {FORMAT}'
        )
    try:
        load = from_json(DraftedLoad, text)
    except StoreError as error:
        raise StudyError(f'"{path}" is damaged', detail=error.detail) from error
    if (wrong := _wrong(load)) is not None:
        raise StudyError(f'"{path}" is damaged', detail=wrong)
    return replace(load, file=str(file), conf=str(file.parent / Path(load.conf).name))


def _format(text: str) -> object:
    """None for what is not JSON, or has none."""
    with suppress(ValueError, RecursionError):
        data = json.loads(text)
        if isinstance(data, dict):
            return data.get("format")
    return None


def _wrong(load: DraftedLoad) -> str | None:
    """The first value that no draft has; None for a sound one."""
    from walproof.advise.workload.repeats import TIMES_MOST
    from walproof.disk.device import parse_device
    from walproof.units import parse_bytes

    if _MAJOR.fullmatch(load.pg) is None:
        return f"pg: expected a major version of PostgreSQL, got {load.pg[:40]!r}"
    numbers = (load.seconds or 0.0, load.rate or 0.0, load.calls_share, load.wal_share)
    if not all(isfinite(number) and number >= 0 for number in numbers):
        return f"seconds, rate, calls_share, wal_share: expected finite numbers, got {numbers}"
    for script in load.scripts:
        if not (isfinite(script.calls) and script.calls >= 0):
            return f"scripts.calls: expected a number of calls, got {script.calls}"
        for each in script.statements:
            figures = (each.calls, each.rows, each.wal_records, each.wal_bytes)
            if each.calls <= 0 or not all(isfinite(figure) and figure >= 0 for figure in figures):
                return f"scripts.statements: expected counts above zero, got {figures}"
            if not 1 <= each.times <= 1 + TIMES_MOST:
                return f"scripts.statements.times: expected 1 to {1 + TIMES_MOST}, got {each.times}"
    if any(table.law is not None and table.parameter is None for table in load.tables):
        return "tables.parameter: a law has one"
    try:
        if load.device is not None:
            parse_device(load.device)
        if load.shared_buffers is not None:
            parse_bytes(load.shared_buffers)
    except WalproofError as error:
        return error.message
    return None
