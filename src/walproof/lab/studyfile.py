"""The study file: TOML as its author types it, checked key by key.

What was typed (this module) and what it means (``walproof.lab.study``, which makes a Plan) are different
types. A mistake is reported with file, line and key.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PositiveInt, ValidationError

from walproof.errors import StudyError, UnitError
from walproof.facts import LoadFeed, LoadStep, NameRule
from walproof.units import parse_duration_s


def _duration(value: object) -> float:
    if not isinstance(value, (str, int, float)) or isinstance(value, bool):
        raise ValueError('expected a duration such as "10s" or "2min"')  # noqa: TRY004 - for pydantic
    try:
        seconds = parse_duration_s(value)
    except UnitError as error:
        raise ValueError(f"{error.message}; {error.hint}") from None
    if seconds < 0:
        raise ValueError("a duration cannot be negative")
    return seconds


def _value(value: object) -> str:
    """A setting's value as postgresql.conf would have it: TOML's true is ``on``, 4 is ``4``."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, (str, int, float)):
        return str(value)
    raise ValueError('expected a string, number or boolean, such as "4GB"')


Duration = Annotated[float, BeforeValidator(_duration)]
Value = Annotated[str, BeforeValidator(_value)]
Settings = dict[str, Value]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ScriptTable(_Table):
    """``[[workload.script]]``: SQL for pgbench, in the file itself or beside it."""

    file: str | None = None
    sql: str | None = None
    weight: PositiveInt = 1


class StatementTable(_Table):
    """``[[workload.statement]]``: measured by itself, on a quiet server."""

    name: str
    sql: str
    setup: tuple[str, ...] = ()
    explain: bool = False


class WorkloadTable(_Table):
    """``[[workload]]``."""

    name: str
    builtin: Literal["tpcb-like", "simple-update", "select-only"] | None = None
    script: tuple[ScriptTable, ...] = ()
    statement: tuple[StatementTable, ...] = ()
    scale: PositiveInt = 1
    clients: PositiveInt = 1
    threads: PositiveInt = 1
    duration: Duration | None = None
    transactions: PositiveInt | None = None
    rate: Annotated[float, Field(gt=0)] | None = None
    protocol: Literal["simple", "extended", "prepared"] = "simple"
    warmup: Duration = 0.0
    setup: str | None = None


class CutTable(_Table):
    """``[variant.cut]``: the simulated disk and the cluster of the variant's power cuts."""

    unit: Literal["512B", "4kB", "8kB"] | None = None
    writeback: Duration | Literal["never"] = 30.0
    names: NameRule = "journal"
    failing_flush: bool = False
    checksums: bool = True
    unlogged: bool = False


class PowerCutTable(_Table):
    """``[power_cut]``: power cuts in each trial."""

    images: PositiveInt = 4
    only: bool = False


class ReplayTable(_Table):
    """``[replay]``: each trial replays the WAL of that many inserted rows."""

    rows: PositiveInt = 200_000
    preloaded_rows: PositiveInt = 300_000
    rows_per_commit: PositiveInt = 500
    quick_rows: PositiveInt = 50_000


class StreamingTable(_Table):
    """``[streaming]``: each trial loads a primary while its standby streams."""

    preloaded_rows: PositiveInt = 300_000
    rows_per_commit: Annotated[int, Field(ge=5, le=5000)] = 500


class CrashTable(_Table):
    """``[crash]``: each trial's server is killed when its load ends, and recovered."""

    cold: bool = False
    predict: bool = False
    iops: PositiveInt | None = None
    power_cut: bool = False


class FailoverTable(_Table):
    """``[failover]``: each trial is a pair that loses its primary."""

    load: Duration = 5.0
    quick_load: Duration = 2.0
    sessions: Annotated[int, Field(ge=1, le=8)] = 4


class LoadTable(_Table):
    """``[load]``: each trial loads rows into a table."""

    table: str
    ddl: str
    """SQL, or the name of an SQL file beside the study."""
    ddl_as_superuser: bool = False
    """The DDL and the loads run as superuser, not as a role of their own."""
    rows: PositiveInt = 300_000
    quick_rows: PositiveInt = 20_000
    file: str | None = None
    filled: Annotated[int, Field(ge=0)] = 0
    replay: str | None = None
    crash: bool = False
    power_cut: Annotated[int, Field(ge=0, le=16)] = 0


class MethodTable(_Table):
    """``[variant.load]``: how a variant loads."""

    feed: LoadFeed = "copy"
    batch_rows: PositiveInt | None = None
    sessions: Annotated[int, Field(ge=1, le=64)] = 1
    steps: tuple[LoadStep, ...] = ()
    rows_most: PositiveInt | None = None


class VariantTable(_Table):
    """``[[variant]]``."""

    name: str
    settings: Settings = {}
    note: str | None = None
    optional: bool = False
    """Left out, and named, where an install does not have it."""
    waldir: str | None = None
    """Folder that pg_wal is moved to, absolute or beside the study."""
    cut: CutTable = CutTable()
    load: MethodTable = MethodTable()


class DesignTable(_Table):
    """``[design]``: how many trials, in what shape."""

    rounds: PositiveInt | None = None
    half_width: Annotated[float, Field(gt=0, lt=1)] | None = None
    budget: Duration | None = None
    fraction: str = "full"
    checkpoint: Literal["before window", "none"] = "before window"
    seed: int = 1
    probes: tuple[str, ...] | None = None
    flush_rates: bool = False


class QuickTable(_Table):
    """``[quick]``: what ``--quick`` replaces."""

    rounds: PositiveInt = 3
    duration: Duration | None = None
    transactions: PositiveInt | None = None


class FigureTable(_Table):
    """``[[reference.figure]]``: a published figure."""

    variant: str
    workload: str | None = None
    tps: float | None = None
    latency_ms_avg: float | None = None
    latency_ms_stddev: float | None = None
    metrics: dict[str, float] = {}


class ReferenceTable(_Table):
    """``[reference]``: a publication that the study can be read beside."""

    source: str
    figure: tuple[FigureTable, ...] = ()


class StudyFile(_Table):
    """A whole study file."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*$")]
    title: str
    description: str = ""
    baseline: str | None = None
    pg: tuple[Value, ...] = ()
    initdb: tuple[str, ...] = ()
    base: Settings = {}
    workload: Annotated[tuple[WorkloadTable, ...], Field(min_length=1)]
    variant: tuple[VariantTable, ...] = ()
    factors: dict[str, Annotated[tuple[Value, ...], Field(min_length=2)]] = {}
    design: DesignTable = DesignTable()
    quick: QuickTable = QuickTable()
    power_cut: PowerCutTable | None = None
    replay: ReplayTable | None = None
    streaming: StreamingTable | None = None
    failover: FailoverTable | None = None
    crash: CrashTable | None = None
    load: LoadTable | None = None
    reference: ReferenceTable | None = None


def read_study_file(path: Path) -> StudyFile:
    """Read and check a study file. Raises StudyError naming file, line and key."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise StudyError(
            f'could not read study file "{path}"', detail=getattr(error, "strerror", None) or str(error)
        ) from error
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise StudyError(f'study file "{path}" is not valid TOML', detail=str(error)) from error
    return check_study(data, str(path), text)


def check_study(data: dict[str, Any], where: str, text: str = "") -> StudyFile:
    """Check a study that was read from TOML. Raises StudyError listing every mistake."""
    try:
        return StudyFile.model_validate(data)
    except ValidationError as error:
        problems = []
        for one in error.errors():
            line = line_of(text, one["loc"])
            place = f"{where}:{line}" if line else where
            problems.append(f"{place}: {_key(one['loc'])}: {_complaint(dict(one))}")
        raise StudyError(
            f'study file "{where}" has {len(problems)} mistake{"s" if len(problems) > 1 else ""}',
            detail="\n".join(problems),
            hint='"walproof studies NAME" prints a built-in study as an example.',
        ) from None


def line_of(text: str, loc: tuple[int | str, ...]) -> int | None:
    """Line (from 1) of the key at ``loc`` in TOML text, as far as a plain reading of it can tell."""
    lines = text.splitlines()
    start, found = 0, None
    for position, part in enumerate(loc):
        if isinstance(part, int):
            continue
        index = loc[position + 1] if position + 1 < len(loc) else None
        count = index if isinstance(index, int) else 0
        path = ".".join(str(word) for word in loc[: position + 1] if isinstance(word, str))
        header = re.compile(rf"\s*\[\[?\s*(?:{re.escape(path)}|{re.escape(part)})\s*\]\]?")
        key = re.compile(rf'(?:.*[{{,])?\s*"?{re.escape(part)}"?\s*=')
        headers = [n for n in range(start, len(lines)) if header.match(lines[n])]
        if len(headers) > count:
            start = found = headers[count]
        else:
            keys = [n for n in range(start, len(lines)) if key.match(lines[n])]
            if keys:
                start = found = keys[0]
    return None if found is None else found + 1


def _key(loc: tuple[int | str, ...]) -> str:
    text = ""
    for part in loc:
        text += f"[{part + 1}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def _complaint(error: dict[str, Any]) -> str:
    kind = error["type"]
    if kind == "extra_forbidden":
        return "no such key"
    if kind == "missing":
        return "this key is missing"
    message = str(error["msg"]).removeprefix("Value error, ")
    got = error.get("input")
    return f"{message}, got {got!r}" if isinstance(got, (str, int, float)) else message
