"""Parts of WAL from the command line and from Python: to the byte what the whole gives."""

from __future__ import annotations

import json
import random
import stat
from itertools import pairwise
from pathlib import Path

import pytest

from tests.cli.command import walproof
from tests.golden.unpack import VERSIONS, unpack
from walproof.errors import WalError
from walproof.report.wal.rows import By, json_text, rows
from walproof.units import Lsn
from walproof.wal import WalStats, stats
from walproof.wal.parts import Part, are_parts, join_parts, load_parts, read_part

MB = 1 << 20


def texts(wal: WalStats) -> list[str]:
    return [json_text(wal, by, rows(wal, by)) for by in By]


def apart(folder: Path, major: int) -> tuple[dict[str, str], list[Path]]:
    """Golden WAL, each segment in a folder of its own."""
    whole = folder / "whole"
    whole.mkdir()
    facts = unpack(major, whole)
    alone = []
    for file in sorted(whole.iterdir()):
        single = folder / f"alone-{file.name}"
        single.mkdir()
        (single / file.name).write_bytes(file.read_bytes())
        alone.append(single)
    return facts, alone


@pytest.mark.parametrize("major", VERSIONS)
def test_any_cutting_gives_the_json_of_the_whole(tmp_path: Path, major: int) -> None:
    facts, alone = apart(tmp_path, major)
    wanted = texts(stats(tmp_path / "whole"))
    assert texts(join_parts([read_part(folder).data for folder in alone]).stats()) == wanted
    start, end = Lsn.parse(facts["start"]), Lsn.parse(facts["end"])
    between = stats(tmp_path / "whole", start=start, end=end)
    assert between.totals.records > 1000
    chance = random.Random(major)
    for count in (1, 5, 40):
        cuts = sorted(chance.sample(range(start + 8, end, 8), count))
        bounds = [start, *map(Lsn, cuts), end]
        parts = [
            read_part(tmp_path / "whole", start=begin, end=other).data for begin, other in pairwise(bounds)
        ]
        while len(parts) > 1:
            place = chance.randrange(len(parts) - 1)
            parts[place : place + 2] = [join_parts(parts[place : place + 2]).data]
        assert texts(join_parts(parts).stats()) == texts(between), cuts


def test_from_the_command_line(tmp_path: Path) -> None:
    _, alone = apart(tmp_path, 18)
    names = ["a.part", "b.part", "c.part"]
    for folder, name in zip(alone, names, strict=True):
        done = walproof("wal", "part", str(folder), "--out", name, "--json", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        said = json.loads(done.stdout)
        assert said["start"] == str(Lsn(int(folder.name[-8:], 16) * MB))
        assert said["part_bytes"] == (tmp_path / name).stat().st_size
        assert said["is_open"] == (name != "c.part")
    assert {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in names} == {0o600}
    joined = walproof("wal", "part", "b.part", "c.part", "--out", "bc.part", cwd=tmp_path)
    assert joined.returncode == 0, joined.stderr
    for arguments, parts in ((["--json", "--by", "relation"], names), ([], ["a.part", "bc.part"])):
        whole = walproof("wal", "stats", "whole", *arguments, cwd=tmp_path)
        done = walproof("wal", "stats", *parts, *arguments, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (0, whole.stdout), done.stderr

    swapped = walproof("wal", "stats", "b.part", "a.part", cwd=tmp_path)
    assert swapped.returncode == 2
    assert "a.part: the part of WAL from" in swapped.stderr
    assert "expected a part that begins at" in swapped.stderr
    with pytest.raises(WalError, match=r"c\.part: the part of WAL from"):
        load_parts([tmp_path / "a.part", tmp_path / "c.part"])
    with pytest.raises(WalError, match="parts and WAL cannot be read together"):
        are_parts([tmp_path / "a.part", tmp_path / "whole"])
    ranged = walproof("wal", "stats", "a.part", "--start", "0/800000", cwd=tmp_path)
    assert "parts are joined as they are" in ranged.stderr


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    unpack(17, tmp_path)
    part = read_part(tmp_path)
    file = tmp_path / "one.part"
    for at in (0, 7, 20, len(part.data) // 2, len(part.data) - 1):
        data = bytearray(part.data)
        data[at] ^= 1
        file.write_bytes(data)
        with pytest.raises(WalError, match="invalid part of WAL"):
            load_parts([file])
    file.write_bytes(part.data[:-9])
    with pytest.raises(WalError, match=r"one\.part: invalid part of WAL: its checksum is wrong"):
        load_parts([file])
    file.write_bytes(part.data)
    assert are_parts([file])
    assert not are_parts([tmp_path])
    with pytest.raises(WalError, match="could not open file"):
        load_parts([tmp_path / "none"])


def test_a_part_knows_its_place(tmp_path: Path) -> None:
    facts = unpack(16, tmp_path)
    start = Lsn.parse(facts["start"])
    part: Part = read_part(tmp_path, start=start, end=Lsn(start + 4096))
    assert (part.version, part.start, part.end) == (16, start, Lsn(start + 4096))
    assert (part.first_record, part.first_timeline, part.last_timeline) == (start, 1, 1)
    assert part.is_open
    assert part.last_record is not None
    assert part.last_record < part.end
    with pytest.raises(WalError, match="a part of WAL cannot begin or end at"):
        read_part(tmp_path, start=Lsn(start + 4))
