"""Options of commands that measure a study, and how their texts are read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Protocol

import typer

from walproof.cli import options
from walproof.cli.declaration import Override, Repeated, RepeatedAs
from walproof.errors import StudyError, UnitError


def parse_share(text: str) -> float:
    """``3%`` or ``0.03`` -> 0.03. Raises UnitError."""
    number = text.strip().removesuffix("%").strip()
    try:
        share = float(number) / (100 if text.strip().endswith("%") else 1)
    except ValueError:
        share = 0.0
    if not 0 < share < 1:
        raise UnitError(f'invalid share: "{text}"', hint="Write 3% or 0.03.")
    return share


def parse_names(text: str) -> tuple[str, ...]:
    """``wal,waits`` -> those two; ``none`` -> nothing."""
    return () if text == "none" else tuple(name.strip() for name in text.split(",") if name.strip())


def one_configuration(texts: Sequence[str]) -> dict[str, str]:
    """Settings of every variant, of all texts together; the last word counts. Raises SettingError."""
    return {name: value for settings in options.parse_sets(texts) for name, value in settings.items()}


def installs(texts: Sequence[str]) -> tuple[str, ...]:
    """Installs in the order in which they were named."""
    return tuple(texts)


Pg = Annotated[
    list[str] | None,
    typer.Option(
        "--pg", metavar="DIR|VERSION",
        help="PostgreSQL to run: a folder, 13.7, 16, embedded or embedded-16. May be repeated.",
    ),
    Override("pg", installs),
]  # fmt: skip
WalFolder = Annotated[
    Path | None,
    typer.Option(
        "--waldir", metavar="FOLDER", help="Add a variant with pg_wal in this folder, as on another disk."
    ),
    Override("waldir"),
]
Rounds = Annotated[
    int | None,
    typer.Option(
        "--rounds", min=1,
        help="Rounds to run (at most). Default: the study's, or 5; more with --within, --budget or "
            "--fail-if; in slices 2, or 8 where servers take turns.",
    ),
    Override("rounds"),
]  # fmt: skip
DesignOption = Annotated[
    str | None,
    typer.Option(
        "--design", metavar="WORD",
        help="fresh (a server for each trial), toggled (settings changed on one server), sliced (servers "
            "that take turns), auto (chosen by the settings).",
    ),
    Override("design"),
]  # fmt: skip
Passes = Annotated[
    int | None,
    typer.Option(
        "--passes", min=2,
        help="Passes in each start of a toggled or sliced design. Default: the study's, or 25 toggled and "
            "8 sliced.",
    ),
    Override("passes"),
]  # fmt: skip
Settle = Annotated[
    str | None,
    typer.Option(
        "--settle", metavar="TIME",
        help="Measure after this much load, when most pages that change have had their image. Default: the "
            "study's, or none: right after a checkpoint.",
    ),
    Override("settle_s", options.duration_s),
]  # fmt: skip
Within = Annotated[
    str | None,
    typer.Option(
        "--within",
        metavar="SHARE",
        help="After a pilot, run as many rounds as it takes to know every ratio within this share, such as "
        "3%. Default: the study's, or none.",
    ),
    Override("within", parse_share),
]
Budget = Annotated[
    str | None,
    typer.Option(
        "--budget",
        metavar="TIME",
        help="As many rounds as end within this time, such as 30min. Says what it can tell.",
    ),
    Override("budget_s", options.budget_s),
]
Warmup = Annotated[
    str | None,
    typer.Option(
        "--warmup", metavar="TIME",
        help="Length of the load before each window. Default: the study's or the load's, or none.",
    ),
    Override("warmup_s", options.duration_s),
]  # fmt: skip
Seed = Annotated[
    int | None,
    typer.Option("--seed", help="Seed for orders and transactions. Default: the study's, or 1."),
    Override("seed"),
]
Device = Annotated[
    str | None,
    typer.Option(
        "--device", metavar="DISK", help="Emulate a disk: doc-000-vm, or flush=1.43ms,write=200MB/s."
    ),
    Override("device"),
]
PowerCut = Annotated[
    int | None,
    typer.Option(
        "--power-cut", metavar="N", min=1, help="Cut the power in each trial, too, and check N images."
    ),
    Override("power_cut_images"),
]
KeepFailures = Annotated[
    Path | None,
    typer.Option("--keep-failures", metavar="DIR", help="Keep images that fail after a power cut."),
]
Ray = Annotated[
    str | None,
    typer.Option(
        "--ray", metavar="HOST:PORT",
        help="Run on every host of this Ray cluster, each by itself (docs/many-machines.md).",
    ),
    Repeated.NEVER,
]  # fmt: skip
Hosts = Annotated[
    int | None,
    typer.Option("--hosts", metavar="N", min=1, help="With --ray: use this many hosts."),
    Repeated.NEVER,
]
Insecure = Annotated[options.Insecure, Repeated.NEVER]
Between = Annotated[
    bool,
    typer.Option(
        "--between",
        help="Add each variant once more, with primary and standbys on different hosts of --ray "
        "(docs/many-machines.md).",
    ),
    Override("between"),
]
Listen = Annotated[
    str | None,
    typer.Option(
        "--listen", metavar="INTERFACE|NETWORK",
        help="With --between: where servers listen on each host: eth1, 10.1.0.0/16. Default: the host's "
            "address in the cluster.",
    ),
    Repeated.NEVER,
]  # fmt: skip
Out = Annotated[options.Out, Repeated.CHANGED]
StoreUrl = Annotated[options.StoreUrl, RepeatedAs(options.repeatable_store)]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the resolved plan and stop."), Repeated.NEVER]
Json = Annotated[options.Json, Repeated.NEVER]
New = Annotated[
    bool, typer.Option("--new", help="Begin another run; leave an interrupted one alone."), Repeated.NEVER
]


class Execution(Protocol):
    """The options of every command that carries out a plan."""

    @property
    def out(self) -> Path:
        """Folder of results and reports."""

    @property
    def store(self) -> str | None:
        """Where facts are kept; None: in ``out``."""

    @property
    def dry_run(self) -> bool:
        """Whether the plan is only printed."""

    @property
    def json(self) -> bool:
        """Whether the result is printed as JSON."""

    @property
    def new(self) -> bool:
        """Whether an interrupted run is left alone."""


class HostExecution(Execution, Protocol):
    """The options of commands that many hosts can carry out."""

    @property
    def ray(self) -> str | None:
        """Address of a cluster's head; None: this machine runs the study."""

    @property
    def hosts(self) -> int | None:
        """How many of its hosts; None: all."""

    @property
    def insecure(self) -> bool:
        """Whether a cluster is used that is not safe."""

    @property
    def keep_failures(self) -> Path | None:
        """Folder for images that fail after a power cut."""


def check_hosts(given: HostExecution) -> None:
    """Refuse options of hosts without a cluster, and with one what a single machine does. Raises
    StudyError."""
    if given.ray is None and (given.hosts is not None or given.insecure):
        raise StudyError("--hosts and --insecure are for a study over hosts", hint="Add --ray.")
    if given.ray is not None and given.keep_failures is not None:
        raise StudyError(
            "--keep-failures is for one machine",
            detail="The images of each host would be in a folder of that host.",
            hint="Leave it out, or leave out --ray.",
        )
