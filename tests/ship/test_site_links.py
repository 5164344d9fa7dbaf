"""The link checker of the built site finds what leads nowhere, and nothing else."""

from __future__ import annotations

from pathlib import Path

from bench.ship.site_links import broken


def test_what_leads_nowhere_is_found(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "index.html").write_text('<h1 id="here">a</h1><a href="../a.html">b</a>')
    (tmp_path / "a.html").write_text(
        '<a href="folder/">x</a><a href="folder/index.html#here">x</a><a href="https://example.org/">x</a>'
        '<a href="folder/index.html#gone">x</a><img src="gone.png"><a href="#top">x</a>'
        '<a href="b%20c.html">x</a>'
    )
    (tmp_path / "b c.html").write_text("")
    assert broken(tmp_path) == ["a.html: folder/index.html#gone", "a.html: gone.png"]
