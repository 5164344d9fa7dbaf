"""Logs of recoveries, as servers of each version wrote them."""

from __future__ import annotations

import json

import pytest

from walproof.errors import AnalysisError
from walproof.facts.recovery_log import read_recovery_log
from walproof.units import Lsn

DAY = "2026-11-21 "
PG15 = "".join(
    f"{DAY}{line}\n"
    for line in (
        "09:50:01.100 UTC [7] LOG:  starting PostgreSQL 15.18",
        f"09:50:01.110 UTC [9] LOG:  database system was interrupted; last known up at {DAY}09:49:00 UTC",
        "09:50:01.310 UTC [9] LOG:  database system was not properly shut down; automatic recovery in "
        "progress",
        "09:50:01.320 UTC [9] LOG:  redo starts at 0/2000028",
        "09:50:03.320 UTC [9] LOG:  invalid record length at 0/6000110: wanted 24, got 0",
        "09:50:03.320 UTC [9] LOG:  redo done at 0/60000E8 system usage: CPU: user: 1.20 s, system: 0.75 s, "
        "elapsed: 2.00 s",
        "09:50:03.330 UTC [10] LOG:  checkpoint starting: end-of-recovery immediate wait",
        "09:50:03.530 UTC [10] LOG:  checkpoint complete: wrote 923 buffers (5.6%); 0 WAL file(s) added, 0 "
        "removed, 4 recycled; write=0.112 s, sync=0.008 s, total=0.200 s; sync files=31, longest=0.005 s",
        "09:50:03.550 UTC [7] LOG:  database system is ready to accept connections",
    )
)


def test_a_recovery_with_everything() -> None:
    found = read_recovery_log(PG15)
    assert (found.redo_start, found.redo_end) == (Lsn.parse("0/2000028"), Lsn.parse("0/60000E8"))
    assert found.cpu_s == pytest.approx(1.95)
    assert found.redo_elapsed_s == 2.0
    assert found.before_redo_s == pytest.approx(0.21)
    assert found.total_s == pytest.approx(2.44)
    assert found.checkpoint is not None
    assert (found.checkpoint.buffers, found.checkpoint.segments, found.checkpoint.total_s) == (923, 4, 0.2)


def test_a_csvlog_and_a_jsonlog_say_the_same() -> None:
    rows, objects = [], []
    for line in PG15.splitlines():
        head, message = line.split(" LOG:  ")
        stamp, pid = head.rsplit(" ", 1)
        rows.append(f'{stamp},,,{pid[1:-1]},,692.9,1,,{DAY}09:50:00 UTC,,0,LOG,00000,"{message}",,,,,,,,,"",')
        said = {"timestamp": stamp, "pid": int(pid[1:-1]), "error_severity": "LOG", "message": message}
        objects.append(json.dumps(said, separators=(",", ":")))
    for lines in (rows, objects):
        assert read_recovery_log("\n".join(lines)) == read_recovery_log(PG15)


def test_18_names_its_checkpoint_in_other_words() -> None:
    text = PG15.replace("immediate wait", "fast wait").replace("(5.6%);", "(5.6%), wrote 3 SLRU buffers;")
    assert read_recovery_log(text) == read_recovery_log(PG15)


def test_19_repeats_why_a_checkpoint_was_made() -> None:
    text = PG15.replace("checkpoint complete: wrote", "checkpoint complete: end-of-recovery fast wait: wrote")
    assert text != PG15
    assert read_recovery_log(text) == read_recovery_log(PG15)


def test_13_gives_no_usage() -> None:
    bare = [line.split(" system usage")[0] for line in PG15.splitlines() if "checkpoint" not in line]
    found = read_recovery_log("\n".join(bare))
    assert (found.cpu_s, found.checkpoint) == (None, None)
    assert found.redo_elapsed_s == pytest.approx(2.0), "between the times of the lines"


def test_lines_without_times_give_no_times() -> None:
    found = read_recovery_log("\n".join(line.split("] ", 1)[1] for line in PG15.splitlines()))
    assert (found.before_redo_s, found.total_s) == (None, None)
    assert found.redo_elapsed_s == 2.0


def test_the_last_recovery_counts() -> None:
    later = PG15.replace("0/2000028", "0/7000028").replace("0/60000E8", "0/90000E8")
    assert read_recovery_log(PG15 + later).redo_start == Lsn.parse("0/7000028")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no crash recovery"),
        (PG15.split("2026-11-21 09:50:03.320")[0], 'no "redo done"'),
        (PG15 + "2026-11-21 10:00:00.000 UTC [5] LOG:  redo is not required\n", "needed no redo"),
    ],
)
def test_a_log_that_does_not_tell(text: str, message: str) -> None:
    with pytest.raises(AnalysisError, match=message) as caught:
        read_recovery_log(text)
    assert caught.value.detail
    assert caught.value.hint
