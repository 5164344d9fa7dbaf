"""What a study is resolved with: the changes from the command line, and where its files are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from walproof.errors import StudyError
from walproof.facts import Install, Placing, Promise
from walproof.lab.studyfile import StudyFile
from walproof.sentences import say_list


@dataclass(frozen=True, slots=True)
class Overrides:
    """What the command line changes in a study."""

    quick: bool = False
    base: Mapping[str, str] = field(default_factory=dict)
    rounds: int | None = None
    within: float | None = None
    budget_s: float | None = None
    duration_s: float | None = None
    warmup_s: float | None = None
    pg: tuple[str, ...] = ()
    seed: int | None = None
    probes: tuple[str, ...] | None = None
    device: str | None = None
    """The emulated disk, as typed."""
    power_cut_images: int | None = None
    """How many images of a power cut there are in each trial."""
    design: str | None = None
    """As typed: a value of ``[design] design``."""
    settle_s: float | None = None
    """Seconds of load before windows and slices, so that they lie where the server is steady."""
    passes: int | None = None
    """Passes in each start, if variants are toggled or take turns."""
    waldir: Path | None = None
    """The folder for pg_wal of one additional variant, which is otherwise the baseline."""
    fail_if: tuple[Promise, ...] = ()
    """The promises that the run has to decide."""
    between: bool = False
    """Whether each variant is run once more, with its standbys on other hosts."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A study file, and everything else that its plan depends on."""

    study: StudyFile
    overrides: Overrides
    scripts: Path
    """The folder that file names in the study are relative to."""
    driver: Install

    @property
    def quick(self) -> bool:
        """Whether the quick form is asked for."""
        return self.overrides.quick

    @property
    def place(self) -> Placing:
        """Where windows and slices lie after the checkpoint that precedes the load."""
        if self.overrides.settle_s is not None:
            return Placing.STEADY
        return Placing(self.study.design.place)

    @property
    def settle_s(self) -> float:
        """Seconds of load between that checkpoint and them if the place is steady."""
        return self.study.design.settle if self.overrides.settle_s is None else self.overrides.settle_s

    def refuse_lengths(self, noun: str, hint: str) -> None:
        """Refuse --duration and --warmup, for kinds whose trials have a length of their own, which is said
        elsewhere. Raises StudyError."""
        typed = {"--duration": self.overrides.duration_s, "--warmup": self.overrides.warmup_s}
        for flag, seconds in typed.items():
            if seconds is not None:
                raise StudyError(f"{flag} has no meaning in a study of {noun}", hint=hint)

    def refuse_device(self, noun: str, detail: str, hint: str = "Run the study without --device.") -> None:
        """Refuse an emulated disk, for kinds whose trials flush nothing that matters. Raises StudyError."""
        if self.overrides.device is not None:
            raise StudyError(f"--device has no meaning in a study of {noun}", detail=detail, hint=hint)

    def refuse_workload_keys(self, noun: str, detail: str, hint: str) -> None:
        """Refuse what the study's only workload has beside a name, for kinds whose load is fixed. Raises
        StudyError."""
        (workload,) = self.study.workload
        if typed := sorted(workload.model_fields_set - {"name"}):
            raise StudyError(
                f'workload "{workload.name}" of a study of {noun} has {say_list(typed)}',
                detail=detail,
                hint=hint,
            )


def text_of(value: str, folder: Path, noun: str, *, must: bool = False) -> str:
    """The text of a file named ``value``, or ``value`` itself if it is not the name of an SQL file, as where
    it has several lines.

    ``must``: it has to be the name of a file. Raises StudyError.
    """
    if not must and ("\n" in value.strip() or not value.strip().endswith(".sql")):
        return value
    path = folder / value.strip()
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise StudyError(f'could not read {noun} "{path}": {error.strerror}') from error
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise StudyError(
            f'could not read {noun} "{path}": line {line} is not UTF-8',
            detail=f"Byte {error.start + 1} of the file is 0x{error.object[error.start]:02x}.",
            hint="Save the file as UTF-8.",
        ) from error
