"""What walproof imports is declared, and what is declared is imported."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from packaging.utils import canonicalize_name

from tests.supply import locks

SOURCE = locks.ROOT / "src/walproof"
OPTIONAL = ("arrow", "frame", "hosts", "mcp", "s3")
"""Extras of walproof's own; dev is for working on it."""
NOBODYS = {"walproof", "_typeshed"}
"""Our own, and what type checkers alone know."""
OTHERWISE_NAMED = {"vl_convert": "vl-convert-python"}
"""Modules whose distribution has another name."""
LOOKED_UP = {"find_spec", "import_module"}


def _imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute | ast.Name):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id
            first = node.args[0] if node.args else None
            if called in LOOKED_UP and isinstance(first, ast.Constant):
                yield str(first.value)


def _foreign() -> set[str]:
    """Distributions of all modules that walproof's sources name."""
    modules = {name.partition(".")[0] for path in SOURCE.rglob("*.py") for name in _imported(path)}
    return {
        canonicalize_name(OTHERWISE_NAMED.get(module, module))
        for module in modules - set(sys.stdlib_module_names) - NOBODYS
    }


def _names(*extras: str) -> set[str]:
    return {canonicalize_name(requirement.name) for requirement in locks.declared(*extras)}


def test_what_is_imported_is_declared() -> None:
    assert _foreign() <= _names(*OPTIONAL)


def test_what_is_declared_is_imported() -> None:
    assert _names() - _foreign() == set()


def test_tests_have_every_extra() -> None:
    assert _names(*OPTIONAL) <= _names("dev")
