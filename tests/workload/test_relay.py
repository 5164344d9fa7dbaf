"""Messages of a server as the relay takes them apart; tests/live/test_workload_try.py has real servers."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from walproof.workload.relay import Answer, Fault, Relay, rows_of


def message(kind: bytes, body: bytes = b"") -> bytes:
    return kind + (len(body) + 4).to_bytes(4) + body


READY = message(b"Z", b"I")
SENT = b"".join((
    message(b"R", bytes(4)), message(b"S", b"TimeZone\0UTC\0"), READY,
    message(b"1"), READY,
    message(b"2"), message(b"C", b"BEGIN\0"), message(b"Z", b"T"),
    message(b"T", b"\0\1"), *(message(b"D", bytes(n)) for n in range(70)), message(b"C", b"SELECT 70\0"),
    message(b"Z", b"T"),
    message(b"C", b"INSERT 0 3\0"), message(b"Z", b"T"),
    message(b"E", b"SERROR\0VERROR\0C23502\0Mnull value\0Drow (1)\0\0"), message(b"Z", b"E"),
))  # fmt: skip


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
def test_each_command_is_seen_once_however_its_answer_arrives(size: int) -> None:
    positions = itertools.count(100, 10)
    relay = Relay(Path("/nowhere"), (1, 2), None, lambda: next(positions))
    relay.begin(60)
    passed = b"".join(map(relay.reader(), (SENT[at : at + size] for at in range(0, len(SENT), size))))
    assert passed == SENT
    assert relay.answers == [Answer("BEGIN", 100), Answer("SELECT 70", 110), Answer("INSERT 0 3", 120)]
    assert relay.faults == [Fault("null value: row (1)", 3)]


@pytest.mark.parametrize(
    ("tag", "rows"), [("INSERT 0 3", 3), ("SELECT 20", 20), ("UPDATE 0", 0), ("BEGIN", 0), ("", 0)]
)
def test_rows_of_a_tag(tag: str, rows: int) -> None:
    assert rows_of(tag) == rows
