"""How often a load runs each of its scripts: as often as the application did."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from walproof.advise.workload.transactions import Transaction
from walproof.sentences import say_list, say_percent

_SUM = 10_000
"""Sum of the weights, about, where no script is rare."""
_LEAST = 100
"""The rarest script has this weight: a whole number is then off by half a percent at most."""
_MOST = 2_000_000_000
"""Sum of the weights at most: pgbench takes none above 2^31 - 1."""
_RARE = 1e-5
"""Share of the runs below which a measurement may have none."""


def weights_of(calls: Sequence[float]) -> list[int]:
    """The weight of each script; ``calls``: how often the application ran it, above 0."""
    if not calls:
        return []
    total = sum(calls)
    whole = min(_MOST, max(_SUM, _LEAST * total / min(calls)))
    return [max(1, round(whole * each / total)) for each in calls]


def rare_notes(scripts: Mapping[str, Transaction]) -> Iterator[str]:
    """What differs from the application where scripts are rare. ``scripts``: by the names of their files."""
    total = sum(each.calls for each in scripts.values())
    rare = [name for name, each in scripts.items() if each.calls < _RARE * total]
    if not rare:
        return
    wal = {name: _wal_bytes(each) for name, each in scripts.items()}
    share = sum(wal[name] for name in rare) / (sum(wal.values()) or 1.0)
    yield (
        f"{say_list(rare)}: less than one of {1 / _RARE:,.0f} runs each, as in the application, which wrote "
        f"{say_percent(share)} of its WAL there. A short measurement may have no run of them."
    )
    too_often = [name for name in rare if scripts[name].calls < total / _MOST]
    if too_often:
        yield f"{say_list(too_often)}: more often than in the application, since no weight is smaller."


def _wal_bytes(made: Transaction) -> float:
    """Bytes of WAL that the application wrote in all runs of the script."""
    return made.calls * sum(
        each.times * each.statement.wal_bytes / each.statement.calls for each in made.members
    )
