"""The study file: TOML as its author types it, without the tables that kinds of study bring along.

What was typed (this module, and the ``study`` modules of ``walproof.lab.kinds``) and what it means
(``walproof.lab.study``, which makes a Plan) are different types.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from walproof.tomlfile import seconds_of


def value_text(value: object) -> str:
    """A setting's value as postgresql.conf would have it: TOML's true is ``on``, 4 is ``4``."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, (str, int, float)):
        return str(value)
    raise ValueError('expected a string, number or boolean, such as "4GB"')


T = TypeVar("T", bound="StudyTable")

Duration = Annotated[
    float,
    BeforeValidator(seconds_of),
    WithJsonSchema({"type": ["number", "string"], "description": 'seconds, or "10s", "2min"'}, "validation"),
]
Value = Annotated[
    str, BeforeValidator(value_text), WithJsonSchema({"type": ["string", "number", "boolean"]}, "validation")
]
Settings = dict[str, Value]
Whole = Annotated[int, Field(strict=True)]
"""A whole number; a text of digits is a mistake."""
Count = Annotated[Whole, Field(gt=0)]
Number = Annotated[float, Field(strict=True)]


class StudyTable(BaseModel):
    """A table of a study file: no key but those that it names."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    def find(self, cls: type[T]) -> T | None:
        """The table of that class within it, which a kind of study brings along; None if it has none."""
        return next((value for value in vars(self).values() if isinstance(value, cls)), None)


class ScriptTable(StudyTable):
    """``[[workload.script]]``: SQL for pgbench, in the file itself or beside it."""

    file: str | None = None
    sql: str | None = None
    weight: Count = 1


def _statement_name(name: str) -> str:
    if "|" in name:
        raise ValueError('a statement\'s name cannot have "|", which parts the names of its metrics')
    return name


class StatementTable(StudyTable):
    """``[[workload.statement]]``: measured by itself, on a quiet server."""

    name: Annotated[str, AfterValidator(_statement_name)]
    sql: str
    setup: tuple[str, ...] = ()
    explain: bool = False


class WorkloadTable(StudyTable):
    """``[[workload]]``."""

    name: str
    builtin: Literal["tpcb-like", "simple-update", "select-only"] | None = None
    script: tuple[ScriptTable, ...] = ()
    statement: tuple[StatementTable, ...] = ()
    scale: Count = 1
    clients: Count = 1
    threads: Count = 1
    duration: Duration | None = None
    transactions: Count | None = None
    rate: Annotated[Number, Field(gt=0)] | None = None
    protocol: Literal["simple", "extended", "prepared"] = "simple"
    warmup: Duration = 0.0
    setup: str | None = None


class VariantTable(StudyTable):
    """``[[variant]]``."""

    name: str
    settings: Settings = {}
    note: str | None = None
    optional: bool = False
    """Whether the variant is left out, and named, if an install does not have what it needs."""
    waldir: str | None = None
    """The folder that pg_wal is moved to, absolute or relative to the study."""


DesignChoice = Literal["auto", "fresh", "toggled", "sliced"]
"""Servers of their own for all variants, settings toggled on one, or servers that take turns; ``auto``: as
the settings allow."""


class DesignTable(StudyTable):
    """``[design]``: how many trials, in what shape."""

    design: DesignChoice = "fresh"
    passes: Annotated[Whole, Field(ge=2)] | None = None
    """Passes in each start; the default is 25 if settings are toggled, 8 if servers take turns."""
    slice: Annotated[Duration, Field(ge=0.05)] | None = None
    """The default is 0.6 s if settings are toggled, 0.3 s if servers take turns."""
    rounds: Count | None = None
    within: Annotated[Number, Field(gt=0, lt=1)] | None = None
    budget: Duration | None = None
    fraction: str = "full"
    checkpoint: Literal["before window", "none"] = "before window"
    place: Literal["after checkpoint", "steady"] = "after checkpoint"
    """Where windows and slices lie after that checkpoint."""
    settle: Annotated[Duration, Field(gt=0)] = 30.0
    """Load between the two if the place is ``steady``."""
    seed: Whole = 1
    probes: tuple[str, ...] | None = None
    flush_rates: bool = False


class QuickTable(StudyTable):
    """``[quick]``: what ``--quick`` replaces."""

    rounds: Count = 3
    duration: Duration | None = None
    transactions: Count | None = None
    design: DesignChoice | None = None
    """Gives way to ``fresh`` where something does not allow it."""
    passes: Annotated[Whole, Field(ge=2)] | None = None
    slice: Annotated[Duration, Field(ge=0.05)] | None = None
    budget: Duration | None = None


class FigureTable(StudyTable):
    """``[[reference.figure]]``: a published figure."""

    variant: str
    workload: str | None = None
    tps: Number | None = None
    latency_ms_avg: Number | None = None
    latency_ms_stddev: Number | None = None
    metrics: dict[str, Number] = {}


class ReferenceTable(StudyTable):
    """``[reference]``: a publication that the study can be read beside."""

    source: str
    figure: tuple[FigureTable, ...] = ()


class StudyFile(StudyTable):
    """A whole study file."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*$", max_length=150)]
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
    reference: ReferenceTable | None = None
    against: str | None = None
    """Workload that a gate compares the others with."""
