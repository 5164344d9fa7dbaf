"""``walproof recovery``: predictions of golden WAL, and what cannot be answered."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from tests.analysis.calibrations import calibrated as stored_calibration
from tests.cli.command import walproof
from tests.golden.unpack import unpack
from tests.schemas import assert_valid
from walproof.analysis.forecast import MachineFacts
from walproof.analysis.recovery_costs import TERMS
from walproof.cli.app import app
from walproof.cli.costs import find_costs
from walproof.cli.predicting import RecoveryOrder
from walproof.cli.recovery import _added, _keep
from walproof.cli.recovery_progress import _require_titles
from walproof.errors import AnalysisError, SettingError, StoreError
from walproof.facts.calibration import Calibration, read_calibration, write_calibration
from walproof.probe.environment import this_machine
from walproof.settings.server_conf import server_conf
from walproof.units import Lsn
from walproof.wal import records, stats
from walproof.wal.recovery import analyse, find_redo

VERSION = 15


@pytest.fixture(scope="module")
def wal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wal")
    unpack(VERSION, folder)
    return folder


def predict(cwd: Path, *arguments: str) -> dict[str, Any]:
    done = walproof("recovery", "predict", *arguments, "--json", cwd=cwd, WALPROOF_DATA=str(cwd / "data"))
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert_valid("recovery-predict", found)
    return found


def refused(cwd: Path, *arguments: str) -> str:
    done = walproof("recovery", *arguments, cwd=cwd, WALPROOF_DATA=str(cwd / "data"))
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert "walproof: error: " in done.stderr
    assert "detail: " in done.stderr
    assert "hint: " in done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr


def calibrated(cpu: str | None = None, version: str = f"{VERSION}.1") -> Calibration:
    """On this machine unless said otherwise."""
    here = MachineFacts(*this_machine())
    return stored_calibration(here if cpu is None else here._replace(cpu=cpu), version)


def test_the_work_is_that_of_the_wal(wal: Path, tmp_path: Path) -> None:
    found = predict(tmp_path, str(wal), "--shared-buffers", "16MB", "--shared-buffers", "1GB")
    redo = find_redo(wal)
    work = analyse(wal, start=redo.redo, buffers=[2048, 131072]).last
    assert (found["redo"], found["end"]) == (str(work.start), str(work.end))
    assert (found["records"], found["wal_bytes"]) == (work.records, work.wal_bytes)
    assert [prediction["shared_buffers_bytes"] for prediction in found["predictions"]] == [16 << 20, 1 << 30]
    for prediction, buffers in zip(found["predictions"], (2048, 131072), strict=True):
        assert prediction["quantities"] == work.quantities(buffers)
        assert prediction["warm_redo_s"] == pytest.approx(sum(prediction["terms_s"].values()))
        assert prediction["total_warm_low_s"] < prediction["total_warm_s"] < prediction["total_warm_high_s"]
    assert found["coefficients"]["source"] == "shipped"
    assert any("calibrate" in note for note in found["notes"])


def test_a_crash_at_a_time_is_one_at_the_end_of_the_last_transaction(wal: Path, tmp_path: Path) -> None:
    said = walproof("wal", "records", str(wal), "--json", "-r", "Transaction/COMMIT", cwd=tmp_path).stdout
    commits = [json.loads(line) for line in said.splitlines()]
    last = commits[len(commits) // 2]
    end = next(str(record.end) for record in records(wal, start=Lsn.parse(last["lsn"])))
    moment = datetime.fromtimestamp(last["time_unix_us"] / 1e6, UTC).isoformat()
    found = predict(tmp_path, str(wal), "--shared-buffers", "16MB", "--until", moment)
    assert found["end"] == end
    assert found == predict(tmp_path, str(wal), "--shared-buffers", "16MB", "--end", end)
    assert found != predict(tmp_path, str(wal), "--shared-buffers", "16MB")
    both = walproof("recovery", "predict", str(wal), "--until", moment, "--end", end, cwd=tmp_path)
    assert (both.returncode, both.stdout) == (2, "")
    assert "--end and --until exclude each other" in both.stderr


def test_what_the_crashed_server_had_written_is_said(wal: Path, tmp_path: Path) -> None:
    start = ("--start", str(stats(wal).start), "--shared-buffers", "4MB")
    found = predict(tmp_path, str(wal), *start, "--crashed-shared-buffers", "128kB")
    work = analyse(wal, start=stats(wal).start, buffers=[512], crashed=16).last
    assert found["done"] == work.done
    assert found["predictions"][0]["quantities"] == work.quantities(512)
    said = [note for note in found["notes"] if "had written before it crashed" in note]
    assert len(said) == (work.done > 0)


def test_the_table_names_what_most_time_goes_into(wal: Path, tmp_path: Path) -> None:
    done = walproof("recovery", "predict", str(wal), cwd=tmp_path, WALPROOF_DATA=str(tmp_path))
    assert done.returncode == 0, done.stderr
    for text in ("How long would recovery", "checkpoint", "largest part of warm redo", "128MB", "9 of 10 in"):
        assert text in done.stdout
    assert "Both totals have 80 ms more for the start of the server" in " ".join(done.stdout.split())


def test_a_slow_disk_is_felt_when_cold(wal: Path, tmp_path: Path) -> None:
    start = ("--start", str(stats(wal).start))
    fast = predict(tmp_path, str(wal), *start)
    slow = predict(tmp_path, str(wal), *start, "--iops", "10", "--read-latency", "5ms")
    quick, other = fast["predictions"][0], slow["predictions"][0]
    assert other["warm_redo_s"] == quick["warm_redo_s"]
    pages = other["cold_redo_s"]["pages"]
    assert pages > 100
    assert other["cold_redo_s"]["redo_s"] == pytest.approx(pages / 10)
    assert slow["disk"] == {"iops": 10.0, "read_latency_us": 5000.0, "read_ahead_kb": 128}


def test_what_the_kernel_reads_ahead_is_as_told(wal: Path, tmp_path: Path) -> None:
    found = predict(tmp_path, str(wal), "--read-ahead", "1MB")
    assert found["disk"]["read_ahead_kb"] == 1024
    assert predict(tmp_path, str(wal), "--read-ahead", "0")["disk"]["read_ahead_kb"] == 0
    assert "Allowed: 0 (none) to 1GB" in refused(tmp_path, "predict", str(wal), "--read-ahead", "1TB")
    for text in ("128", "4096"):
        said = refused(tmp_path, "predict", str(wal), "--read-ahead", text)
        assert f"--read-ahead {text} has no unit" in said
        assert f"like {text}kB" in said


def test_a_prefetcher_is_simulated_as_told(wal: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it brings is held in tests/wal/test_recovery.py."""
    seen: list[int | None] = []

    def noted(_paths: object, order: RecoveryOrder, *_: object) -> None:
        seen.append(order.concurrency)
        raise typer.Exit

    monkeypatch.setattr("walproof.cli.recovery.predict_recovery", noted)
    for words in ((), ("--maintenance-io-concurrency", "17")):
        done = CliRunner().invoke(app, ["recovery", "predict", str(wal), *words])
        assert done.exit_code == 0, done.output
    assert seen == [None, 17]


def test_a_distance_ends_the_wal(wal: Path, tmp_path: Path) -> None:
    start = str(stats(wal).start)
    found = predict(tmp_path, str(wal), "--start", start, "--distance", "2MB")
    assert 1 << 20 < found["wal_bytes"] <= 2 << 20


def test_a_distance_that_an_earlier_redo_point_has_is_answered_from_there(wal: Path, tmp_path: Path) -> None:
    whole, last = stats(wal), find_redo(wal)
    whole_bytes = analyse(wal, start=whole.start, buffers=[16]).last.wal_bytes
    after_last = analyse(wal, start=last.redo, buffers=[16]).last.wal_bytes
    assert len(whole.checkpoints) > 1
    for distance in (after_last + (64 << 10), whole_bytes - (64 << 10)):
        asked = ("predict", str(wal), "--distance", f"{distance >> 10}kB")
        said = refused(tmp_path, *asked)
        assert "--distance=0kB" not in said
        (start,) = re.findall(r"--start=(\S+)", said)
        assert Lsn.parse(start) <= last.redo + after_last - distance
        found = predict(tmp_path, *asked[1:], "--start", start)
        assert distance - (64 << 10) < found["wal_bytes"] <= distance


def test_a_calibration_of_this_machine_is_found(wal: Path, tmp_path: Path) -> None:
    calibration = calibrated()
    write_calibration(tmp_path / "data" / "recovery" / "mine.json", calibration)
    found = predict(tmp_path, str(wal))
    assert found["coefficients"]["source"] == "calibrated"
    assert found["disk"] == {"iops": 4000.0, "read_latency_us": 250.0, "read_ahead_kb": 256}
    for term in TERMS:
        assert found["coefficients"]["cpu_us"][term.name] == pytest.approx(2 * term.shipped_us, rel=0.1)


def test_one_of_another_version_is_named_and_left(wal: Path, tmp_path: Path) -> None:
    write_calibration(tmp_path / "data" / "recovery" / "other.json", calibrated(version="17.2"))
    found = predict(tmp_path, str(wal))
    assert found["coefficients"]["source"] == "shipped"
    assert any("calibrated 17.2, recorded 15" in note for note in found["notes"])


def test_one_of_another_machine_is_refused_unless_it_is_meant(wal: Path, tmp_path: Path) -> None:
    path = tmp_path / "theirs.json"
    write_calibration(path, calibrated(cpu="another processor"))
    said = refused(tmp_path, "predict", str(wal), "--calibration", str(path))
    assert "of another machine or server" in said
    assert "cpu: calibrated another processor" in said
    assert "--other-machine" in said
    with pytest.raises(StoreError) as caught:
        find_costs(path, VERSION)
    assert caught.value.hint == "walproof recovery calibrate measures this one."
    found = predict(tmp_path, str(wal), "--calibration", str(path), "--other-machine")
    assert found["coefficients"]["source"] == "calibrated"


LOG = """\
LOG:  redo starts at {redo}
LOG:  redo done at {end} system usage: CPU: user: 3.00 s, system: 1.00 s, elapsed: 4.10 s
LOG:  database system is ready to accept connections
"""


def test_ones_own_crash_log_scales_the_costs(wal: Path, tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    redo = find_redo(wal).redo
    log.write_text(LOG.format(redo=redo, end=analyse(wal, start=redo, buffers=[16]).last.end))
    found = predict(tmp_path, str(wal), "--crash-log", str(log))
    assert found["predictions"][0]["warm_redo_s"] == pytest.approx(4.0)
    assert found["coefficients"]["source"] == "own crash"
    assert found["coefficients"]["band"] > 1


def test_what_cannot_be_answered(wal: Path, tmp_path: Path) -> None:
    first = stats(wal).checkpoints[0]
    said = refused(tmp_path, "predict", str(wal), "--end", str(first.lsn))
    assert "no complete checkpoint" in said
    assert "--start" in said
    said = refused(tmp_path, "predict", str(wal), "--crashed-shared-buffers", "0")
    assert "--crashed-shared-buffers must be above zero" in said
    said = refused(tmp_path, "predict", str(wal), "--distance", "500MB")
    assert "shorter than the distance: 500 MB" in said
    assert "hint: Record longer." in said
    assert "--start=" not in said
    log = tmp_path / "server.log"
    log.write_text("LOG:  redo starts at 0/1000028\nLOG:  redo in progress, elapsed time: 10.00 s\n")
    assert 'no "redo done"' in refused(tmp_path, "predict", str(wal), "--crash-log", str(log))
    log.write_text(LOG.format(redo="7F/28", end="7F/1000028"))
    assert "the WAL of the recovery in the log is not all at hand" in refused(
        tmp_path, "predict", str(wal), "--crash-log", str(log)
    )


def test_a_recovery_without_titles_is_not_followed(tmp_path: Path) -> None:
    """The startup process keeps its first title then: all of redo would be told as the sync before it."""
    main = tmp_path / "postgresql.conf"
    for line in ("update_process_title = off", "Update_Process_Title 'No'"):
        main.write_text(line + "\n")
        with pytest.raises(SettingError, match="update_process_title is off") as caught:
            _require_titles(server_conf(tmp_path, ["postgres"]))
        assert "--check" in str(caught.value.hint)
    for line in ("", "update_process_title = on", "update_process_title = perhaps"):
        main.write_text(line + "\n")
        _require_titles(server_conf(tmp_path, ["postgres"]))


def test_what_cannot_be_added_to_is_refused_before_anything_is_measured(tmp_path: Path) -> None:
    path = tmp_path / "earlier.json"
    path.write_text("{")
    said = refused(tmp_path, "calibrate", "--pg", "embedded", "--add", "--to", str(path))
    assert f'"{path}" is not a calibration' in said
    assert "replay" not in said
    assert path.read_text() == "{"


def test_what_was_measured_is_kept_where_it_cannot_be_added(tmp_path: Path) -> None:
    path, calibration = tmp_path / "mine.json", calibrated()
    assert _added(calibration, calibration, path).phases == calibration.phases * 2
    assert not list(tmp_path.iterdir())
    with pytest.raises(StoreError) as caught:
        _added(calibration, calibrated(cpu="another processor"), path)
    assert "mine-alone.json" in str(caught.value.hint)
    assert read_calibration(tmp_path / "mine-alone.json").machine.cpu == "another processor"


def test_a_calibration_that_cannot_be_used_replaces_none(tmp_path: Path) -> None:
    path, good = tmp_path / "mine.json", calibrated()
    assert _keep(path, good).source == "calibrated"
    with pytest.raises(AnalysisError, match="too few phases"):
        _keep(path, replace(good, phases=good.phases[:3]))
    assert read_calibration(path) == good


def test_memory_is_no_place_to_calibrate(tmp_path: Path) -> None:
    said = refused(tmp_path, "calibrate", "--pg", "embedded", "--on", "/dev/shm")
    assert "is in memory (tmpfs)" in said
