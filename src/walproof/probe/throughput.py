"""Throughput and latency, read from pgbench's per-transaction logs once the run is over.

A line is one transaction (manual, pgbench, "Per-Transaction Logging"; ``doLog()`` in pgbench.c)::

    client_id transaction_no time script_no time_epoch time_us [schedule_lag] [retries]

``time`` is the latency in microseconds; with --rate it is counted from the scheduled start, so it contains
the lag. In place of a number it may say ``skipped`` (--rate with --latency-limit), ``failed``, or with
--failures-detailed ``serialization``, ``deadlock`` and, from pgbench 19, ``other``. pgbench names the files
``PREFIX.PID`` and, for its further threads, ``PREFIX.PID.N``.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from walproof.errors import ProbeError
from walproof.probe.protocol import Observation

_SKIPPED, _FAILED = -1, -2
_WORDS = {
    b"skipped": _SKIPPED,
    b"failed": _FAILED,
    b"serialization": _FAILED,
    b"deadlock": _FAILED,
    b"other": _FAILED,
}
_NUMBER = rb"\d{1,18}"
_LINE = re.compile(
    rb"%(n)s %(n)s (?:%(n)s|%(words)s) %(n)s %(n)s \d{1,6}(?: %(n)s){0,2}"
    % {b"n": _NUMBER, b"words": b"|".join(_WORDS)}
)
_LOG_NAME = re.compile(r"\.\d+(?:\.\d+)?")
_TIME, _SCRIPT, _EPOCH, _EPOCH_US = 2, 3, 4, 5

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def read_pgbench_logs(
    logs: Path | Iterable[Path], window_start: float, window_end: float, sample_rate: float = 1.0
) -> Observation:
    """Count and time the transactions that completed within [window_start, window_end).

    ``logs`` is pgbench's --log-prefix, or the log files themselves. Times are Unix seconds. ``sample_rate``
    is pgbench's --sampling-rate, by which counts and rates are scaled up.

    Metrics: ``transactions``, ``tps``, ``failed_transactions``, ``skipped_transactions``,
    ``latency_ms_avg``, ``_stddev``, ``_p50``, ``_p95``, ``_p99``, ``_max`` (of transactions that succeeded)
    and, when the logs hold several scripts, ``tps.script<N>`` and ``latency_ms_avg.script<N>`` with
    pgbench's script number. Series, one point a second at the second's beginning: ``tps``,
    ``latency_ms_avg``, ``latency_ms_p95``. The last point covers what is left of the window, 0.5 to 1.5 s,
    and is a rate over that true length.

    Raises ProbeError when a log is missing or unreadable, all are empty, or a line is not a transaction
    (file, line).
    """
    duration = window_end - window_start
    if duration <= 0 or not 0 < sample_rate <= 1:
        raise ValueError(f"no window: {window_start} to {window_end}, sampled at {sample_rate}")
    warnings: list[str] = []
    tables = [table for path in _files(logs) if (table := _read(path, warnings)) is not None]
    if not tables:
        raise ProbeError(
            "pgbench logged no transaction",
            detail=f"every log file of {logs if isinstance(logs, Path) else 'the run'} is empty",
            hint="Did every client fail before its first transaction ended? See pgbench's output.",
        )
    table = np.concatenate([table[:, : _EPOCH_US + 1] for table in tables])
    # Whole seconds are subtracted as integers: a Unix time in microseconds leaves a double few digits to
    # spare.
    origin = int(window_start)
    t_s = (table[:, _EPOCH] - origin) + table[:, _EPOCH_US] / 1e6 - (window_start - origin)
    inside = (t_s >= 0) & (t_s < duration)
    table, t_s = table[inside], t_s[inside]
    done = table[:, _TIME] >= 0
    latency_ms = table[done, _TIME] / 1000.0
    t_s, scripts = t_s[done], table[done, _SCRIPT]

    metrics = {
        "transactions": latency_ms.size / sample_rate,
        "tps": latency_ms.size / sample_rate / duration,
        "failed_transactions": float(np.count_nonzero(table[:, _TIME] == _FAILED)) / sample_rate,
        "skipped_transactions": float(np.count_nonzero(table[:, _TIME] == _SKIPPED)) / sample_rate,
    }
    if latency_ms.size:
        metrics |= {**latency_figures(latency_ms), "latency_ms_max": float(latency_ms.max())}
    else:
        warnings.append("no transaction completed within the window")
    numbers = np.unique(np.concatenate([np.unique(table[:, _SCRIPT]) for table in tables]))
    if numbers.size > 1:
        for number in numbers:
            of_script = latency_ms[scripts == number]
            metrics[f"tps.script{number}"] = of_script.size / sample_rate / duration
            if of_script.size:
                metrics[f"latency_ms_avg.script{number}"] = float(of_script.mean())
    return Observation(metrics, _per_second(t_s, latency_ms, duration, sample_rate), tuple(warnings))


def first_begin(logs: Iterable[Path]) -> float | None:
    """When the first transaction began, in Unix seconds, by the first line of each log; None without any.

    All clients of a thread begin together, so the first to end is as early as any, to a few milliseconds.
    With --rate it is when that transaction was due.
    """
    begins = []
    for path in logs:
        with path.open("rb") as lines:
            fields = lines.readline().split()
        if len(fields) > _EPOCH_US:
            ended = int(fields[_EPOCH]) + int(fields[_EPOCH_US]) / 1e6
            begins.append(ended - (int(fields[_TIME]) / 1e6 if fields[_TIME].isdigit() else 0.0))
    return min(begins, default=None)


def read_transactions(logs: Iterable[Path]) -> tuple[Floats, Floats]:
    """(when each transaction that succeeded ended, in Unix seconds and in their order; its latency in ms).

    Raises ProbeError as ``read_pgbench_logs``.
    """
    ended, latency_ms, _ = read_ended(logs)
    return ended, latency_ms


def read_ended(logs: Iterable[Path]) -> tuple[Floats, Floats, Floats]:
    """The same, and when each transaction that failed ended, in their order.

    Raises ProbeError as ``read_pgbench_logs``.
    """
    tables = [table for path in _files(logs) if (table := _read(path, [])) is not None]
    if not tables:
        raise ProbeError("pgbench logged no transaction")
    table = np.concatenate([table[:, : _EPOCH_US + 1] for table in tables])
    ended = table[:, _EPOCH] + table[:, _EPOCH_US] / 1e6
    has_failed, is_done = table[:, _TIME] == _FAILED, table[:, _TIME] >= 0
    order = np.argsort(ended[is_done], kind="stable")
    return ended[is_done][order], table[is_done, _TIME][order] / 1000.0, np.sort(ended[has_failed])


def _files(logs: Path | Iterable[Path]) -> list[Path]:
    if not isinstance(logs, Path):
        files = sorted(logs)
    else:
        folder = logs.parent
        files = sorted(
            path
            for path in (folder.iterdir() if folder.is_dir() else ())
            if path.name.startswith(logs.name) and _LOG_NAME.fullmatch(path.name[len(logs.name) :])
        )
    if not files:
        raise ProbeError(
            "pgbench left no transaction log",
            detail=f"expected {logs}.PID, got no such file" if isinstance(logs, Path) else None,
            hint="pgbench writes one when started with --log and --log-prefix.",
        )
    return files


def _read(path: Path, warnings: list[str]) -> Ints | None:
    """All complete lines of one log; None if it has none, because its thread finished no transaction."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise ProbeError(f'could not read pgbench log "{path}"', detail=str(error)) from error
    whole = text[: text.rfind(b"\n") + 1]
    if len(whole) < len(text):
        warnings.append(f"{path.name} ends within a line, as when pgbench was killed; that line is left out")
    if not whole.strip():
        return None
    numbers = whole
    for word, code in _WORDS.items():
        numbers = numbers.replace(b" %s " % word, b" %d " % code)
    try:
        table = np.loadtxt(io.BytesIO(numbers), dtype=np.int64, comments=None, delimiter=" ", ndmin=2)
    except (ValueError, OverflowError) as error:
        raise _garbled(path, whole) from error
    # The columns are checked as a whole: a table of numbers may still be something other than this log.
    if (
        not 6 <= table.shape[1] <= 8
        or np.delete(table, _TIME, axis=1).min() < 0
        or table[:, _TIME].min() < _FAILED
        or table[:, _EPOCH_US].max() >= 1_000_000
    ):
        raise _garbled(path, whole)
    return table


def _garbled(path: Path, text: bytes) -> ProbeError:
    """Find the first faulty line. This is slow, and done only when something is wrong."""
    lines = text.splitlines()
    columns = len(lines[0].split())
    number, line = next(
        (
            (number, line)
            for number, line in enumerate(lines, 1)
            if not _LINE.fullmatch(line) or len(line.split()) != columns
        ),
        (1, lines[0]),
    )
    shown = line[:120].decode("ascii", "backslashreplace")
    return ProbeError(
        f'invalid line in pgbench log "{path}", line {number}',
        detail="expected: client_id transaction_no time script_no time_epoch time_us"
        f' [schedule_lag] [retries]; got: "{shown}"',
        hint="Only per-transaction logs can be read, not those of --aggregate-interval.",
    )


def latency_figures(latency_ms: Floats) -> dict[str, float]:
    """Average, spread and percentiles of some latencies, as metrics."""
    p50, p95, p99 = np.percentile(latency_ms, (50, 95, 99))
    return {
        "latency_ms_avg": float(latency_ms.mean()),
        "latency_ms_stddev": float(latency_ms.std()),  # of the population, as pgbench prints it
        "latency_ms_p50": float(p50),
        "latency_ms_p95": float(p95),
        "latency_ms_p99": float(p99),
    }


def _per_second(
    t_s: Floats, latency_ms: Floats, duration: float, sample_rate: float
) -> dict[str, tuple[tuple[float, ...], tuple[float, ...]]]:
    # Half a second or more that is left over is a point of its own; less would be noise drawn as a dip or a
    # peak, so it lengthens the last second instead.
    edges = np.append(np.arange(max(1, int(duration + 0.5)), dtype=np.float64), duration)
    lengths = np.diff(edges)
    order = np.argsort(t_s, kind="stable")
    cuts = np.searchsorted(t_s[order], edges[1:-1])
    parts = np.split(latency_ms[order], cuts)
    tps = tuple(float(part.size / sample_rate / length) for part, length in zip(parts, lengths, strict=True))
    starts = tuple(float(edge) for edge in edges[:-1])
    # A second without a transaction has a rate, zero, but no latency.
    busy = [(start, part) for start, part in zip(starts, parts, strict=True) if part.size]
    busy_s = tuple(start for start, _ in busy)
    return {
        "tps": (starts, tps),
        "latency_ms_avg": (busy_s, tuple(float(part.mean()) for _, part in busy)),
        "latency_ms_p95": (busy_s, tuple(float(np.percentile(part, 95)) for _, part in busy)),
    }
