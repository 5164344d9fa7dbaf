"""The observers of one trial's window.

``PROBES`` names every observer that runs beside the load, in the order in which they are started. Stop them
in reverse order: `wal` takes its last reading at once, but then waits for the server's statistics, which must
not stretch the window of the others. Throughput is not a probe: it is read from the load generator's own logs
when the run is over (`read_pgbench_logs`). Once all observations are merged, `per_transaction` divides what
was spent by the number of transactions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from walproof.probe.checkpoints import CheckpointProbe
from walproof.probe.cpu import CpuProbe
from walproof.probe.disk import DiskProbe
from walproof.probe.io import IoProbe
from walproof.probe.protocol import Probe
from walproof.probe.waits import WaitProbe
from walproof.probe.wal import WalProbe

PROBES: Mapping[str, Callable[[], Probe]] = MappingProxyType(
    {
        "wal": WalProbe,
        "checkpoints": CheckpointProbe,
        "waits": WaitProbe,
        "cpu": CpuProbe,
        "io": IoProbe,
        "disk": DiskProbe,
    }
)
"""Name -> constructor, in the order of starting."""

COUNTING = ("wal", "cpu", "io")
"""Those whose totals are divided by transactions. On a running load they are started last, one right after
the other: what is done between their readings is in one total and not in another."""
