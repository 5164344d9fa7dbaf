"""Devices as typed: names, figures, both, and what is refused."""

from __future__ import annotations

import pytest

from walproof.disk.device import Device, parse_device, profiles
from walproof.errors import DiskError


def test_names_and_figures() -> None:
    assert parse_device("doc-000-vm").flush_s == pytest.approx(1.43e-3)
    by_hand = parse_device("flush=1.43ms,write=200MB/s")
    assert by_hand == Device("flush=1.43ms,write=200MB/s", 1.43e-3, 200 * 1024**2)
    assert by_hand.figures == "flush 1.43 ms, write 200 MB/s"
    assert parse_device("flush=5ms").write_bytes_per_s is None
    mixed = parse_device("hdd-7200, flush=5ms")
    assert (mixed.flush_s, mixed.write_bytes_per_s) == (5e-3, 150 * 1024**2)
    assert set(profiles()) == {"hdd-7200", "sata-ssd-consumer", "nvme-plp", "cloud-network", "doc-000-vm"}


@pytest.mark.parametrize(
    ("text", "message", "detail"),
    [
        ("floppy", 'invalid device: "floppy"', '"floppy" is neither'),
        ("flush=fast", "invalid device", 'invalid duration: "fast"'),
        ("flush=1ms,flush=2ms", "invalid device", "given twice"),
        ("flush=1ms,doc-000-vm", "invalid device", "neither"),
        ("flush=1.43", "invalid device", "has no unit, so it would be seconds"),
        ("flush=60s", "impossible device", "expected at most 10 s"),
        ("write=200MB", "invalid device", "expected a size per second"),
        ("write=8/s", "impossible device", "expected at least 16kB/s"),
        ("", "invalid device", "neither"),
    ],
)
def test_what_is_refused(text: str, message: str, detail: str) -> None:
    with pytest.raises(DiskError, match=message) as caught:
        parse_device(text)
    assert detail in str(caught.value.detail)
