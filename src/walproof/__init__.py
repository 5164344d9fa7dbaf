"""walproof tunes PostgreSQL's write path and proves what each setting costs and what it risks."""

__version__ = "0.2.0"
"""As in pyproject.toml. Reading it from the installed package costs a fifth of the time of ``--help``."""
