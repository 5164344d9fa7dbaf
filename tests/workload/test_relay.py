"""Messages of pgbench and a server as the relay takes them apart; tests/live/test_workload_try.py has
servers."""

from __future__ import annotations

import itertools

import pytest

from walproof.workload.relay import Answer, Fault, Seen, Session, rows_of


def message(kind: bytes, body: bytes = b"") -> bytes:
    return kind + (len(body) + 4).to_bytes(4) + body


def parse(name: bytes, sql: bytes) -> bytes:
    return message(b"P", name + b"\0" + sql + b"\0\0\0") + message(b"S")


def bind(name: bytes) -> bytes:
    return message(b"B", b"\0" + name + b"\0" + bytes(6)) + message(b"E", bytes(5)) + message(b"S")


def error(code: bytes, text: bytes) -> bytes:
    return message(b"E", b"SERROR\0VERROR\0C" + code + b"\0M" + text + b"\0Drow (1)\0\0")


READY = message(b"Z", b"I")
STARTUP = (40).to_bytes(4) + b"\0\3\0\0" + b"P" * 32
TALK = [
    (STARTUP, message(b"R", bytes(4)) + message(b"S", b"TimeZone\0UTC\0") + READY),
    (parse(b"P0_1", b"BEGIN"), message(b"1") + READY),
    (bind(b"P0_1"), message(b"2") + message(b"C", b"BEGIN\0") + READY),
    (parse(b"P0_3", b"SELECT $1"), message(b"1") + READY),
    (bind(b"P0_3"), message(b"T", b"\0\1") + b"".join(message(b"D", bytes(n)) for n in range(70))
     + message(b"C", b"SELECT 70\0") + READY),
    (parse(b"P0_4", b"UPDATE nothing"), error(b"42P01", b"no table") + READY),
    (bind(b"P0_4"), error(b"26000", b"no statement") + READY),
    (message(b"Q", b"SELECT 1\0"), message(b"C", b"SELECT 1\0") + READY),
]  # fmt: skip


def pieces(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
def test_each_command_is_seen_once_however_its_messages_arrive(size: int) -> None:
    positions = itertools.count(100, 10)
    seen = Seen()
    session = Session(seen, lambda: next(positions))
    for sent, answered in TALK:
        for piece in pieces(sent, size):
            session.sent(piece)
        assert b"".join(map(session.answered, pieces(answered, size))) == answered
    assert seen.texts == {"P0_1": "BEGIN", "P0_3": "SELECT $1", "P0_4": "UPDATE nothing"}
    assert seen.answers == [
        Answer("P0_1", "BEGIN", 100),
        Answer("P0_3", "SELECT 70", 110),
        Answer("", "SELECT 1", 120),
    ]
    assert seen.faults == [
        Fault("P0_4", "42P01", "no table: row (1)"),
        Fault("P0_4", "26000", "no statement: row (1)"),
    ]
    assert not seen.is_pipelined


def test_a_pipeline_is_noticed() -> None:
    seen = Seen()
    session = Session(seen, lambda: 1)
    session.sent(STARTUP + bind(b"P0_1") + bind(b"P0_2"))
    assert seen.is_pipelined


def test_a_large_row_is_passed_on_as_it_comes() -> None:
    session = Session(Seen(), lambda: 1)
    row = message(b"D", bytes(64 << 20))
    assert sum(len(session.answered(piece)) for piece in pieces(row + READY, 1 << 16)) == len(row + READY)


@pytest.mark.parametrize(
    ("tag", "rows"),
    [("INSERT 0 3", 3), ("SELECT 20", 20), ("UPDATE 0", 0), ("BEGIN", 0), ("", 0), ("X \u00b2", 0)],
)
def test_rows_of_a_tag(tag: str, rows: int) -> None:
    assert rows_of(tag) == rows
