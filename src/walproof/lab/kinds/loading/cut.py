"""A load whose power is cut in the middle: what is in the table on disks as they could have been left.

    clone -> server on the simulated disk -> half of the rows are on their way -> cut
          -> for each image: build it, recover, read the whole table

Killing the server (:meth:`walproof.lab.kinds.loading.table_load.TableLoad.break_off`) loses nothing that the
kernel was given; this loses what was not flushed. Few rows are enough, as what survives does not depend on
their number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import psycopg

from walproof.disk.image import Survival, build_image
from walproof.disk.simulated import STATE_FOLDER, DiskModel, SimulatedDisk
from walproof.errors import ClusterError, DiskError, DisturbedError, one_line
from walproof.facts import Install, Load, LoadMethod
from walproof.lab.kinds.loading.source import PreparedLoad
from walproof.lab.kinds.loading.table_load import TableLoad
from walproof.postgres import template as templates
from walproof.postgres.cluster import Cluster
from walproof.postgres.workspace import Workspace
from walproof.probe.protocol import Observation

ROWS_MOST = 10_000
_REASONS_MOST = 3
SURVIVALS = (Survival("nothing", unit_bytes=512), Survival("random", 0.5, 512), Survival("by age", 0.5, 4096))
"""What survives in the images in turn, the most pessimistic first."""


@dataclass(frozen=True, slots=True)
class LoadCutLab:
    """What all cuts of an install have in common."""

    workspace: Workspace
    install: Install
    """The install, whose binaries the server's user can reach."""
    prepared: PreparedLoad
    load: Load


def cut_load(
    lab: LoadCutLab, method: LoadMethod, settings: Mapping[str, str], number: int, seed: int
) -> Observation:
    """Cut the power once, and look at ``load.power_cut`` images. Raises DiskError when the run is void.

    Metrics: ``cut_images``; of them ``cut_broken``, whose server does not start or cannot read the table;
    of the others ``cut_rows_share_min`` and ``_max`` of the rows that are in the table, ``cut_lost_rows_max``
    of those whose commit the client had been told of, and ``cut_lacks_max`` as ``crash_lacks``. Warnings say
    why the first of the broken images are.
    """
    method = replace(method, rows_most=min(ROWS_MOST, lab.prepared.rows_of(method)))
    workspace = lab.workspace
    folder = workspace.make_folder(f"load-cut-{number}")
    try:
        templates.clone(lab.prepared.folder, folder, flush=False)
        state = STATE_FOLDER / f"{workspace.folder.name}-load-{number}"
        with SimulatedDisk([folder / "data"], DiskModel(), state, user=workspace.user, seed=seed) as disk:
            cluster = Cluster(lab.install, workspace, folder, disk.environment)
            try:
                cluster.start(settings)
                disk.check_attached()
                with cluster.connect() as session:
                    # What was there before is durable: only the load is in doubt.
                    session.execute("CHECKPOINT")
                table_load = TableLoad(cluster, lab.prepared, lab.load, method)

                def cut() -> None:
                    disk.cut()
                    disk.settle()
                    cluster.kill()

                interrupted = table_load.interrupt(cut)
            finally:
                cluster.kill()
            status = disk.status()
            if status.void:
                raise DiskError("the run is void: " + "; ".join(status.void))
            shares, lost, lacks, broken = [], [0], [0], list[str]()
            images = lab.load.power_cut
            for image in range(images):
                place = workspace.make_folder(f"load-image-{number}-{image}")
                try:
                    build_image(disk, [place / "data"], seed + image, SURVIVALS[image % len(SURVIVALS)])
                    looked = Cluster(lab.install, workspace, place)
                    try:
                        looked.start(settings)
                        rows, lacking = table_load.left_in(looked, interrupted.table)
                    except DisturbedError:
                        raise
                    except (ClusterError, psycopg.Error) as error:
                        broken.append(f"image {image + 1} of {images} is broken: {one_line(error)}")
                        continue
                    finally:
                        looked.stop("immediate")
                finally:
                    workspace.remove_folder(place)
                shares.append(rows / table_load.rows)
                lost.append(max(0, interrupted.acknowledged - rows))
                lacks.append(lacking)
    finally:
        workspace.remove_folder(folder)
    metrics = {
        "cut_images": float(images),
        "cut_broken": float(len(broken)),
        "cut_lost_rows_max": float(max(lost)),
        "cut_lacks_max": float(max(lacks)),
    }
    if shares:
        metrics |= {"cut_rows_share_min": min(shares), "cut_rows_share_max": max(shares)}
    return Observation(metrics, warnings=tuple(broken[:_REASONS_MOST]))
