"""A report in headless Chromium, with no network to ask."""

from __future__ import annotations

import json
import re
import subprocess
from html import unescape
from pathlib import Path
from typing import Any

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--enable-logging=stderr",
)


def run(browser: str, page: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Open the page with a new profile beside it; returns when Chromium has ended."""
    profile = page.parent / f"profile-{page.stem}"
    return subprocess.run(
        [browser, *FLAGS, f"--user-data-dir={profile}", *options, page.as_uri()],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )


def with_script(page: Path, name: str, script: str) -> Path:
    """A copy of the page that may run scripts, with one at its end."""
    text = page.read_text(encoding="utf-8")
    free, count = re.subn(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text)
    assert count == 1
    copy = page.with_name(name)
    copy.write_text(free.replace("</body>", f"{script}</body>"), encoding="utf-8")
    return copy


def measure(browser: str, page: Path, *options: str) -> Any:
    """What a script of the page left in ``document.documentElement.dataset.measure``, as JSON."""
    dom = run(browser, page, *options, "--dump-dom").stdout
    found = re.search(r'data-measure="([^"]*)"', dom)
    assert found is not None
    return json.loads(unescape(found[1]))
