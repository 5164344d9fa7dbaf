"""What was asked: a study after every default, override and name has been resolved (Plan)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple, TypeVar

from walproof.facts.gate import Gate
from walproof.facts.kinds import (
    Conditions,
    Kind,
)
from walproof.settings.durability import DurabilityClass

C = TypeVar("C", bound=Conditions)
K = TypeVar("K", bound=Kind)


class Design(Enum):
    """How a variant is compared with the baseline."""

    FRESH = "fresh"
    """Each trial has a server of its own, a clone of the same files; ratios are formed within rounds."""
    TOGGLED = "toggled"
    """One server under one load, whose settings are changed before each short slice; ratios are formed
    within passes."""
    SLICED = "sliced"
    """All variants' servers are up at once and one load is awake at a time, for a short slice; a start of all
    of them gives one ratio. So do servers of several builds, or of versions of a load, take turns."""


class Placing(Enum):
    """Where windows and slices lie after the checkpoint that precedes the load; the same for all variants."""

    AFTER_CHECKPOINT = "after checkpoint"
    """Right after it, when the first change of a page writes an image of the page."""
    STEADY = "steady"
    """After enough load that most of the changing pages have had their image."""


class Cell(NamedTuple):
    """The install, workload and variant of a trial; every round has one trial of each cell."""

    install: str
    """Its label."""
    workload: str
    variant: str


PLAN_FORMAT = 2
"""Part of a plan's identity: raised whenever the meaning of a trial changes."""


@dataclass(frozen=True, slots=True)
class Install:
    """A PostgreSQL binary directory as a plan names it."""

    label: str
    """Its name in tables: ``18.3``, or ``18.3 (system)`` where two have the same version."""
    version: str
    version_num: int
    """As ``SHOW server_version_num``: 180003."""
    bindir: str
    origin: str
    """Where it was found: ``given``, ``pg_config``, ``system``, ``installed`` or ``embedded``."""


@dataclass(frozen=True, slots=True)
class Script:
    """A pgbench script with its weight among the scripts of a workload."""

    name: str
    text: str
    weight: int = 1


@dataclass(frozen=True, slots=True)
class Statement:
    """An SQL statement whose WAL is measured by itself."""

    name: str
    sql: str
    setup: tuple[str, ...] = ()
    """Statements that run before it and are not measured."""
    explain: bool = False
    """Whether it is run under EXPLAIN (ANALYZE, WAL), which counts too."""


@dataclass(frozen=True, slots=True)
class Workload:
    """A pgbench load, or statements one after the other on a quiet server.

    Exactly one of ``builtin``, ``scripts`` and ``statements``; a load has ``duration_s`` or ``transactions``.
    """

    name: str
    builtin: str | None
    scripts: tuple[Script, ...]
    scale: int
    clients: int
    threads: int
    duration_s: float | None
    """Length of the measurement window; None when each client runs ``transactions``."""
    transactions: int | None
    """Transactions per client; the window is then the whole run."""
    rate_tps: float | None
    """Offered load (pgbench --rate); None runs flat out."""
    protocol: str
    """``simple``, ``extended`` or ``prepared``."""
    warmup_s: float
    """Load before the window opens; not measured."""
    setup_sql: str | None = None
    """SQL that makes the workload's own tables, run after pgbench's initialisation."""
    statements: tuple[Statement, ...] = ()

    @property
    def is_pgbenchs_own(self) -> bool:
        """Whether its tables are pgbench's, changed by pgbench's own transactions alone."""
        return self.builtin is not None and self.setup_sql is None


@dataclass(frozen=True, slots=True)
class Variant:
    """A configuration under comparison."""

    name: str
    settings: Mapping[str, str]
    """What the variant sets, as typed; base settings and implied ones are apart."""
    implied: Mapping[str, str] = field(default_factory=dict)
    """Settings that the server needs to start with the others (wal_level=minimal brings
    max_wal_senders=0)."""
    durability: DurabilityClass = DurabilityClass.NONE
    note: str | None = None
    levels: Mapping[str, str] = field(default_factory=dict)
    """Level of each factor, when the variant is a cell of a factorial design."""
    conditions: Conditions | None = None
    """Its conditions apart from settings, as the plan's kind allows; None: the default ones."""
    waldir: str | None = None
    """Folder that pg_wal is moved to, as on a disk of its own; None: it stays in the data directory."""
    device: str | None = None
    """The emulated disk of this variant, as typed; None: the plan's."""
    design: Design = Design.FRESH
    """How it is compared with the baseline."""
    design_reason: str | None = None
    """The reason for that design, in a sentence; None where the study leaves no choice."""

    def conditions_as(self, cls: type[C]) -> C:
        """What it has beside settings, of the class that the plan's kind has. Raises TypeError."""
        if self.conditions is None:
            return cls()
        if not isinstance(self.conditions, cls):
            raise TypeError(f'variant "{self.name}" has {self.conditions!r}, expected {cls.__name__}')
        return self.conditions


@dataclass(frozen=True, slots=True)
class Reference:
    """A published figure that a study can be read beside."""

    variant: str
    workload: str | None
    tps: float | None = None
    latency_ms_avg: float | None = None
    latency_ms_stddev: float | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Other figures, under the names that our own metrics have."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """An optional variant that one of the installs cannot run."""

    variant: str
    reason: str


RELOAD_S = 0.005
"""Approximate time until a session has the settings of a slice."""


@dataclass(frozen=True, slots=True)
class Toggling:
    """How the slices of a start are cut, of one server that is toggled or of servers that take turns. A trial
    is one start, for as long as its slices take, whatever the workload's duration."""

    baseline: str
    """The variant that the others of the design are compared with; starts are stored as its trials."""
    starts: int
    """Number of starts of the server, or of all servers; one in each of the first rounds."""
    passes: int
    """Passes in a start; each has one slice of every variant of the design."""
    slice_s: float
    guard_s: float
    """Time left out before each slice, after a session has its settings or its load was woken."""

    def start_s(self, variants: int) -> float:
        """Approximate time of the slices of a start with this many variants."""
        return self.passes * variants * (self.slice_s + self.guard_s + RELOAD_S)


@dataclass(frozen=True, slots=True)
class Plan:
    """A study after every default, override and name has been resolved; its hash identifies the run."""

    study: str
    title: str
    description: str
    kind: Kind
    installs: tuple[Install, ...]
    driver: Install
    """The install whose pgbench makes the load in every trial."""
    workloads: tuple[Workload, ...]
    base_settings: Mapping[str, str]
    variants: tuple[Variant, ...]
    baseline: str
    """Name of the variant that the others are compared with."""
    factors: Mapping[str, tuple[str, ...]]
    """Setting -> its levels, the first being the reference level; empty unless the design is factorial."""
    fraction: str
    """``full``, or the name of the fraction of the factorial that is run."""
    aliases: tuple[str, ...]
    """What a fraction cannot tell apart, for instance ``fsync*wal_level = full_page_writes``."""
    rounds: int
    """Rounds to run; the most rounds when ``half_width`` or ``budget_s`` may stop earlier."""
    half_width: float | None
    """Run as many rounds as it takes to know every effect within +- this share (0.03 = 3 %) of its ratio."""
    budget_s: float | None
    """Begin no round that would end after this much time."""
    initdb_options: tuple[str, ...]
    checkpoint_before: bool
    """CHECKPOINT right before the window."""
    probes: tuple[str, ...]
    seed: int
    folder: str
    """Folder where the clusters live: its disk is the disk that is measured."""
    references: tuple[Reference, ...] = ()
    reference_source: str | None = None
    left_out: tuple[LeftOut, ...] = ()
    flush_rates: bool = False
    """Measure how fast the disk flushes, by method, before the first trial (pg_test_fsync)."""
    quick: bool = False
    device: str | None = None
    """The emulated disk, as typed (``doc-000-vm``, ``flush=1.43ms,write=200MB/s``); None: the disk itself."""
    toggling: Toggling | None = None
    """Slicing of the toggled server; None where no variant is toggled."""
    slicing: Toggling | None = None
    """Slicing of servers that are up together and take turns; None where no variant is sliced."""
    place: Placing = Placing.AFTER_CHECKPOINT
    gate: Gate | None = None
    """Promises that the run decides; it ends when they are decided."""
    format: int = PLAN_FORMAT
    notes: tuple[str, ...] = ()
    """Sentences about what was asked and is not measured, or shows nothing."""
    same: tuple[str, ...] = ()
    """Variants that differ from the baseline in nothing that acts; none in plans of before this was noted."""

    def __post_init__(self) -> None:
        for variant in self.variants:
            if variant.conditions is not None and type(variant.conditions) is not self.kind.conditions:
                raise ValueError(
                    f'variant "{variant.name}" of a study of {self.kind.noun} has conditions of '
                    f"{variant.conditions.name}"
                )

    def kind_as(self, cls: type[K]) -> K:
        """The kind, where the caller knows which it is. Raises TypeError."""
        if not isinstance(self.kind, cls):
            raise TypeError(f"a study of {self.kind.noun}, expected {cls.noun}")
        return self.kind

    def settings_of(self, variant: Variant) -> dict[str, str]:
        """Every setting that a server of the variant is started with: base, its own, and implied ones.

        Their names and words are those of SHOW, so that whoever asks for ``fsync`` finds ``off`` where
        ``FSYNC = "no"`` was typed.
        """
        from walproof.settings.catalogue import as_shown  # commands that list runs never ask

        return as_shown({**self.base_settings, **variant.settings, **variant.implied})

    @property
    def toggled(self) -> tuple[Variant, ...]:
        """The variants that are toggled on one server, their baseline among them, in the study's order."""
        return tuple(variant for variant in self.variants if variant.design is Design.TOGGLED)

    @property
    def sliced(self) -> tuple[Variant, ...]:
        """The variants whose servers take turns, their baseline among them, in the study's order."""
        return tuple(variant for variant in self.variants if variant.design is Design.SLICED)

    @property
    def turning(self) -> str | None:
        """The part of their cells in which servers that take turns differ: ``variant``, ``install`` where
        builds are compared, ``workload`` where a gate compares versions of a load. None without them."""
        if self.slicing is None:
            return None
        if self.gate is not None and self.gate.against is not None:
            return "workload"
        return "variant" if len(self.installs) == 1 else "install"

    @property
    def turns(self) -> tuple[str, ...]:
        """The names of those servers in slices."""
        match self.turning:
            case "workload":
                return tuple(workload.name for workload in self.workloads)
            case "install":
                return tuple(install.label for install in self.installs)
        return tuple(variant.name for variant in self.sliced)

    @property
    def turn_baseline(self) -> str | None:
        """The one of them that the others are compared with; a start is stored as a trial of its cell."""
        match self.turning:
            case "workload":
                return None if self.gate is None else self.gate.against
            case "install":
                return self.installs[0].label
        return None if self.slicing is None else self.slicing.baseline

    @property
    def toggles_all(self) -> bool:
        """Whether all variants are toggled on one server."""
        return len(self.toggled) == len(self.variants)

    @property
    def slices_all(self) -> bool:
        """Whether no variant has windows: all are toggled or sliced."""
        return all(variant.design is not Design.FRESH for variant in self.variants)

    @property
    def has_slices(self) -> bool:
        """Whether some variants have slices instead of windows."""
        return self.toggling is not None or self.slicing is not None

    def shared_cells(self, own: Cell) -> Mapping[str, Cell]:
        """The cells that share the trials of that one, by their names in slices: variants of a toggled
        server, or servers that take turns. Empty where no other cell does."""
        if self.toggling is not None and own.variant == self.toggling.baseline:
            return {variant.name: own._replace(variant=variant.name) for variant in self.toggled}
        part = self.turning
        if part is None or getattr(own, part) != self.turn_baseline:
            return {}
        return {name: own._replace(**{part: name}) for name in self.turns}

    def baseline_of(self, variant: str) -> str:
        """The variant that the one of that name is compared with: the baseline of its design."""
        design = self.variant(variant).design
        if design is Design.TOGGLED and self.toggling is not None:
            return self.toggling.baseline
        if design is Design.SLICED and self.slicing is not None:
            return self.slicing.baseline
        return self.baseline

    def round_cells(self, number: int) -> tuple[Cell, ...]:
        """The cell of every trial of that round, in the order of the study.

        The variants that are toggled share a trial, a start of their server, whose cell is their baseline's;
        so do those that are sliced, and builds or versions of a load that take turns.
        """
        shared = {variant.name for variant in (*self.toggled, *self.sliced)}
        for cut in (self.toggling, self.slicing):
            if cut is not None and number <= cut.starts:
                shared.remove(cut.baseline)
        part = "variant" if self.turning is None else self.turning
        return tuple(
            cell
            for cell in self.cells
            if cell.variant not in shared and (part == "variant" or getattr(cell, part) == self.turn_baseline)
        )

    @property
    def trials_most(self) -> int:
        """Trials of all rounds."""
        return sum(len(self.round_cells(number)) for number in range(1, self.rounds + 1))

    @property
    def cells(self) -> tuple[Cell, ...]:
        """Everything that is compared, in the order of the study: a trial of each in every round, except
        where cells share trials (:meth:`round_cells`)."""
        return tuple(
            Cell(install.label, workload.name, variant.name)
            for install in self.installs
            for workload in self.workloads
            for variant in self.variants
        )

    def variant(self, name: str) -> Variant:
        """The variant of that name. Raises KeyError."""
        for variant in self.variants:
            if variant.name == name:
                return variant
        raise KeyError(name)

    def workload(self, name: str) -> Workload:
        """The workload of that name. Raises KeyError."""
        for workload in self.workloads:
            if workload.name == name:
                return workload
        raise KeyError(name)

    def references_of(self, workload: str) -> tuple[Reference, ...]:
        """The published figures of that workload; one that names none is about the first."""
        first = self.workloads[0].name
        return tuple(reference for reference in self.references if (reference.workload or first) == workload)

    def install(self, label: str) -> Install:
        """The install of that label. Raises KeyError."""
        for install in self.installs:
            if install.label == label:
                return install
        raise KeyError(label)
