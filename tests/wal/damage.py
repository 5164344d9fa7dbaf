"""Damage shown to pg_waldump and to walproof: both have to stop at the same record with the same words.

The golden WAL of each version is damaged in one place at a time. Half of the damages are to bytes, pages and
files; the other half are to records whose checksum is made right again, so that what is wrong with their
parts is found. pg_waldump runs with --stats=record, which takes every record apart and describes none:
descriptions trust what a good checksum covers.

What is counted apart:

- walproof compares system identifiers, pg_waldump does not.
- walproof refuses a length beyond 1 GB at once; pg_waldump first looks at the page that should continue the
  record, and complains of that.
- pg_waldump learns the segment size from the first file that the system lists. When that one is damaged at
  its beginning, it reads nothing. It also keeps to itself why there is no first record.

Two differences in words are PostgreSQL's own and not counted. From 15 on the message about a record's parts
names the record before (DecodeXLogRecord prints ReadRecPtr, which then still is the last one returned); 13
says that of the record itself but takes it for the last one read. walproof names the wrong record in both.
"""

from __future__ import annotations

import random
import re
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tests.golden.unpack import unpack
from tests.wal.waldump import Oracle, Statistics, own_records, own_statistics
from walproof.errors import WalError
from walproof.units import Lsn
from walproof.wal import stats

PAGE = 8192
MB = 1024 * 1024
HEADER = 24
"""Bytes of a record's header."""
_SHOWN = 20
"""Differences kept; all are counted."""


@dataclass(frozen=True)
class Verdict:
    """What a reader said of damaged WAL."""

    last: Lsn | None
    """The last record in order; None when there was none, or where that is not said."""
    message: str
    totals: Statistics | None
    """Of what was read; None where that is not said."""


@dataclass
class DamageReport:
    """How often both said the same."""

    major: int
    seed: int
    threads: int
    damages: int = 0
    messages: Counter[str] = field(default_factory=Counter)
    """pg_waldump's words without their numbers -> how often."""
    apart: Counter[str] = field(default_factory=Counter)
    """What is not comparable -> how often; see the module's docstring."""
    differences: int = 0
    shown: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [
            f"{self.major}: {self.damages} damages (seed {self.seed}, threads {self.threads}),"
            f" {self.differences} differences, {sum(self.apart.values())} not comparable"
        ]
        lines += [f"  {count:>6} {message}" for message, count in self.messages.most_common()]
        lines += [f"  {count:>6} not comparable: {reason}" for reason, count in self.apart.items()]
        return "\n".join([*lines, *(f"  DIFFERENT: {text}" for text in self.shown)])


class GoldenWal:
    """The segments of one version, and the damages that can be done to them."""

    def __init__(self, major: int, folder: Path) -> None:
        """Unpacks it into ``folder``."""
        facts = unpack(major, folder)
        self.start, self.end = Lsn.parse(facts["start"]), Lsn.parse(facts["end"])
        self.segments = {file.name: file.read_bytes() for file in sorted(folder.iterdir())}

    def damage(self, chance: random.Random, records: list[tuple[int, int]]) -> tuple[str, bytes, str]:
        """A segment's name, its bytes after damage, and what was done. ``records``: offsets and lengths."""
        if chance.random() < 0.5:
            offset, length = chance.choice(records)
            name, data = self._segment(offset)
            what = _reseal(chance, data, offset % MB, length)
        else:
            offset = chance.randrange(self.end - self._base + PAGE)
            name, data = self._segment(offset)
            what = chance.choice(_DAMAGES)(chance, data, offset % MB)
        return name, bytes(data), f"{what} in {name}"

    @property
    def _base(self) -> int:
        return self.start - self.start % MB

    def _segment(self, offset: int) -> tuple[str, bytearray]:
        name = list(self.segments)[offset // MB]
        return name, bytearray(self.segments[name])

    def records(self, folder: Path) -> list[tuple[int, int]]:
        """Offset from the first segment and length of the records that lie within a page."""
        found = [(record[0] - self._base, record[3]) for record in own_records(folder, self.start, self.end)]
        return [(offset, length) for offset, length in found if offset % PAGE + length <= PAGE]


def compare_damages(major: int, command: list[str], count: int, seed: int, threads: int = 1) -> DamageReport:
    """``count`` damages to the golden WAL of that version, one at a time; walproof reads with ``threads``."""
    report, chance = DamageReport(major, seed, threads), random.Random(seed)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        golden = GoldenWal(major, folder)
        records = golden.records(folder)
        oracle = Oracle(command, folder)
        for number in range(count):
            name, data, what = golden.damage(chance, records)
            (folder / name).write_bytes(data)
            theirs, ours = _theirs(oracle, golden.start), _ours(folder, golden.start, threads)
            _judge(report, f"damage {number}: {what}", theirs, ours)
            (folder / name).write_bytes(golden.segments[name])
    return report


def _judge(report: DamageReport, what: str, theirs: Verdict, ours: Verdict) -> None:
    report.damages += 1
    report.messages[re.sub(r"\b[0-9A-F]+/[0-9A-F]+\b|\b[0-9A-F]{4,24}\b|\b\d+\b", "#", theirs.message)] += 1
    reason = _not_comparable(theirs, ours)
    if reason is not None:
        report.apart[reason] += 1
        return
    wanted, said = theirs.message, ours.message
    same = True
    if wanted.endswith(f" at {theirs.last}"):  # the parts of a record
        if report.major >= 15:
            wanted, said = (re.sub(r" at \S+$", "", text) for text in (wanted, said))
            same = ours.last in (None, theirs.last)
    else:
        same = None in (theirs.last, ours.last) or theirs.last == ours.last
    if "contrecord length" in wanted and "expected" not in wanted:  # 13
        said = re.sub(r" \(expected \d+\)", "", said)
    same &= wanted == said
    same &= None in (theirs.totals, ours.totals) or theirs.totals == ours.totals
    if not same:
        report.differences += 1
        if len(report.shown) < _SHOWN:
            report.shown.append(
                f"{what}: {ours.last} {ours.message!r}, pg_waldump {theirs.last} {theirs.message!r}"
            )


def _not_comparable(theirs: Verdict, ours: Verdict) -> str | None:
    if "different database system: system identifier" in ours.message:
        return "walproof compares system identifiers"
    is_same_place = None in (theirs.last, ours.last) or theirs.last == ours.last
    if re.fullmatch(r"record length \d+ at \S+ too long", ours.message) and is_same_place:
        return "walproof refuses a giant length at once"
    if re.match(r"(?i)(invalid )?WAL segment size|could not read file \w+: read", theirs.message):
        return "pg_waldump cannot tell the segment size"
    if theirs.message.startswith("could not find a valid record after") and ours.last is None:
        return "pg_waldump does not say why there is no first record"
    return None


def _theirs(oracle: Oracle, start: Lsn) -> Verdict:
    totals, complaint = oracle.statistics(start)
    assert complaint is not None
    place = re.match(r"error in WAL record at (\S+): (.*)", complaint)
    # Where it cannot read on it gives up at once, and prints no totals.
    return Verdict(
        Lsn.parse(place[1]) if place else None,
        _modern(place[2] if place else complaint),
        totals if place else None,
    )


def _ours(folder: Path, start: Lsn, threads: int) -> Verdict:
    try:
        wal = stats(folder, start=start, partial=True, threads=threads)
    except WalError as error:  # no first record
        return Verdict(None, _modern(error.message), None)
    if wal.error is None:
        return Verdict(None, _modern(wal.finish_reason or ""), own_statistics(wal))
    place = re.search(r"previous record at (\S+)", wal.error.detail or "")
    last = Lsn.parse(place[1]) if place else None
    return Verdict(last, _modern(wal.error.message), own_statistics(wal))


def _modern(message: str) -> str:
    """In the words of 16 and later, without what only walproof adds; a short file by its end."""
    message = message.replace("log segment", "WAL segment")
    message = re.sub(r"wanted (\d+), got", r"expected at least \1, got", message)
    message = re.sub(r"(in WAL segment \w+), LSN \S+,", r"\1,", message)
    message = re.sub(r"(in page header) at .*", r"\1", message)
    message = message.replace('"', "")
    message = re.sub(r"\b([0-9A-F]{1,8})/0{0,7}([0-9A-F]{1,8})\b", r"\1/\2", message)  # 19: %X/%08X
    short = re.match(r"could not read (?:from file|WAL segment) (\w+), offset (\d+): read (\d+) of", message)
    return f"file {short[1]} ends at {int(short[2]) + int(short[3])}" if short else message


def _flip(chance: random.Random, data: bytearray, at: int) -> str:
    bit = chance.randrange(8)
    data[at] ^= 1 << bit
    return f"bit {bit} of byte {at} flipped"


def _overwrite(chance: random.Random, data: bytearray, at: int) -> str:
    noise = chance.randbytes(chance.randint(1, 40))[: len(data) - at]
    data[at : at + len(noise)] = noise
    return f"{len(noise)} bytes of noise at {at}"


def _page_header(chance: random.Random, data: bytearray, at: int) -> str:
    at = min(at // PAGE * PAGE + chance.randrange(40), len(data) - 1)
    data[at] = chance.choice([0, 1, 0xFF, data[at] ^ 1 << chance.randrange(8)])
    return f"byte {at} set to {data[at]:#x}"


def _zero_page(chance: random.Random, data: bytearray, at: int) -> str:
    at = at // PAGE * PAGE
    data[at : at + PAGE] = bytes(PAGE)
    return f"page at {at} zeroed"


def _duplicate_page(chance: random.Random, data: bytearray, at: int) -> str:
    at, source = at // PAGE * PAGE, chance.randrange(MB // PAGE) * PAGE
    data[at : at + PAGE] = data[source : source + PAGE]
    return f"page at {source} written over that at {at}"


def _swap_pages(chance: random.Random, data: bytearray, at: int) -> str:
    first, two = at // PAGE * PAGE, chance.randrange(MB // PAGE) * PAGE
    data[first : first + PAGE], data[two : two + PAGE] = data[two : two + PAGE], data[first : first + PAGE]
    return f"pages at {first} and {two} swapped"


def _tear_page(chance: random.Random, data: bytearray, at: int) -> str:
    """The rest of a page, from a sector on, is that of another page."""
    page, source, sector = at // PAGE * PAGE, chance.randrange(MB // PAGE) * PAGE, at % PAGE // 512 * 512
    data[page + sector : page + PAGE] = data[source + sector : source + PAGE]
    return f"page at {page} torn at {sector} with that at {source}"


def _zero_rest(chance: random.Random, data: bytearray, at: int) -> str:
    data[at:] = bytes(len(data) - at)
    return f"zeros from {at}"


def _cut(chance: random.Random, data: bytearray, at: int) -> str:
    del data[at:]
    return f"cut at {at}"


_DAMAGES = (
    _flip, _overwrite, _page_header, _zero_page, _duplicate_page, _swap_pages, _tear_page, _zero_rest, _cut,
)  # fmt: skip


def _reseal(chance: random.Random, data: bytearray, offset: int, length: int) -> str:
    """Change a few bytes of a record, most likely those of its headers, and make its checksum right."""
    changes = []
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(min(length, HEADER + 40 if chance.random() < 0.8 else length))
        if 20 <= at < HEADER:  # the checksum itself
            continue
        value = chance.choice([0, 0xFF, chance.randrange(256), data[offset + at] ^ 1 << chance.randrange(8)])
        data[offset + at] = value
        changes.append(f"{at} = {value:#x}")
    record = bytes(data[offset : offset + length])
    checksum = crc32c(record[:20], crc32c(record[HEADER:]))
    data[offset + 20 : offset + HEADER] = checksum.to_bytes(4, "little")
    return f"record at {offset}, checksum made right, byte {', '.join(changes)}"


def _crc32c_table() -> list[int]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


_TABLE = _crc32c_table()


def crc32c(data: bytes, before: int = 0) -> int:
    crc = before ^ 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF
