"""The device under a folder, and its counters."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from walproof.probe.device import find_device, find_mount, find_read_ahead_kb
from walproof.probe.disk import DiskCounters, DiskProbe, _rates, _series, read_counters
from walproof.probe.protocol import Subject

if TYPE_CHECKING:
    from .conftest import Server

_MOUNTINFO = r"""
27 1 254:0 / / rw,relatime - ext4 /dev/root rw,discard
40 27 0:40 /@home /home rw,noatime - btrfs /dev/sda2 rw,space_cache
41 40 253:1 / /home/my\040disk rw - xfs /dev/mapper/data rw,attr2
42 27 0:50 / /mnt rw - tmpfs first rw
43 27 0:51 / /mnt rw - tmpfs second rw
""".lstrip()


@pytest.mark.parametrize(
    ("folder", "source", "filesystem"),
    [
        ("/", "/dev/root", "ext4"),
        ("/homework", "/dev/root", "ext4"),
        ("/home/me", "/dev/sda2", "btrfs"),
        ("/home/my disk/pg", "/dev/mapper/data", "xfs"),
        ("/mnt/x", "second", "tmpfs"),
    ],
)
def test_the_deepest_and_latest_mount_holds_a_folder(
    tmp_path: Path, folder: str, source: str, filesystem: str
) -> None:
    mountinfo = tmp_path / "mountinfo"
    mountinfo.write_text(_MOUNTINFO)
    mount = find_mount(Path(folder), mountinfo)
    assert mount is not None
    assert (mount.source, mount.filesystem) == (source, filesystem)


def test_options_of_mount_and_filesystem_are_joined(tmp_path: Path) -> None:
    mountinfo = tmp_path / "mountinfo"
    mountinfo.write_text(_MOUNTINFO)
    mount = find_mount(Path("/home/me"), mountinfo)
    assert mount is not None
    assert mount.options == "rw,noatime,space_cache"


def test_memory_has_no_device() -> None:
    assert find_device(Path("/dev/shm")) is None
    assert find_device(Path("/nonexistent")) is None
    assert find_read_ahead_kb(Path("/dev/shm")) == 128, "what Linux has where nobody has said otherwise"


def test_a_data_directory_in_memory_is_a_warning() -> None:
    probe = DiskProbe()
    probe.start(Subject("", Path("/dev/shm"), Path("/dev/null"), os.getpid(), os.getpid(), 180000))
    seen = probe.stop()
    assert dict(seen.metrics) == {}
    # Without the folder of the trial: reports show a text once for all trials that have it.
    assert seen.warnings == ("no block device under the data directory: the disk was not observed",)


def test_counters_of_old_and_new_kernels(tmp_path: Path) -> None:
    stat = tmp_path / "stat"
    stat.write_text("  1 2 3 4 50 6 70 80 0 100 110 1 2 3 4 90 95\n")
    new = read_counters(stat)
    assert (new.writes, new.write_bytes, new.write_ms, new.busy_ms) == (50, 70 * 512, 80, 100)
    assert new.flushes == (90, 95)
    stat.write_text("1 2 3 4 50 6 70 80 0 100 110\n")
    assert read_counters(stat).flushes is None
    stat.write_text("1 2 3\n")
    with pytest.raises(ValueError, match="expected at least 11 fields, got 3"):
        read_counters(stat)


def _at(seconds: float, writes: int, busy_ms: int, flushes: tuple[int, int] | None) -> DiskCounters:
    return DiskCounters(seconds, writes, writes * 8192, writes * 2, busy_ms, flushes)


def test_rates_are_atops() -> None:
    assert _rates(_at(10, 100, 1000, (10, 30)), _at(12, 300, 2000, (50, 130))) == {
        "disk_busy_share": 0.5,
        "disk_writes_per_s": 100.0,
        "disk_write_bytes": 200 * 8192.0,
        "disk_kib_per_write": 8.0,
        "disk_ms_per_write": 2.0,
        "disk_flushes_per_s": 20.0,
        "disk_ms_per_flush": 2.5,
    }
    idle = _rates(_at(10, 100, 1000, None), _at(12, 100, 1000, None))
    assert idle == {"disk_busy_share": 0, "disk_writes_per_s": 0, "disk_write_bytes": 0}


def test_a_sliver_at_the_end_is_no_point_of_its_own() -> None:
    readings = [_at(t_s, round(t_s * 100), round(t_s * 500), None) for t_s in (0.0, 1.0, 2.0, 2.25)]
    t_s, busy = _series(readings)["disk_busy_share"]
    assert t_s == (0.0, 1.0)
    assert busy == pytest.approx((0.5, 0.5))
    assert _series(readings)["disk_write_bytes_per_s"][1] == pytest.approx((819200, 819200))


@pytest.mark.live
def test_agrees_with_the_kernels_own_table(server18: Server) -> None:
    """The same device's line of /proc/diskstats, read around the probe, brackets what the probe saw."""
    device = find_device(server18.folder / "data")
    if device is None:
        pytest.skip("the temporary folder is on no block device")
    outer_before = _diskstats(device.name)
    probe = DiskProbe()
    probe.start(server18.subject())
    inner_before = _diskstats(device.name)
    load = server18.pgbench("-n", "-c", "4", "-t", "50")
    _, errors = load.communicate(timeout=60)
    assert load.returncode == 0, errors
    inner_after = _diskstats(device.name)
    seen = probe.stop()
    outer_after = _diskstats(device.name)
    assert seen.warnings == ()
    assert (
        (inner_after - inner_before) * 512
        <= seen.metrics["disk_write_bytes"]
        <= (outer_after - outer_before) * 512
    )
    assert seen.metrics["disk_write_bytes"] > 0
    assert 0 <= seen.metrics["disk_busy_share"] <= 1


def _diskstats(name: str) -> int:
    """Sectors written so far."""
    for line in Path("/proc/diskstats").read_text().splitlines():
        fields = line.split()
        if fields[2] == name:
            return int(fields[9])
    raise AssertionError(f"{name} is not in /proc/diskstats")
