"""What data checksums and huge pages do to a recovery: the same load under each, in turns.

    PYTHONPATH=. python bench/recovery/conditions.py [--pg embedded] [--rounds 8] [--share 0.3]

The calibration's load runs on a cluster with checksums and on one without; copies of the crash are recovered
with a warm cache, with huge pages where the kernel has enough of them (vm.nr_hugepages; 2 MB each), and
without. Printed are ratios of redo's CPU within the rounds to the first condition, with 95 % intervals.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from statistics import fmean, median

from walproof.analysis.interval import mean_interval
from walproof.lab.recovery.crash import CrashImage, recover
from walproof.lab.recovery.load import crash_of_load
from walproof.postgres.install import find
from walproof.postgres.reach import reachable_install
from walproof.postgres.workspace import Workspace
from walproof.privilege.user import server_user

BUFFERS_MB = 192


def main() -> None:
    """Print a line for each condition."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pg", default="embedded")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--share", type=float, default=0.3, help="of the calibration's load")
    parser.add_argument("--work", type=Path, default=Path("/var/tmp/walproof-recovery"))
    arguments = parser.parse_args()
    user = server_user()
    install = reachable_install(find(arguments.pg), user)
    # Since 18 checksums are the default.
    without = ("--no-data-checksums",) if install.version_num >= 180000 else ()
    with_checksums = () if install.version_num >= 180000 else ("--data-checksums",)
    reserved_mb = 2 * int(Path("/proc/sys/vm/nr_hugepages").read_text())
    pages = ("off", "on") if reserved_mb > 1.2 * BUFFERS_MB else ("off",)
    if len(pages) == 1:
        print(f"no huge pages: {reserved_mb} MB of them are reserved (vm.nr_hugepages)")
    with Workspace(arguments.work, user) as workspace:
        images: dict[str, CrashImage] = {}
        for name, options in (("no checksums", without), ("checksums", with_checksums)):
            made = crash_of_load(
                install, workspace, lambda _: None, share=arguments.share, initdb_options=options
            )
            images[name] = _apart(made, workspace.folder / name.replace(" ", "-"))
        conditions = [(name, huge) for name in images for huge in pages]
        cpu: dict[tuple[str, str], list[float]] = {condition: [] for condition in conditions}
        for number in range(arguments.rounds):
            turn = number % len(conditions)
            for name, huge in conditions[turn:] + conditions[:turn]:
                settings = {"shared_buffers": f"{BUFFERS_MB}MB", "huge_pages": huge}
                measured = recover(images[name], workspace, settings)
                assert measured.times.cpu_s is not None
                cpu[name, huge].append(measured.times.cpu_s)
    print(f"PostgreSQL {install.version}, {arguments.rounds} rounds")
    first = cpu[conditions[0]]
    for (name, huge), times in cpu.items():
        logs = [math.log(time / base) for time, base in zip(times, first, strict=True)]
        interval = mean_interval(logs)
        text = f"{name}, huge_pages={huge}: {median(times):.2f} s of CPU"
        if times is not first and interval is not None:
            ratio = interval.exp()
            text += f", {math.exp(fmean(logs)):.2f}x ({ratio.low:.2f} to {ratio.high:.2f})"
        print(text, flush=True)


def _apart(image: CrashImage, folder: Path) -> CrashImage:
    """Take the image into its own folder, where the next one takes its place."""
    image.folder.rename(folder)
    return CrashImage(image.install, folder)


if __name__ == "__main__":
    main()
