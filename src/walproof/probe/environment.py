"""What a run ran on: the machine and its disk.

Nothing here names a person, a host or an address, or may hold a secret: the facts go into reports.
"""

from __future__ import annotations

import os
import platform
from pathlib import Path

import walproof
from walproof.probe.device import find_device, find_mount


def observe_environment(folder: Path) -> dict[str, str]:
    """Facts about the machine, the filesystem and the disk under ``folder``, in the order a reader wants
    them.

    Names: ``cpu``, ``cores``, ``memory_bytes``, ``swap_bytes``, ``kernel``, ``os``, ``virtualisation``,
    ``filesystem``, ``mount_options``, ``disk``, ``disk_model``, ``disk_rotational``, ``disk_scheduler``,
    ``disk_write_cache``, ``disk_size_bytes``, ``cpu_governor``, ``transparent_hugepages``, ``vm_dirty_*``,
    ``load_average``, ``python``, ``walproof``. What the machine does not tell is left out.
    """
    facts: dict[str, str | None] = {
        "cpu": _cpu_model(),
        "cores": str(len(os.sched_getaffinity(0))),
        **_memory(),
        "kernel": f"{platform.system()} {platform.release()} {platform.machine()}",
        "os": _os_name(),
        "virtualisation": _virtualisation(),
        **_storage(folder),
        "cpu_governor": _read(Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")),
        "transparent_hugepages": _chosen(_read(Path("/sys/kernel/mm/transparent_hugepage/enabled"))),
        **{
            f"vm_{name}": _read(Path(f"/proc/sys/vm/{name}"))
            for name in (
                "dirty_ratio",
                "dirty_background_ratio",
                "dirty_bytes",
                "dirty_background_bytes",
                "dirty_expire_centisecs",
                "dirty_writeback_centisecs",
            )
        },
        "load_average": " ".join(f"{load:.2f}" for load in os.getloadavg()),
        "python": platform.python_version(),
        "walproof": walproof.__version__,
    }
    return {name: value for name, value in facts.items() if value}


def machine_facts() -> dict[str, str]:
    """The facts that tell machines apart and stay the same."""
    facts = observe_environment(Path("/"))
    return {name: facts[name] for name in ("cpu", "cores") if name in facts}


def this_machine() -> tuple[str, int, int]:
    """Model of this machine's processor, number of cores, bytes of a memory page."""
    facts = observe_environment(Path("/"))
    return facts.get("cpu", "unknown"), int(facts.get("cores", "1")), os.sysconf("SC_PAGE_SIZE")


def _read(path: Path) -> str | None:
    try:
        return path.read_text().strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def _chosen(text: str | None) -> str | None:
    """The marked word of ``always [madvise] never``."""
    if text is None or "[" not in text:
        return text
    return text[text.index("[") + 1 : text.index("]")]


def _colon_fields(path: Path) -> dict[str, str]:
    """First value of each ``name : value`` line."""
    fields: dict[str, str] = {}
    for line in (_read(path) or "").splitlines():
        name, colon, value = line.partition(":")
        if colon:
            fields.setdefault(name.strip(), value.strip())
    return fields


def _cpu_model() -> str | None:
    fields = _colon_fields(Path("/proc/cpuinfo"))
    # ARM kernels give no model name, only the numbers of its maker and part.
    return fields.get("model name") or fields.get("Hardware") or platform.processor() or platform.machine()


def _memory() -> dict[str, str | None]:
    fields = _colon_fields(Path("/proc/meminfo"))

    def in_bytes(name: str) -> str | None:
        kib = fields.get(name, "").removesuffix("kB").strip()
        return str(int(kib) * 1024) if kib.isdigit() else None

    return {"memory_bytes": in_bytes("MemTotal"), "swap_bytes": in_bytes("SwapTotal")}


def _os_name() -> str | None:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME")
    except OSError:
        return None


def _virtualisation() -> str | None:
    """What the machine is according to its firmware, when its CPUs say that it is virtual."""
    if " hypervisor" not in _colon_fields(Path("/proc/cpuinfo")).get("flags", ""):
        return None
    product = _read(Path("/sys/class/dmi/id/product_name"))
    vendor = _read(Path("/sys/class/dmi/id/sys_vendor"))
    known = " ".join(part for part in (vendor, product) if part)
    return f"virtual machine ({known})" if known else "virtual machine"


def _storage(folder: Path) -> dict[str, str | None]:
    mount, device = find_mount(folder), find_device(folder)
    facts: dict[str, str | None] = {}
    if mount is not None:
        facts |= {"filesystem": mount.filesystem, "mount_options": mount.options}
    if device is None:
        return facts
    queue = device / "queue"
    rotational = _read(queue / "rotational")
    sectors = _read(device / "size")
    return facts | {
        "disk": device.name,
        "disk_model": _read(device / "device" / "model"),
        "disk_rotational": {"0": "no", "1": "yes"}.get(rotational or ""),
        "disk_scheduler": _chosen(_read(queue / "scheduler")),
        "disk_write_cache": _read(queue / "write_cache"),
        "disk_size_bytes": str(int(sectors) * 512) if sectors is not None and sectors.isdigit() else None,
    }
