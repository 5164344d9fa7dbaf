"""Under which settings the load runs: what changes the format or the amount of what is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.wal.server import SETTINGS, Server


@dataclass(frozen=True)
class Configuration:
    """A way to make a cluster and to run it."""

    name: str
    segment_mb: int
    checksums: bool = False
    settings: Mapping[str, str] = field(default_factory=dict)
    size: int = 4000
    """Of the load: rows of its usual table."""
    restarts: bool = False
    """Also crash, recover and promote; and so many transactions that their logs are truncated."""

    @property
    def wal_level(self) -> str:
        """What the load runs under."""
        return self.settings.get("wal_level", SETTINGS["wal_level"])

    def below_logical(self) -> Configuration:
        """The same at a lower wal_level."""
        if self.wal_level != "logical":
            return self
        return replace(self, settings={**self.settings, "wal_level": "replica"})

    def server(self, bindir: Path) -> Server:
        """A cluster like that, not started. A compression that the build lacks becomes pglz."""
        server = Server(bindir, self.settings, segment_mb=self.segment_mb, checksums=self.checksums)
        method = self.settings.get("wal_compression", "off")
        if not server.accepts("wal_compression", method):
            server.configure({"wal_compression": "on"})
        return server


CONFIGURATIONS = (
    Configuration("restarts", 1, True, {"wal_compression": "on"}, restarts=True),
    Configuration("replica", 16, False, {"wal_level": "replica", "wal_log_hints": "on"}),
    Configuration("lz4", 64, True, {"wal_compression": "lz4"}),
    Configuration("zstd", 4, False, {"wal_compression": "zstd"}),
    Configuration(
        "consistency", 16, True, {"wal_compression": "zstd", "wal_consistency_checking": "all"}, size=2000
    ),
    Configuration("minimal", 1, True, {"wal_level": "minimal", "max_wal_senders": "0"}),
    Configuration("no-images", 2, False, {"full_page_writes": "off"}),
)
"""What every version runs."""
GIGABYTE = Configuration(
    "gigabyte",
    1024,
    True,
    {"wal_level": "replica", "wal_init_zero": "off", "wal_keep_size": "20GB", "max_wal_size": "20GB"},
)
"""Once is enough: initdb writes a whole segment of that size, zeros and all."""
