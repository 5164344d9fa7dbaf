"""Licences of crates are among those allowed, and those of a wheel's crates are in the wheel."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator

import pytest

from bench import third_party_licenses
from bench.third_party_licenses import Part
from tests.supply import locks

ALLOWED = frozenset(tomllib.loads((locks.ROOT / "deny.toml").read_text())["licenses"]["allow"])


def _is_allowed(expression: str) -> bool:
    """An SPDX expression holds: OR binds weaker than AND, and "/" is an old way to write OR."""
    tokens = re.findall(r"[()]|\w[\w.+-]*", expression.replace("/", " OR "))
    assert tokens, expression
    at = 0

    def alternatives() -> bool:
        holds = [together()]
        while following("OR"):
            holds.append(together())
        return any(holds)

    def together() -> bool:
        holds = [one()]
        while following("AND"):
            holds.append(one())
        return all(holds)

    def one() -> bool:
        nonlocal at
        if following("("):
            inner = alternatives()
            assert following(")"), expression
            return inner
        name = tokens[at]
        at += 1
        if following("WITH"):
            name += f" WITH {tokens[at]}"
            at += 1
        return name in ALLOWED

    def following(word: str) -> bool:
        nonlocal at
        if tokens[at : at + 1] != [word]:
            return False
        at += 1
        return True

    holds = alternatives()
    assert at == len(tokens), expression
    return holds


@pytest.mark.parametrize(
    ("expression", "is_allowed"),
    [
        ("MIT", True),
        ("GPL-3.0-only", False),
        ("GPL-3.0-only OR MIT", True),
        ("GPL-3.0-only/MIT", True),
        ("GPL-3.0-only AND MIT", False),
        ("(GPL-3.0-only OR MIT) AND Unicode-3.0", True),
        ("GPL-3.0-only OR MIT AND LGPL-2.1", False),
        ("Apache-2.0 WITH LLVM-exception", True),
        ("MIT WITH LLVM-exception", False),
    ],
)
def test_expressions_are_understood(expression: str, is_allowed: bool) -> None:
    assert _is_allowed(expression) == is_allowed


def test_licences_of_all_crates_are_allowed() -> None:
    """As cargo-deny finds (`make audit`), on machines that lack it: crates for building and testing, too."""
    packages = third_party_licenses.metadata(third_party_licenses.TRIPLES[0])["packages"]
    assert len(packages) > 50
    assert [
        f"{one['name']}: {one['license']}" for one in packages if not _is_allowed(one["license"] or "none")
    ] == []


def _locked_crates() -> Iterator[dict[str, str]]:
    for lock in ("Cargo.lock", "crates/walproof-fuzz/fuzz/Cargo.lock"):
        yield from tomllib.loads((locks.ROOT / lock).read_text(encoding="utf-8"))["package"]


def test_crates_are_locked_by_checksum_and_come_from_one_place() -> None:
    others = [one for one in _locked_crates() if not one["name"].startswith("walproof-")]
    assert len(others) > 50
    assert {one["source"].partition("+")[0] for one in others} == {"registry"}
    assert len({one["source"] for one in others}) == 1
    assert all(re.fullmatch("[0-9a-f]{64}", one["checksum"]) for one in others)


def test_the_file_in_the_wheel_has_what_is_linked_now() -> None:
    written = third_party_licenses.TARGET.read_text(encoding="utf-8")
    parts: list[Part] = list(third_party_licenses.linked_crates())
    assert {"pyo3", "zstd-sys", "libc"} <= {part.name for part in parts}
    assert all(part.texts and all(len(text) > 200 for text in part.texts) for part in parts)
    try:
        parts += third_party_licenses.rust_library()
    except FileNotFoundError:
        # A distribution's toolchain comes without notices. What it cannot show is passed over.
        assert written.startswith(third_party_licenses.page(parts).partition("\n\n=")[0])
        return
    assert written == third_party_licenses.page(parts), "make licenses"


def test_the_wheel_has_the_file() -> None:
    assert "THIRD_PARTY_LICENSES" in locks.PROJECT["project"]["license-files"]
    assert "GNU GENERAL PUBLIC LICENSE" not in third_party_licenses.TARGET.read_text(encoding="utf-8")
