"""What ``walproof workload`` prints and refuses; tests/live/test_workload.py looks at real servers."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from tests.advise.workload.apps import tickets
from tests.cli.command import walproof
from walproof.advise.workload.draft import DraftOrder, draft
from walproof.cli.workload import as_data, say, write

ORDER = DraftOrder("tickets", 1 << 30, 20)


def test_it_says_what_the_load_has_and_has_not(capsys: pytest.CaptureFixture[str]) -> None:
    seen = tickets()
    say(seen, draft(seen, replace(ORDER, statements=5)), Path("tickets"))
    text = capsys.readouterr().out
    assert text.startswith("load tickets, from 8 s of database postgres: ")
    assert "of the calls and " in text
    assert "not in the load, those with the most WAL first" in text
    assert "it is not among the 5 that matter most (--statements)" in text
    assert "public.tickets: rows are drawn evenly" in text
    assert "  walproof tune --load tickets/tickets.toml --conf tickets/server.conf\n" in text
    assert "How long a flush of the server's WAL takes is not known" in " ".join(text.split())
    assert max(map(len, text.splitlines())) <= 110


def test_the_disk_of_the_server_is_emulated_where_its_flush_is_known(
    capsys: pytest.CaptureFixture[str],
) -> None:
    seen = replace(tickets(), flush_s=0.00143, settings=(("shared_buffers", "8GB"),))
    made = draft(seen, replace(ORDER, most_bytes=1 << 20))
    say(seen, made, Path("tickets"))
    text = capsys.readouterr().out
    assert "with the server's own settings and a disk like its own:" in text
    assert "--set NAME=VALUE" in text
    tuning = next(line for line in text.splitlines() if "walproof tune" in line)
    assert "--conf tickets/server.conf --device flush=1.43ms --keep shared_buffers=" in tuning
    assert "is not known" not in text
    assert as_data(seen, made, Path("tickets"))["device"] == "flush=1.43ms"


def test_the_files_belong_to_whoever_made_them(tmp_path: Path) -> None:
    made = draft(tickets(), ORDER)
    write(made, tmp_path / "new")
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == sorted(made.files)
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "new").iterdir()} == {0o600}
    data = as_data(tickets(), made, tmp_path / "new")
    assert data["file"] == str(tmp_path / "new" / "tickets.toml")


def test_the_servers_major_version_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    seen = replace(tickets(), version_num=180001)
    made = draft(seen, ORDER)
    assert tomllib.loads(made.files["tickets.toml"])["pg"] == ["18"]
    say(seen, made, Path("tickets"))
    assert "is not on this machine" not in capsys.readouterr().out
    newer = replace(tickets(), version_num=990001)
    say(newer, draft(newer, ORDER), Path("tickets"))
    assert (
        "PostgreSQL 99, which the server is and tickets.toml names, is not on this machine: "
        '"walproof pg install 99" fetches it, and --pg runs another.\n'
    ) in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--for", "0.5s"], "--for is 0.5s: expected at least 1 s"),
        (["--for", "soon"], "soon"),
        (["--size", "0"], "--size must be above zero"),
        (["--size", "20"], "--size 20 has no unit, so it would be bytes"),
        (["--statements", "0"], "--statements"),
        ([], "could not connect to the server"),
    ],
)
def test_what_cannot_be_is_refused(words: list[str], said: str, tmp_path: Path) -> None:
    done = walproof("workload", "host=/nowhere", "--to", "new", *words, cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "new").exists()
