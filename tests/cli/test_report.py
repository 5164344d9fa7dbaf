"""``walproof report --open``: the page, in a browser where there is one."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.report.facts import durability, keep
from walproof.cli.app import app
from walproof.errors import ReportError


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """A folder of results with a finished run."""
    keep(durability(), tmp_path / "walproof.sqlite")
    return tmp_path


@pytest.mark.parametrize("has_browser", [True, False])
def test_the_page_is_opened(out: Path, monkeypatch: pytest.MonkeyPatch, has_browser: bool) -> None:
    """Without a browser it is written all the same, and said where it is."""
    opened: list[str] = []

    def opens(url: str) -> bool:
        opened.append(url)
        return has_browser

    monkeypatch.delenv("WALPROOF_STORE", raising=False)
    monkeypatch.setattr("webbrowser.open", opens)
    done = CliRunner().invoke(app, ["report", "last", "--out", str(out), "--open"])
    page = Path(done.stdout.strip())
    assert page.read_text().startswith("<!")
    assert opened == [page.as_uri()]
    assert (done.exit_code == 0) == has_browser
    if not has_browser:
        assert isinstance(done.exception, ReportError)
        assert done.exception.message == "no browser could be opened"
        assert done.exception.hint == f'Open "{page}" by hand.'


@pytest.mark.parametrize("words", [("--format", "md"), ("--output", "-")])
def test_only_a_page_in_a_file_is_opened(words: tuple[str, ...]) -> None:
    done = CliRunner().invoke(app, ["report", "last", "--open", *words])
    assert isinstance(done.exception, ReportError)
    assert done.exception.message == "--open needs an HTML report in a file"
