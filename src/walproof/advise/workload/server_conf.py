"""The settings of the application's server as a file for ``--conf``, and its disk for ``--device``.

Where the tables have a share of their rows, shared_buffers has the same share: how much of the tables fits
into it decides how much is read, evicted and written. What is far beyond the tables changes nothing, and may
be more than this machine has.
"""

from __future__ import annotations

from walproof.errors import UnitError
from walproof.facts.application import Application
from walproof.settings.conf import quoted
from walproof.units import parse_bytes

FILE = "server.conf"
_LEAST_BYTES, _ROUND_BYTES = 1 << 20, 64 << 20
_ENOUGH_BYTES, _ENOUGH_TIMES = 1 << 30, 4
"""More than both, the latter times the tables, holds them with their indexes and what is inserted."""
_HEAD = (
    "# Settings of the application's server that are not the defaults, for --conf.",
    "# Without those of places, networks, commands, archives, logs and other servers.",
)


def conf_of(application: Application, fitted: str | None) -> str:
    """The file; ``fitted``: shared_buffers as it is fitted to the tables, None for the server's."""
    rows = list(_HEAD)
    for name, value in application.settings:
        if not (name.isidentifier() and value.isprintable()):
            continue
        if name == "shared_buffers" and fitted is not None:
            rows.append(f"# {value} on the server; here it is fitted to the tables.")
            value = fitted
        rows.append(f"{name} = {quoted(value)}")
    return "\n".join(rows) + "\n"


def device(application: Application) -> str | None:
    """``flush=1.43ms``: a disk that flushes like the server's, for ``--device``; None if it is not known."""
    return None if application.flush_s is None else f"flush={1000 * application.flush_s:.3g}ms"


def shared_buffers(application: Application, share: float, table_bytes: float) -> str | None:
    """shared_buffers as it is fitted to the tables; None where it stays as it is.

    ``share``: of their rows that the load's tables have, which take ``table_bytes``.
    """
    try:
        there = parse_bytes(dict(application.settings)["shared_buffers"])
    except (KeyError, UnitError):
        return None
    enough = max(_ENOUGH_BYTES, _ENOUGH_TIMES * table_bytes)
    wanted = max(_LEAST_BYTES, round(min(there * share, enough)))
    if wanted >= there:
        return None
    return f"{wanted >> 20}MB" if wanted >= _ROUND_BYTES else f"{wanted >> 10}kB"
