"""The closed list of what the helper is asked, and what it answers.

A request is a small JSON object with exactly the fields of its type, in one packet. Whatever else arrives is
refused before anything is done: the sender may have been taken over.
"""

from __future__ import annotations

import dataclasses
import json
import re
from dataclasses import dataclass
from typing import Literal, TypeAlias

PACKET_BYTES = 512
"""Longest request."""
ANSWER_BYTES = 4096
"""Longest answer."""
_REASON_MOST = 500
"""Characters of a reason: as JSON, at most six bytes each."""
_DEVICE = re.compile(r"[1-9][0-9]{0,3}:[0-9]{1,7}", re.ASCII)
_IOPS_MOST = 10_000_000
_PID_MOST = 2**22
"""PID_MAX_LIMIT of 64 bits (proc(5), /proc/sys/kernel/pid_max)."""

AuditLevel: TypeAlias = Literal["quiet", "recording"]


class RequestError(Exception):
    """A request that is not on the list, or has an argument that is not allowed."""


@dataclass(frozen=True, slots=True)
class AskAudit:
    """Whether the kernel's audit can be used. Refused with the reason."""

    def check(self) -> None:
        """Nothing to check."""


@dataclass(frozen=True, slots=True)
class SwitchAuditOn:
    """Add one rule about the calls of processes that start from now on, and enable audit."""

    level: AuditLevel
    """``quiet``: a rule that never matches; ``recording``: lseek of the servers' user."""

    def check(self) -> None:
        """The level is one of two."""
        _must(type(self.level) is str and self.level in ("quiet", "recording"), "level")


@dataclass(frozen=True, slots=True)
class SwitchAuditOff:
    """Remove the rule and give the kernel its values back. Answered with the records that were dropped."""

    def check(self) -> None:
        """Nothing to check."""


@dataclass(frozen=True, slots=True)
class LimitReads:
    """Make a control group whose processes may do so many reads a second on one device."""

    device: str
    """Its numbers, ``254:16``."""
    iops: int

    def check(self) -> None:
        """Check the two numbers of a device, and the number of reads."""
        _must(type(self.device) is str and _DEVICE.fullmatch(self.device) is not None, "device")
        _must(type(self.iops) is int and 1 <= self.iops <= _IOPS_MOST, "iops")


@dataclass(frozen=True, slots=True)
class LimitProcess:
    """Put a process of the servers' user, and what it has started, into the control group."""

    pid: int

    def check(self) -> None:
        """Check the number of a process, which is never that of init."""
        _must(type(self.pid) is int and 1 < self.pid <= _PID_MOST, "pid")


@dataclass(frozen=True, slots=True)
class LiftReadLimit:
    """Remove the control group; processes that are left in it go on without a limit."""

    def check(self) -> None:
        """Nothing to check."""


Request: TypeAlias = AskAudit | SwitchAuditOn | SwitchAuditOff | LimitReads | LimitProcess | LiftReadLimit
REQUESTS: dict[str, type[Request]] = {
    "ask_audit": AskAudit,
    "switch_audit_on": SwitchAuditOn,
    "switch_audit_off": SwitchAuditOff,
    "limit_reads": LimitReads,
    "limit_process": LimitProcess,
    "lift_read_limit": LiftReadLimit,
}
_NAMES = {kind: name for name, kind in REQUESTS.items()}


@dataclass(frozen=True, slots=True)
class Done:
    """The request was carried out. ``value``: what there is to tell."""

    value: int | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """The request was refused or failed; the reason is one line."""

    reason: str


Answer: TypeAlias = Done | Refused


def encode_request(request: Request) -> bytes:
    """The packet that asks for it."""
    fields = {field.name: getattr(request, field.name) for field in dataclasses.fields(request)}
    return json.dumps({"request": _NAMES[type(request)], **fields}).encode()


def decode_request(packet: bytes) -> Request:
    """The request of a packet, with every argument checked. Raises RequestError."""
    _must(len(packet) <= PACKET_BYTES, "length")
    try:
        found = json.loads(packet.decode("ascii"), object_pairs_hook=_object, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise RequestError("the request is not JSON") from error
    _must(type(found) is dict, "form")
    name = found.pop("request", None)
    _must(type(name) is str and name in REQUESTS, "name")
    kind = REQUESTS[name]
    _must(set(found) == {field.name for field in dataclasses.fields(kind)}, "fields")
    request = kind(**found)
    request.check()
    return request


def encode_answer(answer: Answer) -> bytes:
    """The packet of an answer; a reason that is too long for one loses its end."""
    if isinstance(answer, Refused):
        return json.dumps({"refused": answer.reason[:_REASON_MOST]}).encode()
    return json.dumps({"done": answer.value}).encode()


def decode_answer(packet: bytes) -> Answer:
    """Read an answer of the helper, which its parent believes."""
    found = json.loads(packet)
    return Refused(found["refused"]) if "refused" in found else Done(found["done"])


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    _must(len({name for name, _ in pairs}) == len(pairs), "fields")
    return dict(pairs)


def _no_constant(name: str) -> None:
    raise RequestError(f"the request has {name}")


def _must(holds: bool, what: str) -> None:
    """A bool does not count as a number here, and a subclass does not count as its base type."""
    if not holds:
        raise RequestError(f"the request has a {what} that is not allowed")
