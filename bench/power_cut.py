"""Power cuts in numbers: is full durability found safe, and are dangerous settings caught?

    PYTHONPATH=. python bench/power_cut.py [--cuts 100] [--images 3] [--bad 25] [--pg SPEC ...]

For every install: cuts under full durability, with each of pgbench's built-in scripts in turn beside the
ledger; then cuts under fsync=off and under full_page_writes=off, of whose images those count that hold a tear
or a hole.
Prints a Markdown table; exits 1 when a goal is missed. Goals: nothing lost, corrupt or with holes under full
durability; fsync=off and torn full_page_writes=off caught in at least 95 % of such images; 10 cuts a minute.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from walproof.disk.simulated import CutEvent
from walproof.errors import WalproofError
from walproof.facts import CheckedImage, CutConditions, ImageState, Install, Workload
from walproof.lab.power_cut.cut import (
    CutLab,
    CutOrder,
    cut_initdb_options,
    cut_power,
    draw_seed,
    prepare_cut_template,
)
from walproof.postgres.build import has_extension
from walproof.postgres.install import find, label_all
from walproof.postgres.reach import reachable_install, reachable_pgbench
from walproof.postgres.workspace import Workspace
from walproof.privilege.user import server_user

SETTINGS = {"shared_buffers": "8MB", "bgwriter_delay": "10ms", "max_wal_size": "64MB", "min_wal_size": "32MB"}
BUILTINS = ("tpcb-like", "simple-update", "select-only")
UPDATING = ("tpcb-like", "simple-update")
CAUGHT_GOAL, CUTS_A_MINUTE_GOAL = 0.95, 10


@dataclass
class Campaign:
    """Counts of one install under one setting."""

    cuts: int = 0
    void: int = 0
    acknowledged: int = 0
    torn: int = 0
    torn_caught: int = 0
    images: Counter[ImageState] = field(default_factory=Counter)
    unflushed: set[str] = field(default_factory=set)
    moments: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0

    def add(self, image: CheckedImage) -> None:
        """Count one image."""
        self.images[image.state] += 1
        if image.torn_pages:
            self.torn += 1
            self.torn_caught += image.state.is_failure
        if image.state.is_failure:
            print(f"    {image.state.value} ({image.survival}): {image.reason}", file=sys.stderr)


def run(
    lab: CutLab,
    name: str,
    settings: Mapping[str, str],
    conditions: CutConditions,
    cuts: int,
    images: int,
    moment: tuple[CutEvent, int] | None = None,
    builtins: Sequence[str] = BUILTINS,
) -> Campaign:
    """Carry out this many cuts."""
    found = Campaign()
    began = time.monotonic()
    for number in range(cuts):
        builtin = builtins[number % len(builtins)]
        aimed = None if moment is None else (moment[0], moment[1] + 97 * number)
        order = CutOrder(
            seed=draw_seed("bench", lab.install.version, name, number),
            settings={**SETTINGS, **settings},
            conditions=conditions,
            images=images,
            workload=Workload(builtin, builtin, (), 1, 4, 1, 60.0, None, None, "simple", 0.0),
            moment=aimed,
        )
        try:
            cut = cut_power(lab, order)
        except WalproofError as error:
            found.void += 1
            print(f"    void: {error.message} {error.detail or ''}", file=sys.stderr)
            continue
        found.cuts += 1
        found.acknowledged += cut.acknowledged
        found.unflushed |= set(cut.unflushed)
        found.moments[cut.moment.rpartition(" ")[0].rpartition(" ")[0] or cut.moment.split()[0]] += 1
        for image in cut.images:
            found.add(image)
    found.seconds = time.monotonic() - began
    print(
        f"  {lab.install.label} {name}: {found.cuts} cuts in {found.seconds:.0f} s, {dict(found.moments)}, "
        f"unflushed: {sorted(found.unflushed) if settings.get('fsync') != 'off' else 'not audited'}",
        file=sys.stderr,
    )
    return found


def row(install: Install, name: str, found: Campaign) -> str:
    """Return a line of the table."""
    counts = " | ".join(str(found.images[state]) for state in ImageState)
    per_minute = 60 * found.cuts / found.seconds
    return (
        f"| {install.label} | {name} | {found.cuts} | {found.void} | {found.acknowledged:,} "
        f"| {sum(found.images.values())} | {counts} | {found.torn} / {found.torn_caught} | {per_minute:.0f} |"
    )


def main() -> int:
    """Run the campaigns and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cuts", type=int, default=100)
    parser.add_argument("--images", type=int, default=3)
    parser.add_argument("--bad", type=int, default=25, help="cuts under each dangerous setting")
    parser.add_argument(
        "--pg", action="append", help="install, as walproof's --pg; default: 13.7, 15, 16, 18"
    )
    parser.add_argument("--on", type=Path, default=Path("/dev/shm/walproof-bench"))
    arguments = parser.parse_args()
    user = server_user()
    missed = []
    states = " | ".join(state.value for state in ImageState)
    print(f"| PostgreSQL | setting | cuts | void | acknowledged | images | {states} | torn / caught", end="")
    print(" | cuts/min |")
    print("|" + "---|" * (8 + len(ImageState)))
    installs = label_all([find(spec) for spec in arguments.pg or ("13.7", "15", "16", "18")])
    with Workspace(arguments.on, user) as workspace:
        for install in installs:
            reachable = reachable_install(install, user)
            pgbench = reachable_pgbench([reachable, find("embedded")], user)
            conditions = CutConditions()
            load = Workload("tpcb-like", "tpcb-like", (), 1, 4, 1, 60.0, None, None, "simple", 0.0)
            options = cut_initdb_options(reachable, conditions)
            template = prepare_cut_template(workspace, reachable, options, pgbench, load)
            lab = CutLab(workspace, reachable, pgbench, template, has_extension(reachable, "amcheck"))

            safe = run(lab, "full durability", {}, conditions, arguments.cuts, arguments.images)
            print(row(install, "full durability", safe), flush=True)
            bad = {state.value: count for state, count in safe.images.items() if not state.is_sound}
            if bad or safe.unflushed:
                missed.append(f"{install.label}: full durability: {bad}, unflushed {safe.unflushed}")
            if 60 * safe.cuts / safe.seconds < CUTS_A_MINUTE_GOAL:
                missed.append(f"{install.label}: {60 * safe.cuts / safe.seconds:.1f} cuts a minute")

            never = CutConditions(writeback_s=None)
            off = run(lab, "fsync=off", {"fsync": "off"}, never, arguments.bad, arguments.images)
            print(row(install, "fsync=off", off), flush=True)
            # An image of which nothing survived has no hole: it is the cluster of before.
            holed = sum(off.images.values()) - off.images[ImageState.LOST]
            failed = sum(count for state, count in off.images.items() if state.is_failure)
            if failed < CAUGHT_GOAL * holed:
                missed.append(f"{install.label}: fsync=off: {dict(off.images)}")

            torn = run(
                lab,
                "full_page_writes=off",
                {"full_page_writes": "off"},
                conditions,
                arguments.bad,
                arguments.images,
                (CutEvent.TORN_PAGE, 500),
                # Pages that are only read get hint bits, and with checksums an image of each in the WAL all
                # the same: redo heals them.
                UPDATING,
            )
            print(row(install, "full_page_writes=off, cut within a page", torn), flush=True)
            if torn.torn_caught < CAUGHT_GOAL * torn.torn:
                missed.append(f"{install.label}: full_page_writes=off: {torn.torn_caught} of {torn.torn}")
    for commit in missed:
        print(f"MISSED: {commit}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
