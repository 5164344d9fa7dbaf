"""Power cuts and an emulated disk from the command line: run, report, keep, replay."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from tests.cli.command import walproof
from tests.schemas import assert_valid

pytestmark = pytest.mark.live

STUDY = """\
name = "cuts"
title = "Which of the two survives?"
[base]
shared_buffers = "8MB"
bgwriter_delay = "10ms"
max_wal_size = "64MB"
min_wal_size = "32MB"
[design]
rounds = 1
probes = []
[power_cut]
images = 2
only = true
[[workload]]
name = "w"
builtin = "simple-update"
clients = 2
duration = "60s"
[[variant]]
name = "safe"
[[variant]]
name = "unsafe"
settings = { fsync = false }
[variant.cut]
writeback = "never"
"""


def test_a_study_of_power_cuts(tmp_path: Path) -> None:
    (tmp_path / "cuts.toml").write_text(STUDY)
    command = ("run", "cuts.toml", "--pg", "embedded", "--keep-failures", "kept")
    done = walproof(*command, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "self-test" in done.stderr
    document = json.loads(done.stdout)
    assert_valid("report", document)
    safe, unsafe = document["power_cuts"]
    assert (safe["images"], safe["failed"], safe["void"]) == (2, 0, 0), safe
    assert safe["counts"]["clean"] + safe["counts"]["benign"] == 2
    # Of the second image everything may have survived, or nothing.
    assert unsafe["failed"] >= 1, unsafe
    said = document["run"]["environment"]["facts"]["self_test"]
    assert "everything kept, fsync=off: 0 of 1 images caught" in said
    assert "; fsync=off: 2 of 2 images caught" in said
    assert "full durability: 0 of 3 images caught" in said
    page = next((tmp_path / "walproof-out" / "reports").glob("*.html")).read_text()
    assert "Survives a power cut?" in page
    assert "Self-test of the simulator before the run, passed" in page

    kept = sorted((tmp_path / "kept").iterdir())
    assert len(kept) == unsafe["failed"]
    again = walproof("power-cut", "replay", str(kept[0]), cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    then, now = re.findall(r"verdict (?:then|now): +(.*)", again.stdout)
    assert then.split(":")[0] == now.split(":")[0]
    told = walproof("power-cut", "replay", str(kept[0]), "--json", cwd=tmp_path)
    assert told.returncode == 0, told.stderr
    data = json.loads(told.stdout)
    assert_valid("power-cut-replay", data)
    assert data["is_same"] is True
    assert data["then"]["state"] == data["now"]["state"] == then.split(":")[0]
    assert data["now"].keys() == data["then"].keys() > {"reason", "torn_pages", "lost_commits"}
    assert data["settings"]["fsync"] == "off"
    assert (data["kept"], data["acknowledged"] > 0) == (str(kept[0]), True)
    trial = next(candidate for candidate in document["trials"] if candidate["variant"] == "unsafe")
    by_case = walproof("power-cut", "replay", f"{trial['number']}/1", cwd=tmp_path)
    assert by_case.returncode == 0, by_case.stderr
    assert "verdict now:" in by_case.stdout
    # What was not kept is cut again, from its seeds; a sound image stays sound.
    safe_trial = next(candidate for candidate in document["trials"] if candidate["variant"] == "safe")
    sound = walproof("power-cut", "replay", f"{safe_trial['number']}/2", cwd=tmp_path)
    assert "verdict now:  clean" in sound.stdout or "verdict now:  benign" in sound.stdout, sound.stderr
    assert "cutting again" in sound.stderr
    assert sound.returncode == ("The load's timing is never quite the same" in sound.stdout)
    told = walproof("power-cut", "replay", f"{safe_trial['number']}/2", "--json", cwd=tmp_path)
    data = json.loads(told.stdout)
    assert_valid("power-cut-replay", data)
    assert told.returncode == (not data["is_same"])
    assert (data["is_same"], data["kept"], data["survival"]) == (
        data["now"]["state"] == data["then"]["state"],
        None,
        safe_trial["cut"]["images"][1]["survival"],
    )
    assert data["now"]["state"] in ("clean", "benign")
    # Nothing is left in memory.
    assert not Path(f"/dev/shm/walproof-work-{os.getuid()}").exists()


@pytest.mark.long
def test_a_comparison_on_an_emulated_disk_with_cuts(tmp_path: Path) -> None:
    """The ratio follows from the flush, on a laptop or a server: at 20 ms nothing else counts."""
    done = walproof(
        "compare", "--set", "synchronous_commit=off", "--pg", "embedded", "--scale", "1", "--clients", "4",
        "--duration", "2", "--rounds", "1", "--device", "flush=20ms", "--power-cut", "1", "--json",
        cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert_valid("report", document)
    tps = {trial["variant"]: trial["metrics"]["tps"] for trial in document["trials"]}
    assert tps["default"] < 51
    assert tps["synchronous_commit=off"] > 3 * tps["default"]
    facts = document["run"]["environment"]["facts"]
    assert facts["emulated_device"] == "flush=20ms (flush 20 ms)"
    assert [cut["images"] for cut in document["power_cuts"]] == [1, 1]
    assert document["power_cuts"][0]["failed"] == 0
