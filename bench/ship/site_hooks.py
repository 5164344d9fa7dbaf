"""Hooks of mkdocs: they add generated pages, and unlink what is no page of the site.

mkdocs.yml names this file. mkdocs runs it in an environment without walproof: the pages are made before that
(bench/ship/reference.py).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).parent.parent.parent
GENERATED = ROOT / "build" / "reference"
PAGES = {"SECURITY.md": "security.md", "CHANGELOG.md": "changelog.md"}
"""Files beside README that are pages of the site, too."""
_LINK = re.compile(r"\[([^\]]+)\]\(([^)#\s]+)(#[^)]*)?\)")


def on_files(files: Any, config: Any) -> Any:
    """The pages of the reference and the schemas join those of docs/."""
    for page in sorted(GENERATED.glob("*.md")):
        files.append(File.generated(config, f"reference/{page.name}", abs_src_path=str(page)))
    for schema in sorted((GENERATED / "schemas").glob("*.json")):
        files.append(File.generated(config, f"reference/schemas/{schema.name}", abs_src_path=str(schema)))
    for source, name in PAGES.items():
        files.append(File.generated(config, name, abs_src_path=str(ROOT / source)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """A link to a file of the sources becomes the file's name: the site is without them."""
    docs = ROOT / "docs"
    beside_readme = {name: source for source, name in PAGES.items()}
    source = beside_readme.get(page.file.src_uri)
    folder = ROOT if source else (docs / page.file.src_uri).parent

    def named(match: re.Match[str]) -> str:
        words, target, anchor = match[1], match[2], match[3] or ""
        if "://" in target:
            return match[0]
        path = (folder / target).resolve()
        if path.parent == ROOT and path.name in PAGES:
            up = "../" * page.file.src_uri.count("/")
            return f"[{words}]({up}{PAGES[path.name]}{anchor})"
        if source and path.is_relative_to(docs):
            return f"[{words}]({path.relative_to(docs).as_posix()}{anchor})"
        if path.is_relative_to(docs):
            return match[0]
        name = path.relative_to(ROOT).as_posix()
        return f"`{name}`" if words.strip("`") == name else f"{words} (`{name}`)"

    return _LINK.sub(named, markdown)
