"""The list of requests is closed: what is not exactly one of them is refused, whoever sends it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from walproof.privilege.helper.requests import (
    ANSWER_BYTES,
    PACKET_BYTES,
    REQUESTS,
    AskAudit,
    Done,
    LiftReadLimit,
    LimitProcess,
    LimitReads,
    Refused,
    Request,
    RequestError,
    SwitchAuditOff,
    SwitchAuditOn,
    decode_answer,
    decode_request,
    encode_answer,
    encode_request,
)

ALL: list[Request] = [
    AskAudit(), SwitchAuditOn("quiet"), SwitchAuditOn("recording"), SwitchAuditOff(),
    LimitReads("254:16", 500), LimitReads("8:0", 1), LimitProcess(2), LimitProcess(2**22), LiftReadLimit(),
]  # fmt: skip


@pytest.mark.parametrize("request_", ALL, ids=repr)
def test_a_request_arrives_as_it_was_sent(request_: Request) -> None:
    packet = encode_request(request_)
    assert len(packet) <= PACKET_BYTES
    assert decode_request(packet) == request_


def test_every_request_is_tested() -> None:
    assert {type(request) for request in ALL} == set(REQUESTS.values())


HOSTILE: list[bytes | dict[str, Any] | list[Any]] = [
    b"", b"\xff\xfe", b"null", b"[]", b"1", b'"ask_audit"', b"{", b"{}", b"[" * 400, b"NaN",
    b'{"request": "ask_audit"} {"request": "ask_audit"}',
    b'{"request": "ask_audit", "request": "switch_audit_off"}',
    b'{"request": "limit_process", "pid": 1, "pid": 4711}',
    b'{"request": "limit_process", "pid": NaN}',
    b'{"request": "limit_process", "pid": Infinity}',
    b'{"request": "limit_process", "pid": 1e3}',
    b'{"request": "limit_process", "pid": ' + b"9" * 400 + b"}",
    b'{"request": "ask_audit"' + b" " * 600 + b"}",
    {"request": None}, {"request": 1}, {"request": ["ask_audit"]}, {"request": "Ask_Audit"},
    {"request": "ask_audit\0"}, {"request": "__init__"}, {"request": "undo"}, {"request": "run"},
    {"request": "ask_audit", "level": "quiet"}, {"request": "ask_audit", "check": 1},
    {"request": "switch_audit_on"}, {"request": "switch_audit_on", "level": "off"},
    {"request": "switch_audit_on", "level": ["quiet"]}, {"request": "switch_audit_on", "level": None},
    {"request": "switch_audit_on", "level": "quiet", "uid": 0},
    {"request": "switch_audit_on", "level": "quiet -D"},
    {"request": "limit_reads", "device": "254:16"}, {"request": "limit_reads", "iops": 5},
    {"request": "limit_reads", "device": "../../sda", "iops": 5},
    {"request": "limit_reads", "device": "254:16\n8:0 1", "iops": 5},
    {"request": "limit_reads", "device": "254:16\n", "iops": 5},
    {"request": "limit_reads", "device": " 254:16", "iops": 5},
    {"request": "limit_reads", "device": "254:16/..", "iops": 5},
    {"request": "limit_reads", "device": "0254:16", "iops": 5},
    {"request": "limit_reads", "device": "٢٥٤:١٦", "iops": 5},
    {"request": "limit_reads", "device": 254, "iops": 5},
    {"request": "limit_reads", "device": "254:16", "iops": 0},
    {"request": "limit_reads", "device": "254:16", "iops": -1},
    {"request": "limit_reads", "device": "254:16", "iops": True},
    {"request": "limit_reads", "device": "254:16", "iops": 1.5},
    {"request": "limit_reads", "device": "254:16", "iops": "5 wbps=0"},
    {"request": "limit_reads", "device": "254:16", "iops": 10**12},
    {"request": "limit_reads", "device": "254:16", "iops": 5, "name": "../system.slice"},
    {"request": "limit_process", "pid": 1}, {"request": "limit_process", "pid": 0},
    {"request": "limit_process", "pid": -1}, {"request": "limit_process", "pid": 2**22 + 1},
    {"request": "limit_process", "pid": True}, {"request": "limit_process", "pid": "4711"},
    {"request": "limit_process", "pid": None}, {"request": "limit_process", "pid": {"a": 1}},
    {"request": "lift_read_limit", "folder": "/"}, {"request": "switch_audit_off", "note": "/etc/shadow"},
    [{"request": "ask_audit"}],
]  # fmt: skip


def packet_of(hostile: bytes | dict[str, Any] | list[Any]) -> bytes:
    """As it is sent."""
    return hostile if isinstance(hostile, bytes) else json.dumps(hostile).encode()


@pytest.mark.parametrize(
    "hostile", HOSTILE, ids=lambda request: packet_of(request)[:60].decode(errors="replace")
)
def test_anything_else_is_refused(hostile: bytes | dict[str, Any] | list[Any]) -> None:
    with pytest.raises(RequestError):
        decode_request(packet_of(hostile))


_SCALAR = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
_JSON = _SCALAR | st.lists(_SCALAR, max_size=2) | st.sampled_from(["254:16", "quiet", 500, 4711])
_FIELDS = st.sampled_from(["device", "iops", "pid", "level", "request"])


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from([*REQUESTS]), st.dictionaries(_FIELDS, _JSON, max_size=3))
def test_no_argument_gets_through_that_is_not_allowed(name: str, fields: dict[str, Any]) -> None:
    """Goal: whatever a packet holds, it is refused or is one of the requests with arguments in bounds."""
    packet = json.dumps({**fields, "request": name}).encode()
    try:
        found = decode_request(packet)
    except RequestError:
        return
    found.check()
    assert json.loads(encode_request(found)) == json.loads(packet)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.binary(max_size=600))
def test_no_bytes_do_anything_else(packet: bytes) -> None:
    try:
        decode_request(packet)
    except RequestError:
        return
    raise AssertionError(packet)


@pytest.mark.parametrize("answer", [Done(), Done(0), Done(1234), Refused("why not")])
def test_an_answer_arrives_as_it_was_sent(answer: Done | Refused) -> None:
    assert decode_answer(encode_answer(answer)) == answer


def test_a_long_reason_fits_into_a_packet() -> None:
    packet = encode_answer(Refused("\u2028" * 100_000))
    assert len(packet) <= ANSWER_BYTES
    assert isinstance(decode_answer(packet), Refused)
