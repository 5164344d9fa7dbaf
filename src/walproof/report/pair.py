"""What is between two servers, in the words of a study file."""

from __future__ import annotations

from walproof.units import format_bytes, format_duration


def way_of(distance_s: float, bandwidth_bytes_per_s: int | None) -> dict[str, str]:
    """Distance and bandwidth, where there is one."""
    found = {}
    if distance_s:
        found["distance"] = format_duration(distance_s)
    if bandwidth_bytes_per_s is not None:
        found["bandwidth"] = f"{format_bytes(bandwidth_bytes_per_s)}/s"
    return found
