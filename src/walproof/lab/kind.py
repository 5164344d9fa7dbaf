"""What the frame of the lab asks of every kind of study: its tables, its plan, its needs, its trials."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

from walproof.facts import Install, Kind, Plan, Variant, Workload
from walproof.lab.asked import Asked
from walproof.lab.initdb_options import segment_mb_of
from walproof.lab.studyfile import StudyFile, StudyTable, VariantTable
from walproof.lab.trial import Bench, Trials
from walproof.settings.durability import DurabilityClass

K = TypeVar("K", bound=Kind)


@dataclass(frozen=True, slots=True)
class Length:
    """How long all trials of a plan take at most, in seconds."""

    window_s: float
    """The part of it that lies inside windows."""
    duration_s: float


class LabKind(ABC, Generic[K]):
    """The live half of a kind of study; its other half is ``walproof.report.kind.ReportKind``.

    What most kinds have in common is implemented here.
    """

    kind: type[K]
    tables: ClassVar[Mapping[str, type[StudyTable]]] = {}
    """Name -> table of the study file that it brings along."""
    variant_tables: ClassVar[Mapping[str, type[StudyTable]]] = {}
    """Name -> table of ``[[variant]]``."""
    conditions_among_settings: ClassVar[Mapping[str, Callable[[str], object]]] = {}
    """What is typed among a variant's settings or as factors, and is a condition of its trials: its name, and
    what reads a value. That raises StudyError or DiskError for one that cannot be."""
    takes_workload: ClassVar[bool] = True
    """Whether a workload says more of it than a name for its load, so that a study needs one."""
    works_in_memory: ClassVar[bool] = False
    """Whether its clusters live in memory if the user names no folder, because their disk is simulated
    anyway."""
    moves_wal: ClassVar[bool] = False
    """Whether a variant may have its WAL in another folder."""
    has_standbys: ClassVar[bool] = False
    """Whether its standbys may be on other hosts (:mod:`walproof.lab.between`)."""
    has_synchronous_standby: ClassVar[bool] = False
    """Whether it has one that commits wait for, which it names itself."""
    toggles: ClassVar[bool] = False
    """Whether the settings of a server may be toggled under its load."""
    cuts_on_request: ClassVar[bool] = False
    """Whether ``--power-cut`` has a meaning."""
    instead_of_additions: ClassVar[str | None] = None
    """A hint for whoever wants to add a crash or a power cut."""
    hint_when_missing: ClassVar[str | None] = None
    """A hint that says where to get what ``missing`` names."""

    @abstractmethod
    def sign(self, study: StudyFile) -> str | None:
        """The table, such as ``[replay]``, that says that the file is of this kind; None if there is none."""

    @abstractmethod
    def resolve(self, asked: Asked) -> K:
        """The plan's kind. Raises StudyError if something in the study has no meaning for it."""

    def workload(self, workload: Workload, kind: K, asked: Asked) -> Workload:
        """The workload, as this kind drives it."""
        return workload

    def variant(self, variant: Variant, kind: K, table: VariantTable | None) -> Variant:
        """The variant with its conditions, and without them among its settings.

        ``table`` is what was typed; None for a cell of a factorial design. Raises StudyError.
        """
        return variant

    def missing(self, variant: Variant, install: Install) -> str | None:
        """What keeps an install, or this machine, from the conditions of a variant.

        A variant that is optional is left out with this reason; without others the study is refused.
        """
        return None

    def risk(self, variant: Variant, settings: Mapping[str, str]) -> DurabilityClass:
        """What may be lost because of a variant's conditions, beside what its complete ``settings`` risk on
        a server alone."""
        return DurabilityClass.NONE

    def loses_power(self, plan: Plan) -> bool:
        """Whether a trial cuts the power of a simulated disk."""
        return plan.kind.cut_images > 0

    def simulates_disk(self, plan: Plan) -> bool:
        """Whether a server runs on a simulated disk."""
        has_device = plan.device is not None or any(variant.device is not None for variant in plan.variants)
        return has_device or self.loses_power(plan)

    def segment_mb(self, kind: K, initdb_options: Sequence[str]) -> int:
        """The size in MB of the largest WAL segments that its clusters have, with the study's options."""
        return segment_mb_of(initdb_options)

    def wal_bytes(self, plan: Plan, wal_bytes: int) -> int:
        """The most WAL that a trial keeps, if max_wal_size allows ``wal_bytes``."""
        return wal_bytes

    def disk_bytes(self, plan: Plan, wal_bytes: int) -> int | None:
        """Disk space that the run takes; None: that of pgbench's tables and a copy of them."""
        return None

    def length(self, plan: Plan, length: Length) -> Length:
        """How long the plan takes, if its windows and their overhead take ``length``."""
        return length

    @abstractmethod
    def prepare(self, bench: Bench) -> Trials:
        """Prepare what all trials start from. Raises a WalproofError."""
