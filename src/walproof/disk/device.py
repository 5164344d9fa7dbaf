"""What kind of disk is simulated: a named profile, or figures typed by hand.

The names and their figures are in the Rust crate walproof-disk. A flush takes ``flush`` plus the time to
transfer what it writes at ``write`` bytes a second; all flushes wait in one queue.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from walproof import _native
from walproof.errors import DiskError, UnitError
from walproof.units import format_bytes, format_duration, parse_bytes, parse_duration_s

_MAX_FLUSH_S = 10.0


@dataclass(frozen=True, slots=True)
class Device:
    """A simulated disk. ``write_bytes_per_s`` of None is no limit."""

    name: str
    """As typed: a profile's name, or the figures."""
    flush_s: float
    write_bytes_per_s: int | None

    @property
    def figures(self) -> str:
        """``flush 1.43 ms, write 200 MB/s``, for tables."""
        parts = [f"flush {format_duration(self.flush_s)}"]
        if self.write_bytes_per_s is not None:
            parts.append(f"write {format_bytes(self.write_bytes_per_s)}/s")
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class Profile:
    """A device that has a name."""

    device: Device
    about: str


def profiles() -> dict[str, Profile]:
    """The named devices."""
    return {
        name: Profile(Device(name, flush_ns / 1e9, write_bytes_per_s or None), about)
        for name, flush_ns, write_bytes_per_s, about in _native.device_profiles()
    }


def parse_device(text: str) -> Device:
    """Parse ``doc-000-vm`` or ``flush=1.43ms,write=200MB/s``; figures after a name replace the profile's.

    Raises DiskError.
    """
    known = profiles()
    device = Device(text, 0.0, None)
    given: set[str] = set()
    for place, part in enumerate(text.split(",")):
        name, equals, value = (word.strip() for word in part.partition("="))
        if not equals and place == 0 and name in known:
            base = known[name].device
            device = Device(text, base.flush_s, base.write_bytes_per_s)
            given.add("profile")
        elif name == "flush" and equals and name not in given:
            device = Device(text, _flush_s(text, value), device.write_bytes_per_s)
            given.add(name)
        elif name == "write" and equals and name not in given:
            device = Device(text, device.flush_s, _write_bytes_per_s(text, value))
            given.add(name)
        else:
            raise DiskError(
                f'invalid device: "{text}"',
                detail=f'"{part.strip()}" is '
                + ("given twice" if name in given else "neither a profile nor flush=TIME nor write=SIZE/s"),
                hint=f"Profiles: {', '.join(known)}. By hand: flush=1.43ms,write=200MB/s.",
            )
    return device


def _flush_s(text: str, value: str) -> float:
    try:
        flush_s = parse_duration_s(value)
    except UnitError as error:
        raise DiskError(f'invalid device: "{text}"', detail=error.message, hint=error.hint) from None
    if flush_s > 0 and value[-1:].isdigit():
        raise DiskError(
            f'invalid device: "{text}"',
            detail=f"flush={value} has no unit, so it would be seconds",
            hint="A flush of two milliseconds is flush=2ms.",
        )
    if not 0 <= flush_s <= _MAX_FLUSH_S:
        raise DiskError(
            f'impossible device: "{text}"',
            detail=f"a flush of {value}: expected at most {_MAX_FLUSH_S:.0f} s",
            hint="A disk of 7200/min takes 8 ms, an SSD 0.03 to 5 ms.",
        )
    return flush_s


def _write_bytes_per_s(text: str, value: str) -> int:
    match = re.fullmatch(r"(.+?)\s*/\s*s", value)
    try:
        rate = parse_bytes(match[1]) if match else 0
    except UnitError as error:
        raise DiskError(f'invalid device: "{text}"', detail=error.message, hint=error.hint) from None
    if not match:
        raise DiskError(
            f'invalid device: "{text}"',
            detail=f'a bandwidth of "{value}": expected a size per second',
            hint="A bandwidth looks like 200MB/s.",
        )
    # Below this a segment of WAL would take more than a quarter of an hour.
    if rate < 16 * 1024:
        raise DiskError(f'impossible device: "{text}"', detail=f"writes {value}: expected at least 16kB/s")
    return rate
