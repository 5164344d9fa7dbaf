"""A kept image once more: its verdict again, and a server on it for whoever wants to look."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from walproof.errors import DiskError, InstallError
from walproof.facts import CheckedImage, CutConditions, Plan, Trial, Workload
from walproof.lab.initdb_options import without_own
from walproof.lab.power_cut.cut import (
    CutLab,
    CutOrder,
    cut_initdb_options,
    cut_power,
    prepare_cut_template,
)
from walproof.lab.power_cut.kept_image import KeptCase, copy_case, read_case
from walproof.lab.power_cut.verdict import ImageVerdict, judge
from walproof.postgres.build import has_extension
from walproof.postgres.cluster import Cluster
from walproof.postgres.install import discover, resolve
from walproof.postgres.reach import reachable_install, reachable_pgbench
from walproof.postgres.workspace import Workspace
from walproof.privilege.environment import terminal_environment
from walproof.privilege.user import running_as, server_user
from walproof.settings.catalogue import Catalogue
from walproof.workload.ledger import SCHEMA


class ReopenedImage:
    """A kept image in a workspace of its own. Context manager; everything is removed at its end."""

    def __init__(self, folder: Path, work: Path, pg: str | None = None) -> None:
        """``pg`` names the install (None: one of this machine that is of the image's version).

        Raises DiskError or StoreError when ``folder`` is not a kept image, InstallError.
        """
        self.folder = folder.absolute()
        self.case: KeptCase = read_case(self.folder)
        user = server_user()
        self._workspace = Workspace(work, user)
        self._install = reachable_install(resolve(self.case.install, pg), user)

    def __enter__(self) -> ReopenedImage:
        self._workspace.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._workspace.__exit__(None, None, None)

    def judge(self) -> ImageVerdict:
        """The verdict on it this time."""
        with self._copy("again") as cluster:
            case = self.case
            return judge(
                cluster,
                case.settings,
                case.record,
                case.cut_monotonic_ns,
                sizes=case.sizes,
                has_checksums=case.conditions.checksums,
                has_amcheck=has_extension(self._install, "amcheck"),
                has_pgbench_sums=case.has_pgbench_sums,
                schema=SCHEMA if case.has_own_schema else "public",
            )

    def run_psql(self, cluster: Cluster) -> None:
        """psql on the terminal, as the servers' user. Raises InstallError when there is none."""
        for install in (self._install, *discover()):
            if not (Path(install.bindir) / "psql").exists():
                continue
            program = Path(reachable_install(install, self._workspace.user).bindir) / "psql"
            subprocess.run(
                [str(program), cluster.conninfo], check=False, cwd="/",
                env=terminal_environment({"PSQL_HISTORY": os.devnull}), **running_as(self._workspace.user),
            )  # fmt: skip
            return
        raise InstallError("no psql found", hint="Install PostgreSQL's client programs.")

    @contextmanager
    def server(self) -> Iterator[Cluster]:
        """A server on a fresh copy. Raises ClusterError when it does not start."""
        with self._copy("server") as cluster:
            cluster.start({**self.case.settings, "fsync": "off"})
            try:
                yield cluster
            finally:
                cluster.stop("immediate")

    @contextmanager
    def _copy(self, name: str) -> Iterator[Cluster]:
        folder = self._workspace.make_folder(name)
        try:
            copy_case(self.case, self.folder, folder, self._workspace.user)
            yield Cluster(self._install, self._workspace, folder)
        finally:
            self._workspace.remove_folder(folder)


def what_may_start(plan: Plan, trial: Trial) -> tuple[str, ...]:
    """What of a stored plan could start programs when that trial is repeated; empty if nothing could.

    A setting that takes any text may name a command or a library, an option of initdb a folder of SQL, and
    all SQL but that of pgbench itself may do what a superuser may.
    """
    install, workload = plan.install(trial.install), plan.workload(trial.workload)
    known = Catalogue.for_version(install.version_num)
    settings = plan.settings_of(plan.variant(trial.variant))
    return (
        *(
            f"setting {name} = {value}"
            for name, value in settings.items()
            if not known.names_nothing(name, value)
        ),
        *(f"option {option} of initdb" for option in without_own(plan.initdb_options)),
        *(() if workload.is_pgbenchs_own else (f'the SQL of load "{workload.name}"',)),
    )


def cut_again(
    plan: Plan, trial: Trial, image: CheckedImage, keep: Path, work: Path, pg: str | None = None
) -> CheckedImage:
    """Repeat the cut of a stored trial and build that image from its seed; a failing one is kept in ``keep``.

    Event, number and choices are the same, but not when clients and checkpoints write. ``pg`` names the
    install (None: one of this machine that is of its version). Raises a WalproofError.
    """
    assert trial.cut is not None
    variant = plan.variant(trial.variant)
    conditions = variant.conditions_as(CutConditions)
    workload: Workload = plan.workload(trial.workload)
    user = server_user()
    install = reachable_install(resolve(plan.install(trial.install), pg), user)
    pgbench = reachable_pgbench([install], user)
    with Workspace(work, user) as workspace:
        options = cut_initdb_options(install, conditions, plan.initdb_options)
        template = prepare_cut_template(workspace, install, options, pgbench, workload)
        cut = cut_power(
            CutLab(
                workspace,
                install,
                pgbench,
                template,
                has_extension(install, "amcheck"),
                workload.is_pgbenchs_own,
            ),
            CutOrder(
                seed=trial.cut.seed,
                settings=plan.settings_of(variant),
                conditions=conditions,
                images=image.number,
                workload=workload,
                keep=keep,
            ),
        )
    return cut.images[-1]


def find_image(trials: tuple[Trial, ...], name: str) -> tuple[Trial, CheckedImage]:
    """The trial and image that a report calls ``12/3``. Raises DiskError."""
    trial_text, _, image_text = name.partition("/")
    for trial in trials:
        for image in trial.cut.images if trial.cut is not None else ():
            if (str(trial.number), str(image.number)) == (trial_text, image_text):
                return trial, image
    raise DiskError(
        f'case "{name}" does not exist in this run',
        detail="A case is the numbers of a trial and of one of its images, as in 12/3.",
        hint='The report lists failing images under "Cases".',
    )
