"""pgbench's logs: counted and timed here, and compared with what pgbench itself printed."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from walproof.errors import ProbeError
from walproof.probe.throughput import first_begin, read_pgbench_logs

if TYPE_CHECKING:
    from .conftest import Server

_T = 1_700_000_000


def _write(folder: Path, text: str, name: str = "log.4711") -> Path:
    (folder / name).write_text(text)
    return folder / "log"


def _line(t_s: float, latency: int | str, script: int = 0, *more: int) -> str:
    epoch, us = divmod(round((_T + t_s) * 1e6), 1_000_000)
    return " ".join(map(str, (0, 1, latency, script, epoch, us, *more))) + "\n"


def test_counts_what_completed_inside_the_window(tmp_path: Path) -> None:
    prefix = _write(
        tmp_path, _line(0.9, 1000) + _line(1.0, 2000) + _line(2.9, 4000) + _line(3.0, 8000) + _line(3.1, 1)
    )
    seen = read_pgbench_logs(prefix, _T + 1.0, _T + 3.0)
    assert seen.metrics["transactions"] == 2
    assert seen.metrics["tps"] == 1.0
    assert seen.metrics["latency_ms_avg"] == 3.0
    assert seen.metrics["latency_ms_stddev"] == 1.0
    assert seen.metrics["latency_ms_max"] == 4.0
    assert seen.warnings == ()


def test_reads_every_thread_and_no_other_run(tmp_path: Path) -> None:
    prefix = _write(tmp_path, _line(0, 1000))
    _write(tmp_path, _line(0, 3000), "log.4711.1")
    _write(tmp_path, "", "log.4711.2")
    _write(tmp_path, "not a log\n", "log.4711.txt")
    _write(tmp_path, "not a log\n", "logger.4711")
    assert read_pgbench_logs(prefix, _T, _T + 1).metrics["latency_ms_avg"] == 2.0
    assert read_pgbench_logs([tmp_path / "log.4711.1"], _T, _T + 1).metrics["latency_ms_avg"] == 3.0


def test_the_first_to_begin_is_the_earliest_of_all_threads(tmp_path: Path) -> None:
    _write(tmp_path, _line(0.5, 200_000) + _line(0.6, 100_000))
    _write(tmp_path, _line(0.4, 300_000), "log.4711.1")
    _write(tmp_path, _line(0.7, "skipped"), "log.4711.2")
    _write(tmp_path, "", "log.4711.3")
    assert first_begin(sorted(tmp_path.glob("log.*"))) == pytest.approx(_T + 0.1)
    assert first_begin([tmp_path / "log.4711.3"]) is None


@pytest.mark.parametrize("word", ["failed", "serialization", "deadlock", "other"])
def test_failed_and_skipped_transactions_are_counted_apart(tmp_path: Path, word: str) -> None:
    prefix = _write(
        tmp_path,
        _line(0.1, 1000, 0, 5, 0) + _line(0.2, "skipped", 0, 5, 0) + _line(0.3, word, 0, 5, 2),
    )
    metrics = read_pgbench_logs(prefix, _T, _T + 1).metrics
    assert (metrics["transactions"], metrics["failed_transactions"], metrics["skipped_transactions"]) == (
        1,
        1,
        1,
    )
    assert metrics["latency_ms_avg"] == 1.0


def test_scripts_are_told_apart(tmp_path: Path) -> None:
    prefix = _write(tmp_path, _line(0.1, 1000) + _line(0.2, 3000, 1) + _line(0.3, 5000, 1))
    metrics = read_pgbench_logs(prefix, _T, _T + 2).metrics
    assert metrics["tps.script0"] == 0.5
    assert metrics["tps.script1"] == 1.0
    assert metrics["latency_ms_avg.script1"] == 4.0
    alone = _write(tmp_path, _line(0.1, 1000, 1), "log.4711")
    assert "tps.script1" not in read_pgbench_logs(alone, _T, _T + 2).metrics


def test_a_sampled_log_is_scaled_up(tmp_path: Path) -> None:
    prefix = _write(tmp_path, _line(0.1, 1000) + _line(0.2, 3000))
    metrics = read_pgbench_logs(prefix, _T, _T + 1, sample_rate=0.1).metrics
    assert metrics["transactions"] == 20
    assert metrics["tps"] == 20
    assert metrics["latency_ms_avg"] == 2.0


@pytest.mark.parametrize(
    ("duration", "starts", "tps"),
    [
        (2.0, (0, 1), (1.0, 1.0)),
        (2.5, (0, 1, 2), (1.0, 1.0, 2.0)),  # half a second is a point of its own
        (2.25, (0, 1), (1.0, 1.6)),  # less lengthens the second before it
        (0.25, (0,), (4.0,)),
        (4.0, (0, 1, 2, 3), (1.0, 1.0, 1.0, 0.0)),
    ],
)
def test_the_last_second_is_a_rate_over_its_true_length(
    tmp_path: Path, duration: float, starts: tuple[int, ...], tps: tuple[float, ...]
) -> None:
    prefix = _write(tmp_path, "".join(_line(t_s + 0.1, 1000) for t_s in range(3)))
    seen = read_pgbench_logs(prefix, _T, _T + duration)
    assert seen.series["tps"][0] == starts
    assert seen.series["tps"][1] == pytest.approx(tps)
    lengths = np.diff((*starts, duration))
    assert sum(seen.series["tps"][1] * lengths) == pytest.approx(seen.metrics["transactions"])
    assert len(seen.series["latency_ms_avg"][0]) == sum(rate > 0 for rate in tps)


def test_times_keep_their_microseconds(tmp_path: Path) -> None:
    prefix = _write(tmp_path, f"0 1 10 0 {_T} 999999\n0 2 10 0 {_T + 1} 0\n")
    assert read_pgbench_logs(prefix, _T + 1, _T + 2).metrics["transactions"] == 1


def test_a_window_without_transactions_says_so(tmp_path: Path) -> None:
    seen = read_pgbench_logs(_write(tmp_path, _line(9, 1000)), _T, _T + 1)
    assert seen.metrics["tps"] == 0
    assert "latency_ms_avg" not in seen.metrics
    assert seen.warnings == ("no transaction completed within the window",)


def test_a_line_that_was_cut_short_is_left_out(tmp_path: Path) -> None:
    seen = read_pgbench_logs(_write(tmp_path, _line(0, 1000) + "0 2 10"), _T, _T + 1)
    assert seen.metrics["transactions"] == 1
    assert "log.4711 ends within a line" in seen.warnings[0]


@pytest.mark.parametrize(
    "bad",
    [
        "hello",
        "0 1 1000 0 1700000000",
        "0 1 1000 0 1700000000 5 6 7 8",
        "0 1 1000 0 1700000000 5 6",  # a column more than the lines before it
        "0 1 slow 0 1700000000 5",
        "0 1 1000 0 1700000000 1000000",
        "0 1 -7 0 1700000000 5",
        "0 1 99999999999999999999 0 1700000000 5",
        "0 1 1000 0 1700000000 \x00",
        "0 1 1000 0 1700000000 \xff",
    ],
)
def test_garbage_is_named_by_file_and_line(tmp_path: Path, bad: str) -> None:
    prefix = _write(tmp_path, _line(0, 1000) * 2 + bad + "\n" + _line(0, 1000))
    with pytest.raises(ProbeError, match=r'invalid line in pgbench log ".*log\.4711", line 3'):
        read_pgbench_logs(prefix, _T, _T + 1)


def test_an_aggregated_log_is_refused(tmp_path: Path) -> None:
    prefix = _write(tmp_path, "1649114136 5815 27552565 177846919143 1078 21716 0 0 0 0 0 0 0 0 0\n")
    with pytest.raises(ProbeError, match="line 1") as caught:
        read_pgbench_logs(prefix, _T, _T + 1)
    assert caught.value.hint is not None
    assert "--aggregate-interval" in caught.value.hint


def test_missing_and_empty_logs_are_errors(tmp_path: Path) -> None:
    with pytest.raises(ProbeError, match="no transaction log"):
        read_pgbench_logs(tmp_path / "log", _T, _T + 1)
    with pytest.raises(ProbeError, match="no transaction log"):
        read_pgbench_logs(tmp_path / "nowhere" / "log", _T, _T + 1)
    with pytest.raises(ProbeError, match="could not read"):
        read_pgbench_logs([tmp_path / "log.1"], _T, _T + 1)
    with pytest.raises(ProbeError, match="logged no transaction"):
        read_pgbench_logs(_write(tmp_path, ""), _T, _T + 1)


def _printed(report: str, pattern: str) -> float:
    match = re.search(pattern, report)
    assert match is not None, report
    return float(match[1])


@pytest.mark.live
def test_agrees_with_what_pgbench_prints(server18: Server, tmp_path: Path) -> None:
    """With a window around the whole run, count, failures, latency and its deviation are pgbench's own."""
    prefix = tmp_path / "log"
    # --progress makes pgbench print the mean of the latencies instead of one derived from the rate.
    options = ["-n", "-c", "4", "-j", "2", "-t", "200", "-P", "60", "--log", f"--log-prefix={prefix}"]
    begun = time.time()
    report, errors = server18.pgbench(*options).communicate(timeout=60)
    seen = read_pgbench_logs(prefix, begun, time.time())
    assert seen.metrics["transactions"] == 800, errors
    assert seen.metrics["latency_ms_avg"] == pytest.approx(
        _printed(report, r"latency average = ([\d.]+) ms"), abs=0.0011
    )
    assert seen.metrics["latency_ms_stddev"] == pytest.approx(
        _printed(report, r"latency stddev = ([\d.]+) ms"), abs=0.0011
    )


@pytest.mark.live
def test_agrees_with_pgbench_on_skipped_transactions(server18: Server, tmp_path: Path) -> None:
    """A rate far above what one client can do, with a limit, makes pgbench skip most transactions."""
    prefix = tmp_path / "log"
    options = ["-n", "-c", "1", "-T", "1", "-R", "50000", "-L", "5", "--log", f"--log-prefix={prefix}"]
    begun = time.time()
    report, errors = server18.pgbench(*options).communicate(timeout=60)
    seen = read_pgbench_logs(prefix, begun, time.time())
    assert seen.metrics["skipped_transactions"] == _printed(report, r"skipped: (\d+) "), errors
    # pgbench's count of processed transactions has the skipped ones in it from 15 on, and not before.
    processed = _printed(report, r"actually processed: (\d+)")
    assert processed in (
        seen.metrics["transactions"],
        seen.metrics["transactions"] + seen.metrics["skipped_transactions"],
    )
