"""``walproof wal`` on golden WAL, as a user types it; every mistake is one clear error with status 2."""

from __future__ import annotations

import csv
import gzip
import io
import json
import lzma
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from tests.cli.command import walproof
from tests.golden.unpack import GOLDEN, unpack
from tests.schemas import assert_valid
from walproof.wal import records, stats


@pytest.fixture(scope="module")
def wal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wal18")
    unpack(18, folder)
    return folder


@dataclass(frozen=True)
class Recorded:
    """A recording with the name of a relation, and the same WAL without."""

    folder: Path
    wal: Path
    place: str


@pytest.fixture(scope="module")
def recording(wal: Path, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    folder = tmp_path_factory.mktemp("capture") / "recording"
    shutil.copytree(wal, folder)
    found = stats(wal)
    most = found.relations[0]
    named = {
        "tablespace": most.tablespace, "database": most.database, "relation": most.relation,
        "database_name": "shop", "name": "public.or\nders\x1b", "kind": "table", "method": None,
        "owner": None,
    }  # fmt: skip
    names = {
        "format": 1, "system_identifier": found.system_identifier, "version_num": 180000, "taken_at": 0.0,
        "relations": [named], "left_out": [],
    }  # fmt: skip
    (folder / "relations.json").write_text(json.dumps(names))
    (folder / "recording.json").write_text("{}")
    return Recorded(folder, wal, f"{most.tablespace}/{most.database}/{most.relation}")


def test_stats_in_a_terminal(wal: Path, tmp_path: Path) -> None:
    done = walproof("wal", "stats", str(wal), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for expected in (
        "By resource manager", "Heap", "Btree", "The sum is the LSN distance, to the byte.",
        "full-page images take", "hint bit was set", "Checkpoints", "The WAL ends at",
    ):  # fmt: skip
        assert expected in " ".join(done.stdout.split()), expected
    assert done.stderr == ""


@pytest.mark.parametrize("by", ["rmgr", "record", "relation", "fork", "minute"])
def test_rows_add_up(wal: Path, tmp_path: Path, by: str) -> None:
    data = json.loads(walproof("wal", "stats", str(wal), "--by", by, "--json", cwd=tmp_path).stdout)
    for column in ("records", "record_bytes", "image_count", "image_bytes", "combined_bytes"):
        assert sum(row[column] for row in data["rows"]) == data["totals"][column], column
    assert data["accounting"]["total_bytes"] == data["lsn_distance"]
    table = walproof("wal", "stats", str(wal), "--by", by, "--csv", cwd=tmp_path).stdout
    rows = list(csv.DictReader(io.StringIO(table)))
    assert [int(row["combined_bytes"]) for row in rows] == [row["combined_bytes"] for row in data["rows"]]


def test_a_minute_that_is_shown_is_one_to_ask_for(wal: Path, tmp_path: Path) -> None:
    def ask(*more: str) -> str:
        # A new Python, which reads the zone at its start.
        done = walproof(
            "wal", "stats", str(wal), "--by", "minute", *more,
            cwd=tmp_path, TZ="IST-5:30", PYTHONHASHSEED="0",
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    whole = json.loads(ask("--json"))
    told = whole["rows"][0]["minute"]
    assert next(csv.DictReader(io.StringIO(ask("--csv"))))["minute"] == told
    at = datetime.fromisoformat(told)
    assert (at.utcoffset(), at.second) == (timedelta(0), 0)
    local = timezone(timedelta(hours=5, minutes=30))
    shown = at.astimezone(local).isoformat(" ", "minutes")
    text = " ".join(ask().split())
    assert f" {shown} " in text
    first = datetime.fromtimestamp(whole["first_commit_at"], local).isoformat(" ", "seconds")
    assert f"between {first} and " in text, "other times of the page, too"
    assert json.loads(ask("--json", "--since", shown))["commits"] == whole["commits"]


def test_indexes_are_found_without_names(wal: Path, tmp_path: Path) -> None:
    data = json.loads(walproof("wal", "stats", str(wal), "--by", "index", "--json", cwd=tmp_path).stdout)
    methods = {row["method"] for row in data["rows"]}
    assert methods == {"btree", "hash", "gin", "gist", "spgist", "brin"}


def test_a_page_with_pictures(wal: Path, tmp_path: Path) -> None:
    done = walproof("wal", "stats", str(wal), "--by", "relation", "--html", "wal.html", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "wal.html").read_text()
    assert "Which relation writes the WAL" in page
    assert page.count("<svg") == 1
    assert "http://" not in page.replace("http://www.w3.org/", "")


def test_records(wal: Path, tmp_path: Path) -> None:
    text = walproof("wal", "records", str(wal), "--limit", "3", cwd=tmp_path).stdout.splitlines()
    assert len(text) == 3
    assert all(line.startswith("rmgr: ") and ", desc: " in line for line in text)
    lines = walproof("wal", "records", str(wal), "--json", cwd=tmp_path).stdout.splitlines()
    for line in lines[:1000]:
        assert_valid("wal-records", json.loads(line))
    found = [json.loads(line) for line in lines]
    assert len(found) == stats(wal).totals.records
    assert sum(row["total_length"] for row in found) == stats(wal).totals.combined_bytes
    blocks = walproof("wal", "records", str(wal), "--blocks", cwd=tmp_path).stdout
    assert "method: pglz" in blocks
    assert blocks.count("blkref #") == sum(len(row["blocks"]) for row in found)


def test_mistakes(wal: Path, tmp_path: Path) -> None:
    names = sorted(file.name for file in wal.iterdir())
    gap = tmp_path / "gap"
    gap.mkdir()
    for name in (names[0], names[2]):
        shutil.copy(wal / name, gap / name)
    empty = tmp_path / "empty"
    empty.mkdir()
    other = tmp_path / "other"
    other.mkdir()
    unpack(17, other)
    mixed = tmp_path / "mixed"
    mixed.mkdir()
    shutil.copy(wal / names[0], mixed / names[0])
    (mixed / names[1]).write_bytes((other / min(file.name for file in other.iterdir())).read_bytes())
    cut = tmp_path / "cut"
    cut.mkdir()
    (cut / f"{names[1]}.gz").write_bytes(gzip.compress((wal / names[1]).read_bytes())[:9000])
    note = tmp_path / "note.txt"
    note.write_text("x")
    end = json.loads(walproof("wal", "stats", str(wal), "--json", cwd=tmp_path).stdout)["end"]
    behind = f"{end.split('/')[0]}/{int(end.split('/')[1], 16) + 64 * 1024 * 1024:X}"
    cases: list[tuple[list[str], str, str]] = [
        (["stats", str(note)], "is not a WAL segment", "hint:"),
        (["stats", str(empty)], "could not find any WAL file in", "pg_wal"),
        (["stats", str(tmp_path / "nowhere")], "could not open file", "No such file or directory"),
        (["stats", str(gap)], f"could not find WAL segment {names[1]} for ", "--allow-gaps"),
        (["stats", str(gap)], f"the next segment at hand is {names[2]}", ""),
        (["stats", str(wal), str(other)], "WAL file is from different database system", "two clusters"),
        (["stats", str(cut)], "could not unpack", "another copy"),
        (["stats", str(wal), "--end", behind], "invalid record length", "The WAL may end here"),
        (["stats", str(wal), "--end", "x"], 'invalid LSN: "x"', "two hexadecimal numbers"),
        (["stats", str(wal), "--start", "7/0"], "could not find WAL segment", "7/0"),
        (["stats", str(wal), "--by", "colour"], 'cannot total by "colour"', "relation"),
        (["stats", str(wal), "--json", "--csv"], "exclude each other", ""),
        (["stats", str(wal), "--map", str(note)], "could not read relation map", "walproof wal map"),
        (["records", str(empty)], "could not find any WAL file in", ""),
        (["map", "host=/nowhere user=nobody"], "could not connect", ""),
    ]
    for arguments, message, hint in cases:
        done = walproof("wal", *arguments, cwd=tmp_path)
        assert done.returncode == 2, (arguments, done.stdout[-500:], done.stderr)
        assert message in done.stderr, (arguments, done.stderr)
        assert hint in done.stderr, (arguments, done.stderr)
        assert "Traceback" not in done.stderr

    done = walproof("wal", "stats", str(mixed), cwd=tmp_path)
    assert done.returncode == 2
    assert "invalid magic number D116" in done.stderr
    assert "written by PostgreSQL 17" in done.stderr


def test_gaps_and_damage_leave_what_can_be_read(wal: Path, tmp_path: Path) -> None:
    names = sorted(file.name for file in wal.iterdir())
    (tmp_path / "gap").mkdir()
    for name in (names[0], names[2]):
        shutil.copy(wal / name, tmp_path / "gap" / name)
    done = walproof("wal", "stats", "gap", "--allow-gaps", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    (gap,) = data["gaps"]
    missing = int(gap["end"].split("/")[1], 16) - int(gap["start"].split("/")[1], 16)
    assert data["lsn_distance"] == data["accounting"]["total_bytes"] + missing

    done = walproof("wal", "stats", "gap", "--partial", "--json", cwd=tmp_path)
    assert done.returncode == 2
    assert "could not find WAL segment" in done.stderr
    data = json.loads(done.stdout)
    assert data["finish"] == "error"
    assert data["totals"]["records"] == stats(tmp_path / "gap", partial=True).totals.records > 100
    assert data["accounting"]["total_bytes"] == data["lsn_distance"]


def test_names_of_another_cluster_are_refused(wal: Path, tmp_path: Path) -> None:
    names = {
        "format": 1, "system_identifier": 42, "version_num": 180000, "taken_at": 0.0, "relations": [],
        "left_out": [],
    }  # fmt: skip
    (tmp_path / "map.json").write_text(json.dumps(names))
    done = walproof("wal", "stats", str(wal), "--map", "map.json", cwd=tmp_path)
    assert done.returncode == 2
    assert "the names are those of another cluster" in done.stderr
    assert "42" in done.stderr
    # Before the WAL is read, where it would come to a segment that is missing.
    shutil.copytree(wal, tmp_path / "holed")
    sorted((tmp_path / "holed").iterdir())[1].unlink()
    done = walproof("wal", "stats", "holed", "--map", "map.json", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "the names are those of another cluster" in done.stderr


def test_a_recording_knows_its_names(wal: Path, tmp_path: Path) -> None:
    shutil.copytree(wal, tmp_path / "recording")
    by_relation = ("wal", "stats", "recording", "--by", "relation")
    plain = walproof(*by_relation, "--csv", cwd=tmp_path).stdout
    places = [row["relation"] for row in csv.DictReader(io.StringIO(plain))]
    place = next(place for place in places if place.count("/") == 2)
    tablespace, database, relation = map(int, place.split("/"))
    named = {
        "tablespace": tablespace, "database": database, "relation": relation, "database_name": "shop",
        "name": "public.orders", "kind": "table", "method": None, "owner": None,
    }  # fmt: skip
    names = {
        "format": 1, "system_identifier": stats(wal).system_identifier, "version_num": 180000,
        "taken_at": 0.0, "relations": [named], "left_out": [],
    }  # fmt: skip
    (tmp_path / "recording" / "relations.json").write_text(json.dumps(names))
    assert walproof(*by_relation, "--csv", cwd=tmp_path).stdout == plain, (
        "a file of that name is no recording"
    )
    (tmp_path / "recording" / "recording.json").write_text("{}")
    assert "shop: public.orders" in walproof(*by_relation, cwd=tmp_path).stdout
    segment = next((tmp_path / "recording").glob("0*"))
    assert (
        "shop: public.orders" in walproof("wal", "stats", str(segment), *by_relation[3:], cwd=tmp_path).stdout
    )
    (tmp_path / "recording" / "relations.json").write_text("{}")
    unnamed = walproof(*by_relation, "--csv", cwd=tmp_path)
    assert unnamed.stdout == plain
    assert "is not a relation map: relations have no names" in unnamed.stderr
    others = json.dumps({**names, "system_identifier": 1})
    (tmp_path / "recording" / "relations.json").write_text(others)
    unnamed = walproof(*by_relation, "--csv", cwd=tmp_path)
    assert (unnamed.returncode, unnamed.stdout) == (0, plain)
    assert "names are those of another cluster: relations have no names" in unnamed.stderr


@pytest.mark.parametrize("style", [(), ("--blocks",)])
def test_records_of_a_recording_have_names(
    recording: Recorded, tmp_path: Path, style: tuple[str, ...]
) -> None:
    """Without the names, lines are pg_waldump's; what is in a name stays on its line."""
    named = walproof("wal", "records", str(recording.folder), *style, cwd=tmp_path)
    assert (named.returncode, named.stderr) == (0, "")
    plain = walproof("wal", "records", str(recording.wal), *style, cwd=tmp_path).stdout
    added = f"rel {recording.place} (shop: public.or ders?)"
    assert named.stdout.count(added) == plain.count(f"rel {recording.place} ") > 10
    assert named.stdout.replace(added, f"rel {recording.place}") == plain


def test_records_of_a_recording_have_names_in_json(recording: Recorded, tmp_path: Path) -> None:
    named = walproof("wal", "records", str(recording.folder), "--json", cwd=tmp_path).stdout
    plain = walproof("wal", "records", str(recording.wal), "--json", cwd=tmp_path).stdout
    found = [json.loads(line) for line in named.splitlines()]
    for record in found:
        for block in record["blocks"]:
            place = "/".join(str(block[part]) for part in ("tablespace", "database", "relation"))
            is_known = place == recording.place
            assert block.pop("relation_name") == ("shop: public.or\nders\x1b" if is_known else None)
    assert found == [json.loads(line) for line in plain.splitlines()]


def test_records_are_read_without_names_of_another_cluster(recording: Recorded, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(recording.folder, copy)
    names = json.loads((copy / "relations.json").read_text())
    (copy / "relations.json").write_text(json.dumps({**names, "system_identifier": 1}))
    done = walproof("wal", "records", str(copy), cwd=tmp_path)
    assert done.stdout == walproof("wal", "records", str(recording.wal), cwd=tmp_path).stdout
    assert "names are those of another cluster: relations have no names" in done.stderr


def test_an_archive_reads_as_the_plain_segments_do(wal: Path, tmp_path: Path) -> None:
    (tmp_path / "archive").mkdir()
    for number, file in enumerate(sorted(wal.iterdir())):
        packed = tmp_path / "archive" / f"{file.name}.{'xz' if number % 2 else 'gz'}"
        compress = lzma.compress if number % 2 else gzip.compress
        packed.write_bytes(compress(file.read_bytes()))
    plain = walproof("wal", "stats", str(wal), "--by", "record", "--csv", cwd=tmp_path)
    archived = walproof("wal", "stats", "archive", "--by", "record", "--csv", cwd=tmp_path)
    assert archived.stdout == plain.stdout
    assert (GOLDEN / "18" / "stats.txt").exists()


def test_records_that_meet_conditions(recording: Recorded, tmp_path: Path) -> None:
    """Names are those that the recording has, and that a map has; times are in any zone."""
    whole = [
        json.loads(line)
        for line in walproof("wal", "records", str(recording.wal), "--json", cwd=tmp_path).stdout.splitlines()
    ]

    def found(*conditions: str, of: Path = recording.folder) -> list[str]:
        done = walproof("wal", "records", str(of), "--json", *conditions, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return [json.loads(line)["lsn"] for line in done.stdout.splitlines()]

    changing = [
        record["lsn"]
        for record in whole
        if any(
            f"{block['tablespace']}/{block['database']}/{block['relation']}" == recording.place
            for block in record["blocks"]
        )
    ]
    assert changing
    assert found("--relation", "public.or\nders\x1b") == changing
    assert found("-R", recording.place, of=recording.wal) == changing
    map_ = str(recording.folder / "relations.json")
    assert found("-R", "or\nders\x1b", "--map", map_, of=recording.wal) == changing
    heap = [record["lsn"] for record in whole if record["rmgr"] in ("Heap", "XLOG")]
    assert found("-r", "heap", "-r", "XLOG") == heap
    images = [record["lsn"] for record in whole if record["image_bytes"]]
    assert found("--images", "-n", "3") == images[:3]
    [commit, *_] = [record for record in whole if record["operation"] == "COMMIT"]
    assert found("--xid", str(commit["xid"]), "-r", "Transaction/COMMIT") == [commit["lsn"]]
    at = datetime.fromtimestamp(commit["time_unix_us"] / 1e6, timezone(timedelta(hours=3)))
    until = found("--until", at.isoformat(), "-r", "Transaction/COMMIT")
    assert until[-1] == commit["lsn"]


def test_one_of_each_is_not_said_as_several(wal: Path, tmp_path: Path) -> None:
    found = next(record for record in records(wal) if record.rmgr == "Heap" and record.image_bytes)
    span = ("--start", str(found.lsn), "--end", str(found.end))
    said = walproof("wal", "stats", str(wal), *span, cwd=tmp_path).stdout
    assert "Total: 1 record, " in said
    assert "1 full-page image takes" in said


def test_no_record_meets_the_conditions(recording: Recorded, tmp_path: Path) -> None:
    done = walproof("wal", "records", str(recording.wal), "-x", "4000000000", cwd=tmp_path)
    count = stats(recording.wal).totals.records
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == f"walproof: no record meets the conditions, of {count:,} records read\n"
    at_end = ("--start", str(stats(recording.wal).end))
    assert "conditions" not in walproof("wal", "records", str(recording.wal), *at_end, cwd=tmp_path).stderr
    for conditions, words in (
        (["-R", "orders"], "nothing here knows the name"),
        (["-r", "Heaps"], 'no resource manager is called "Heaps"'),
        (["--since", "yesterday"], '"yesterday" is not a time'),
        (["--map", "none.json"], "could not read relation map"),
    ):
        done = walproof("wal", "records", str(recording.wal), *conditions, cwd=tmp_path)
        assert done.returncode == 2
        assert words in done.stderr
        assert "Traceback" not in done.stderr


def test_names_of_another_cluster_are_refused_where_they_were_given(
    recording: Recorded, tmp_path: Path
) -> None:
    names = json.loads((recording.folder / "relations.json").read_text())
    (tmp_path / "map.json").write_text(json.dumps({**names, "system_identifier": 1}))
    done = walproof("wal", "records", str(recording.wal), "--map", "map.json", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "the names are those of another cluster" in done.stderr


def test_a_part_of_the_wal_by_its_times(wal: Path, tmp_path: Path) -> None:
    """The same as between the locations that the times lead to."""
    whole = walproof("wal", "records", str(wal), "--json", "-r", "Transaction/COMMIT", cwd=tmp_path).stdout
    commits = [json.loads(line) for line in whole.splitlines()]
    first, last = commits[len(commits) // 3], commits[len(commits) // 3 * 2]

    def moment(commit: dict[str, int]) -> str:
        return datetime.fromtimestamp(commit["time_unix_us"] / 1e6, UTC).isoformat()

    times = ("--since", moment(first), "--until", moment(last))
    found = json.loads(walproof("wal", "stats", str(wal), "--json", *times, cwd=tmp_path).stdout)
    assert found["commits"] == len(commits) // 3 + 1
    places = ("--start", found["start"], "--end", found["end"])
    assert json.loads(walproof("wal", "stats", str(wal), "--json", *places, cwd=tmp_path).stdout) == found
    printed = walproof("wal", "records", str(wal), *times, cwd=tmp_path)
    assert printed.stdout == walproof("wal", "records", str(wal), *places, cwd=tmp_path).stdout
    predicted = json.loads(walproof("wal", "whatif", str(wal), "--json", *times, cwd=tmp_path).stdout)
    assert (predicted["start"], predicted["end"]) == (found["start"], found["end"])
    for name, span in (("times", times), ("places", places)):
        done = walproof("wal", "part", str(wal), "--out", name, *span, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "times").read_bytes() == (tmp_path / "places").read_bytes()
    for conditions, words in (
        (["--since", "26h", "--start", "0/0"], "--start and --since exclude each other"),
        (["--until", "yesterday"], '"yesterday" is not a time'),
    ):
        done = walproof("wal", "stats", str(wal), *conditions, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (2, "")
        assert words in done.stderr
