"""The frame of every trial: a clone in its own folder, what has been seen so far, and its facts.

What is done within the frame is the kind's (:mod:`walproof.lab.kinds`).
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from walproof.disk.simulated import SimulatedDisk
from walproof.errors import HostError, WalproofError
from walproof.facts import CutFacts, Install, Plan, Series, Slice, Trial, TrialState, Variant, Workload
from walproof.lab.emulated_disk import emulated_disk
from walproof.lab.failure import as_failure
from walproof.lab.joining import Joining, OtherHosts
from walproof.lab.schedule import Progress
from walproof.postgres import template as templates
from walproof.postgres.cluster import Cluster
from walproof.postgres.wal_folder import wal_moved
from walproof.postgres.workspace import Workspace
from walproof.probe.protocol import Observation
from walproof.units import Lsn


@dataclass(frozen=True, slots=True)
class TrialOrder:
    """Which trial to run."""

    number: int
    round: int
    install: str
    workload: str
    variant: str
    is_first: bool = True
    """Whether no trial of its cell has been run before."""


class Measured:
    """What has been seen so far; kept when the trial fails halfway."""

    def __init__(self) -> None:
        self.metrics: dict[str, float] = {}
        self.series: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {}
        self.settings: dict[str, str] = {}
        self.warnings: list[str] = []
        self.window_start: float | None = None
        self.window_s: float | None = None
        self.wal_start: Lsn | None = None
        self.cut: CutFacts | None = None
        self.slices: tuple[Slice, ...] = ()
        self.log: str | None = None

    @contextmanager
    def added(self, what: str) -> Iterator[None]:
        """Run something that was added to the trial: if it fails, what was measured before still holds."""
        try:
            with as_failure():
                yield
        except WalproofError as error:
            self.warnings.append(f"{what}: not measured: {error.message}")
            self.log = None

    def add(self, probe: str, seen: Observation) -> None:
        """Take over what a probe saw."""
        self.metrics.update(seen.metrics)
        self.series.update(seen.series)
        self.warnings += [f"{probe}: {warning}" for warning in seen.warnings]


class DataCopies(Protocol):
    """Data directories that several trials use, one after the other."""

    def fetch(self, template: Path, folder: Path) -> None:
        """Put a copy of the template's data directory into ``folder``."""

    def keep(self, template: Path, folder: Path) -> None:
        """Take the data directory back."""


@dataclass(frozen=True, slots=True)
class Bench:
    """Where the trials of a plan are prepared and run."""

    plan: Plan
    workspace: Workspace
    installs: Mapping[str, Install]
    """Label -> the install whose binaries the servers' user can reach."""
    pgbench: Path
    wal: Mapping[str, Workspace]
    """Folder that a variant names -> where its pg_wal goes."""
    progress: Progress
    keep_failures: Path | None = None
    """Folder in which images that fail after a power cut are kept."""
    other_hosts: OtherHosts | None = None
    """Hosts for standbys; None: there is only this machine."""

    def far_way(self) -> Joining:
        """The way of one trial to standbys on other hosts, which the plan was checked to have."""
        assert self.other_hosts is not None, "a plan between hosts was checked to have them"
        return self.other_hosts.joining()

    def install(self, order: TrialOrder) -> Install:
        """The install of the trial."""
        return self.installs[order.install]

    def variant(self, order: TrialOrder) -> Variant:
        """The variant of the trial."""
        return self.plan.variant(order.variant)

    def workload(self, order: TrialOrder) -> Workload:
        """The workload of the trial."""
        return self.plan.workload(order.workload)

    def settings(self, order: TrialOrder) -> dict[str, str]:
        """Everything that a server of the trial is started with."""
        return self.plan.settings_of(self.variant(order))

    def seed(self, order: TrialOrder) -> int:
        """Seed of the load: equal for all variants of a round, different between rounds."""
        return (self.plan.seed * 1_000_003 + order.round) % 2**31

    @contextmanager
    def cluster(
        self,
        order: TrialOrder,
        name: str,
        template: Path,
        measured: Measured,
        *,
        can_lose_power: bool = False,
        copies: DataCopies | None = None,
    ) -> Iterator[tuple[Cluster, SimulatedDisk | None]]:
        """A clone of the template in its own folder, not started, and the simulated disk under it, if any;
        its log is kept if it fails. With ``copies`` it is one of these, and goes back to them if the caller
        has shut the server down."""
        folder = self.workspace.make_folder(name)
        try:
            if copies is None:
                templates.clone(template, folder)
            else:
                copies.fetch(template, folder)
            variant = self.variant(order)
            waldir, device = variant.waldir, variant.device or self.plan.device
            with (
                wal_moved(folder / "data", None if waldir is None else self.wal[waldir]),
                emulated_disk(self.workspace, folder, device, can_lose_power=can_lose_power) as disk,
            ):
                environment = {} if disk is None else disk.environment
                cluster = Cluster(self.install(order), self.workspace, folder, environment)
                try:
                    with as_failure():
                        yield cluster, disk
                    is_down = not cluster.is_running()
                except WalproofError:
                    measured.log = measured.log or cluster.log_tail()
                    raise
                finally:
                    cluster.stop("immediate")
            if copies is not None and is_down and waldir is None:
                copies.keep(template, folder)
        finally:
            self.workspace.remove_folder(folder)


class Trials(ABC):
    """What runs the trials of a plan of one kind, from what was prepared for them."""

    @abstractmethod
    def run(self, order: TrialOrder, measured: Measured) -> None:
        """Run one trial, and note in ``measured`` what is seen as it is seen.

        Raises a WalproofError or a psycopg.Error when it fails.
        """

    def test_itself(self) -> dict[str, str]:
        """Facts of the environment that are found before every campaign. Raises a WalproofError if what would
        measure cannot do so."""
        return {}

    def forget(self) -> None:  # noqa: B027 - most kinds keep nothing
        """The run is finished: remove what is not worth keeping for another."""


def run_trial(trials: Trials, order: TrialOrder) -> tuple[Trial, tuple[Series, ...]]:
    """Run one trial. What goes wrong with the server or the load makes a failed trial, not an error.

    Raises HostError where another host was lost, which ends the run; the trial is not stored.
    """
    started_at = time.time()
    measured = Measured()
    reason = log = None
    try:
        with as_failure():
            trials.run(order, measured)
    except HostError:
        raise  # nothing of the plan failed: with another host it can be run again
    except WalproofError as error:
        reason = error.message
        log = measured.log or error.detail
    trial = Trial(
        number=order.number,
        round=order.round,
        install=order.install,
        workload=order.workload,
        variant=order.variant,
        state=TrialState.DONE if reason is None else TrialState.FAILED,
        started_at=started_at,
        ended_at=time.time(),
        window_start=measured.window_start,
        window_s=measured.window_s,
        metrics=measured.metrics,
        settings=measured.settings,
        warnings=tuple(measured.warnings),
        reason=reason,
        server_log=log,
        cut=measured.cut,
        slices=measured.slices,
    )
    return trial, tuple(
        Series(order.number, name, times, values) for name, (times, values) in measured.series.items()
    )
