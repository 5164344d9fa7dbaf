"""What a transaction costs: totals of a window divided by its transactions.

No probe knows how many transactions there were, so this runs after all observations are merged.
"""

from __future__ import annotations

from collections.abc import Mapping

_TOTALS = {
    "wal_bytes": "wal_bytes_per_txn",
    "wal_records": "wal_records_per_txn",
    "wal_fpi": "wal_fpi_per_txn",
    "wal_flushes": "wal_flushes_per_txn",
}
_BREAKDOWNS = {
    "cpu_s": ("cpu_us_per_txn", 1e6),
    "write_bytes": ("write_bytes_per_txn", 1.0),
}


def per_transaction(metrics: Mapping[str, float]) -> dict[str, float]:
    """The per-transaction figures that the merged metrics of one trial allow.

    ``wal_bytes_per_txn`` (bytes), ``wal_records_per_txn``, ``wal_fpi_per_txn``, ``wal_flushes_per_txn``,
    ``cpu_us_per_txn.<kind>`` (microseconds) and ``write_bytes_per_txn.<kind>`` (bytes). A figure is missing
    if its total is missing; without any transaction the result is empty. Aborted and skipped transactions are
    not in the divisor, but what they wrote is in the totals."""
    transactions = metrics.get("transactions", 0.0)
    if transactions <= 0:
        return {}
    figures = {ratio: metrics[total] / transactions for total, ratio in _TOTALS.items() if total in metrics}
    for name, value in metrics.items():
        family, dot, kind = name.partition(".")
        if dot and family in _BREAKDOWNS:
            ratio, factor = _BREAKDOWNS[family]
            figures[f"{ratio}.{kind}"] = value * factor / transactions
    return figures
