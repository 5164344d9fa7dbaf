"""walproof tunes PostgreSQL's write path and proves what each setting costs and what it risks."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("walproof")
except PackageNotFoundError:  # a source tree that was never installed
    __version__ = "0.0.0"
