"""Follows every link, picture and anchor of the built site that leads into the site.

    python bench/ship/site_links.py        # after the build; `make site` calls it

Exit status: 0 every one leads somewhere, 1 one does not.
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

SITE = Path(__file__).parent.parent.parent / "site"


class _Page(HTMLParser):
    """Collects the targets of links and the anchors of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what the tag links to and which anchor it sets."""
        for name, value in attrs:
            if value and name in ("href", "src"):
                self.targets.append(value)
            if value and name in ("id", "name"):
                self.anchors.add(value)


def read(path: Path) -> _Page:
    """Read the page in that file."""
    page = _Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def broken(site: Path) -> list[str]:
    """Yield ``page: target`` for each target that does not exist."""
    pages = {path.resolve(): read(path) for path in site.rglob("*.html")}
    found = []
    for path, page in pages.items():
        for target in page.targets:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc or target.startswith("/"):
                continue
            place = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            place = place / "index.html" if place.is_dir() else place
            anchor = unquote(parts.fragment)
            lost = anchor and place in pages and anchor not in pages[place].anchors | {"__tabbed", "top"}
            if not place.exists() or lost:
                found.append(f"{path.relative_to(site.resolve())}: {target}")
    return sorted(set(found))


def main() -> int:
    """Print the broken links."""
    found = broken(SITE)
    sys.stdout.writelines(f"leads nowhere: {line}\n" for line in found)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
