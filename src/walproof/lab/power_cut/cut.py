"""One power cut: a server under load on a simulated disk, the cut, and what servers make of what is left.

    clone -> server on the simulated disk -> ledger, pgbench, checkpoints -> cut at a moment from the seed
          -> for each image: build it, recover, check the books, stop, check every page

The load's own timing is not repeatable, so the seed fixes the kind and the number of the event at which power
is cut, and everything about the images; a kept image is repeated byte for byte.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import psycopg

from walproof.disk.image import Survival, build_image, durable_sizes
from walproof.disk.simulated import STATE_FOLDER, CutEvent, DiskModel, SimulatedDisk
from walproof.errors import ClusterError, DiskError, WorkloadError, one_line
from walproof.facts import CheckedImage, CutConditions, CutFacts, ImageState, Install, UnitBytes, Workload
from walproof.lab.initdb_options import without_own
from walproof.lab.pgbench_target import target_of
from walproof.lab.power_cut.kept_image import KeptCase, keep_image
from walproof.lab.power_cut.load import CutLoad
from walproof.lab.power_cut.verdict import FOLDERS, ImageVerdict, judge
from walproof.postgres import template as templates
from walproof.postgres.cluster import Cluster
from walproof.postgres.workspace import Workspace
from walproof.privilege.acting import acting_as
from walproof.sqltext import literal
from walproof.workload import ledger
from walproof.workload.pgbench import initialise, setup_description

_LONGEST_S = 3.0
"""After this time power is cut, even if the moment that was drawn has not come."""
_GIVEN_LONGEST_S = 30.0
"""The same for a moment that was not drawn but asked for."""
_PANIC_PATIENCE_S = 2.0
SEGMENT_MB = 4
"""WAL segments of clusters whose power is cut: small, so that a copy is quick."""
_TABLESPACE = "ledger_space"

# How many events of a kind a busy load makes in a second or so (2 cores): the moment is drawn from these.
_MOMENTS: Mapping[CutEvent, tuple[int, int]] = {
    CutEvent.WAL_WRITE: (800, 10_000),
    CutEvent.WAL_FLUSH: (300, 4_000),
    CutEvent.TORN_WRITE: (1_500, 20_000),
    CutEvent.TORN_PAGE: (500, 9_000),
    CutEvent.RELATION_WRITE: (500, 9_000),
    CutEvent.RELATION_FLUSH: (50, 1_200),
    CutEvent.RENAME: (2, 40),
}
# Rarer, and only asked for by name.
_ON_REQUEST: Mapping[CutEvent, tuple[int, int]] = {CutEvent.TORN_MAP: (1, 12)}
_FLUSHES = frozenset({CutEvent.WAL_FLUSH, CutEvent.RELATION_FLUSH})
_TORN = frozenset({CutEvent.TORN_WRITE, CutEvent.TORN_PAGE})
_PAGE_BYTES = 8192
_SURVIVALS = (
    Survival("random", 0.5),
    Survival("by age"),
    Survival("random", 0.8),
    Survival("nothing"),
    Survival("random", 0.2),
)


@dataclass(frozen=True, slots=True)
class CutLab:
    """What all cuts of an install have in common."""

    workspace: Workspace
    install: Install
    """The install, whose binaries the server's user can reach."""
    pgbench: Path
    template: Path
    has_amcheck: bool
    has_pgbench_sums: bool = True
    """Whether the load beside the ledger leaves what pgbench's own does: sums that are the same."""


@dataclass(frozen=True, slots=True)
class CutOrder:
    """Which cut."""

    seed: int
    settings: Mapping[str, str]
    conditions: CutConditions
    images: int
    workload: Workload | None = None
    """pgbench's load in addition to the ledger; None: only the ledger."""
    survivals: tuple[Survival, ...] = ()
    """What survives in the images in turn; empty: as the conditions say."""
    moment: tuple[CutEvent, int] | None = None
    """Event and number; None: drawn from the seed. With failing_flush the flush that fails."""
    swallowed: str = ""
    """See :class:`DiskModel`."""
    keep: Path | None = None
    """Folder in which failing images are kept; None: they are not."""


def cut_initdb_options(
    install: Install, conditions: CutConditions, asked: Sequence[str] = ()
) -> tuple[str, ...]:
    """Options of initdb: those that the study asks for, but small segments, and data checksums or none as the
    variant has them."""
    # Since 18 checksums are the default.
    is_default = install.version_num >= 180000
    if conditions.checksums:
        checksums = () if is_default else ("--data-checksums",)
    else:
        checksums = ("--no-data-checksums",) if is_default else ()
    return (*without_own(asked), f"--wal-segsize={SEGMENT_MB}", *checksums)


def prepare_cut_template(
    workspace: Workspace,
    install: Install,
    initdb_options: Sequence[str],
    pgbench: Path,
    workload: Workload | None,
) -> Path:
    """The data directory that cuts of that load start from. Raises ClusterError or WorkloadError."""

    def load(cluster: Cluster) -> None:
        if workload is not None:
            initialise(pgbench, workload, target_of(cluster))

    setup = "power cut; " + ("" if workload is None else setup_description(workload))
    return templates.prepare_loaded(workspace, install, initdb_options, setup, load, recycled_segments=False)


def draw_seed(*parts: object) -> int:
    """A seed from what identifies a cut: the run's seed, the round, the names of the cell."""
    return random.Random("/".join(map(str, parts))).getrandbits(48)


def cut_power(lab: CutLab, order: CutOrder) -> CutFacts:
    """Carry one cut out. Raises DiskError when it is void, ClusterError or WorkloadError when it fails."""
    rng = random.Random(order.seed)
    is_trickle = order.moment is None and _is_trickle(order, rng)
    moment = order.moment or _draw_moment(order, rng)
    longest_s = _LONGEST_S if order.moment is None else _GIVEN_LONGEST_S
    with _on_simulated_disk(lab, order) as (cluster, disk):
        cluster.start(ledger.with_settings(order.settings))
        disk.check_attached()
        _make_tables(cluster, disk, order.conditions)
        began_s = time.monotonic()
        load = CutLoad(
            cluster,
            disk,
            lab.pgbench,
            order.workload,
            order.seed,
            is_trickle=is_trickle,
            may_fail=order.conditions.failing_flush,
        )
        try:
            if is_trickle:
                after_s = rng.uniform(0.4, 1.6)
                moment_text = f"time {after_s:.2f} s"
                time.sleep(after_s)
                disk.cut()
            elif order.conditions.failing_flush:
                moment_text = _let_a_flush_fail(cluster, disk, *moment, longest_s)
            else:
                moment_text = _cut_at(disk, *moment, longest_s)
            # A PANIC ends processes wherever they are, also within a write. When all are gone, nothing moves
            # any more, and what a cut would undo was kept before each write.
            has_ended = not cluster.is_running()
            failure = None if has_ended or order.conditions.failing_flush else load.failure()
            if not has_ended:
                disk.settle()
        finally:
            try:
                cluster.kill()
            finally:
                load.end()
        load_s = time.monotonic() - began_s
        status = disk.status()
        record = ledger.known_before(load.ledger.record(), status.cut_monotonic_ns)
        if has_ended and not order.conditions.failing_flush:
            # Nobody knows what it was in the middle of. If it was a write, the disk says so, too; this is the
            # reason.
            raise DiskError(
                "the run is void: the server ended before its power was cut", detail=cluster.log_tail()
            )
        if status.void:
            raise DiskError("the run is void: " + "; ".join(status.void))
        if failure is not None:
            # That nothing was lost would be said of a load that never ran.
            raise failure
        # With fsync=off nothing is flushed, and nobody expects it.
        is_flushed = order.settings.get("fsync") != "off"
        unflushed = disk.unflushed(load.covered_sequence) if is_flushed else ()
        facts = CutFacts(
            seed=order.seed,
            moment=moment_text,
            pace="trickle" if is_trickle else "busy",
            acknowledged=ledger.acknowledged(record),
            load_s=load_s,
            undo_bytes_max=status.undo_bytes_max,
            checkpoints=load.checkpoints,
            unflushed=tuple(sorted({file.path for file in unflushed if not may_be_unflushed(file.path)})),
            images=(),
        )
        sizes = durable_sizes(disk)
        images = tuple(
            _check_image(lab, order, disk, number, record, facts, sizes, rng.getrandbits(48))
            for number in range(1, order.images + 1)
        )
    return replace(facts, images=images)


def cut_metrics(cut: CutFacts) -> dict[str, float]:
    """The metrics of a cut: counts of images by state, commits lost, windows in ms."""
    metrics = {"cut_acknowledged": float(cut.acknowledged), "cut_images": float(len(cut.images))}
    for state, count in cut.counts.items():
        metrics[f"cut_images.{state.value.replace(' ', '_')}"] = float(count)
    windows = [image.loss_window_ms for image in cut.images if image.loss_window_ms is not None]
    if windows:
        metrics["cut_loss_window_ms_max"] = max(windows)
        metrics["cut_lost_commits_max"] = float(max(image.lost_commits for image in cut.images))
    return metrics


def may_be_unflushed(path: str) -> bool:
    """Whether PostgreSQL may leave that file unflushed at a checkpoint, because it can do without it."""
    name = Path(path).name
    return (
        # Caches and notes that the server makes again.
        name in {"pg_internal.init", "postmaster.opts", "postmaster.pid", "current_logfiles"}
        # Emptied or made again at start (xlog.c, StartupXLOG): statistics of a clean stop, snapshots,
        # notifications, subtransactions and serializable transactions of before the crash.
        or path.split("/")[0]
        in {"pg_stat", "pg_stat_tmp", "pg_snapshots", "pg_notify", "pg_subtrans", "pg_serial"}
    )


def _is_trickle(order: CutOrder, rng: random.Random) -> bool:
    """A trickle of commits gets near the bound of asynchronous commits; other settings have it at times."""
    if order.conditions.failing_flush or order.conditions.event is not None:
        return False
    is_asynchronous = order.settings.get("synchronous_commit") == "off"
    return rng.random() < (0.5 if is_asynchronous else 0.15)


def _draw_moment(order: CutOrder, rng: random.Random) -> tuple[CutEvent, int]:
    if order.conditions.event is not None:
        events = {CutEvent(order.conditions.event)}
    elif order.conditions.failing_flush:
        events = set(_FLUSHES)
    else:
        events = set(_MOMENTS)
        if order.settings.get("fsync") == "off":
            events -= _FLUSHES
        if order.conditions.unit_bytes == _PAGE_BYTES:
            events -= _TORN  # in units of 4 KiB, which this disk does not tear
    event = rng.choice(sorted(events))
    return event, rng.randint(*{**_MOMENTS, **_ON_REQUEST}[event])


def survivals_of(conditions: CutConditions) -> tuple[Survival, ...]:
    """What survives in the images of a cut, in turn."""
    units: tuple[UnitBytes, ...] = (512, 4096) if conditions.unit_bytes is None else (conditions.unit_bytes,)
    return tuple(
        replace(survival, unit_bytes=units[place % len(units)]) for place, survival in enumerate(_SURVIVALS)
    )


@contextmanager
def _on_simulated_disk(lab: CutLab, order: CutOrder) -> Iterator[tuple[Cluster, SimulatedDisk]]:
    """A cluster with its WAL and a tablespace in folders of their own, all on one simulated disk."""
    workspace = lab.workspace
    folder = workspace.make_folder(f"cut-{order.seed:x}")
    try:
        templates.clone(lab.template, folder, flush=False)
        roots = [folder / name for name in FOLDERS]
        with acting_as(workspace.user):
            (roots[0] / "pg_wal").rename(roots[1])
            (roots[0] / "pg_wal").symlink_to(roots[1])
            roots[2].mkdir(mode=0o700)
        model = DiskModel(
            names=order.conditions.names,
            writeback_s=order.conditions.writeback_s,
            swallowed=order.swallowed,
        )
        state = STATE_FOLDER / f"{workspace.folder.name}-{order.seed:x}"
        with SimulatedDisk(roots, model, state, user=workspace.user, seed=order.seed) as disk:
            cluster = Cluster(lab.install, workspace, folder, disk.environment)
            try:
                yield cluster, disk
            finally:
                cluster.kill()
    finally:
        workspace.remove_folder(folder)


def _make_tables(cluster: Cluster, disk: SimulatedDisk, conditions: CutConditions) -> None:
    statements = ledger.table_statements(unlogged=conditions.unlogged, tablespace=_TABLESPACE)
    try:
        with cluster.connect() as session:
            place = literal(str(disk.roots[2]))
            session.execute(f"CREATE TABLESPACE {_TABLESPACE} LOCATION {place}".encode())
            for statement in statements:
                session.execute(statement.encode())
            session.execute("CHECKPOINT")
    except psycopg.Error as error:
        raise WorkloadError(f"could not make the ledger's tables: {one_line(error)}") from error


def _cut_at(disk: SimulatedDisk, event: CutEvent, count: int, longest_s: float) -> str:
    disk.arm(event, count)
    if disk.wait_for_cut(longest_s):
        return f"{event.value} {count}"
    disk.cut()
    return f"time {longest_s:.0f} s"


def _let_a_flush_fail(
    cluster: Cluster, disk: SimulatedDisk, event: CutEvent, count: int, longest_s: float
) -> str:
    """Let a flush fail with EIO once. The server has to PANIC, because what it thought to have written is
    gone, unless it can do without: for a segment that is only being made, an ERROR is enough. Then it goes
    on, and the images show whether it was right."""
    disk.arm_failure(event, count)
    deadline = time.monotonic() + longest_s
    while cluster.is_running() and time.monotonic() < deadline:
        time.sleep(0.005)
    if not disk.has_triggered():
        disk.cut()
        return f"time {longest_s:.0f} s"
    deadline = time.monotonic() + _PANIC_PATIENCE_S
    while cluster.is_running():
        if time.monotonic() > deadline:
            disk.cut()
            return f"failing {event.value} {count}, no PANIC"
        time.sleep(0.005)
    if "PANIC" not in cluster.log_text():
        raise ClusterError(
            "the server ended without a PANIC after a flush had failed", detail=cluster.log_tail()
        )
    disk.cut()
    return f"failing {event.value} {count}"


def _is_expected(order: CutOrder, state: ImageState) -> bool:
    """Whether an image of that state is not a failure: the last commits may be lost if that was chosen."""
    may_lose = (
        order.settings.get("synchronous_commit") == "off"
        or order.settings.get("fsync") == "off"
        or order.conditions.unlogged
    )
    return state.is_sound or (state is ImageState.LOST and may_lose)


def _check_image(
    lab: CutLab,
    order: CutOrder,
    disk: SimulatedDisk,
    number: int,
    record: ledger.Record,
    facts: CutFacts,
    sizes: dict[str, int],
    seed: int,
) -> CheckedImage:
    began_s = time.monotonic()
    survivals = order.survivals or survivals_of(order.conditions)
    survival = survivals[(number - 1) % len(survivals)]
    cut_ns = disk.status().cut_monotonic_ns
    settings = ledger.with_settings(order.settings)

    def look() -> ImageVerdict:
        folder = lab.workspace.make_folder(f"image-{order.seed:x}-{number}")
        try:
            build_image(disk, [folder / root.name for root in disk.roots], seed, survival)
            return judge(
                Cluster(lab.install, lab.workspace, folder),
                settings,
                record,
                cut_ns,
                sizes=sizes,
                has_checksums=order.conditions.checksums,
                has_amcheck=lab.has_amcheck,
                has_pgbench_sums=lab.has_pgbench_sums,
            )
        finally:
            lab.workspace.remove_folder(folder)

    found = look()
    # The same bytes once more: what is found only once is not in them.
    again = found if _is_expected(order, found.state) else look()
    checked = CheckedImage(
        number=number,
        seed=seed,
        survival=survival.text,
        state=found.state,
        reason=found.reason,
        torn_pages=found.torn_pages,
        lost_commits=found.lost_commits,
        loss_window_ms=found.loss_window_ms,
        check_s=time.monotonic() - began_s,
    )
    if order.keep is not None and not _is_expected(order, found.state):
        case = KeptCase(
            lab.install,
            settings,
            order.conditions,
            facts,
            checked,
            cut_ns,
            sizes,
            record,
            has_pgbench_sums=lab.has_pgbench_sums,
            has_own_schema=True,
        )
        try:
            checked = keep_image(order.keep, disk, survival, case, lab.workspace)
        except DiskError as error:
            # What was found is what the study asks for: it is told without the image.
            checked = replace(checked, reason="; ".join(filter(None, (found.reason, error.message))))
    if again is not found and _is_expected(order, again.state):
        raise DiskError(
            "the run is void: the same image was judged in two ways",
            detail=f"{found.state.value}: {found.reason}; the second time "
            + (again.state.value if again.reason is None else f"{again.state.value}: {again.reason}")
            + f" (cut at {facts.moment}, seed {order.seed}, image {number} from seed {seed})"
            + ("" if checked.kept is None else f'; kept in "{checked.kept}"'),
            hint="Something on this machine disturbed the server, or recovery has more than one outcome.",
        )
    return checked
