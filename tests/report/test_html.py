"""The page: whole, self-contained, and deaf to what names try to be."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from tests.report.facts import (
    HOSTILE,
    MAKERS,
    Facts,
    durability,
    hostile_facts,
    small_facts,
)
from walproof.report.html import to_html
from walproof.report.view import build_view

_VOID = {"meta", "br", "wbr", "link", "img", "hr", "input"}


class Page(HTMLParser):
    """Tags with attributes, ids and visible text; asserts that tags nest."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data

    def ids(self) -> list[str]:
        return [value for _, attrs in self.tags if (value := attrs.get("id"))]


def page_of(facts: Facts, study_text: str | None = None) -> tuple[str, Page]:
    text = to_html(build_view(replace(facts.run, study_text=study_text), facts.trials, facts.series))
    return text, Page(text)


@pytest.fixture(scope="module")
def whole() -> tuple[str, Page]:
    """The page of the durability study."""
    return page_of(durability())


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_page_is_whole_and_asks_for_nothing(make: Callable[[], Facts]) -> None:
    """Parse the page; no element may load anything, and every tag is closed."""
    text, page = page_of(make())
    assert page.open == []
    assert len(text.encode()) < 2_000_000
    for tag, attrs in page.tags:
        assert tag not in {"script", "link", "iframe", "object", "embed", "img", "image", "form", "base"}
        for name, value in attrs.items():
            assert not name.startswith("on"), f"{tag} {name}"
            if name in {"href", "src", "xlink:href", "action", "srcset", "data"}:
                assert (value or "").startswith("#"), f"{tag} {name}={value}"
    style = text[text.index("<style>") : text.index("</style>")]
    assert "@import" not in style
    assert "url(" not in style
    assert "http" not in style


def test_contents_lead_to_sections(whole: tuple[str, Page]) -> None:
    _, page = whole
    ids = page.ids()
    assert len(ids) == len(set(ids))
    links = [attrs["href"] for tag, attrs in page.tags if tag == "a"]
    assert links[0] == "#verdicts"
    assert len(links) == 8
    assert all(link and link.removeprefix("#") in ids for link in links)


def test_names_are_shown_and_do_nothing() -> None:
    text, page = page_of(hostile_facts(), study_text=f"# {HOSTILE}")
    assert "<script" not in text
    assert "\x1b" not in text
    shown = HOSTILE.replace("\x1b", "?").replace("\ud800", "?")
    assert page.text.count(shown) >= 10  # title, variant, note, reason, log, warning, machine, study, ...


def test_charts_are_named_for_those_who_cannot_see_them(whole: tuple[str, Page]) -> None:
    text, page = whole
    charts = [attrs for tag, attrs in page.tags if tag == "svg"]
    assert len(charts) == 5
    ids = set(page.ids())
    for chart in charts:
        assert chart["role"] == "img"
        assert set((chart["aria-labelledby"] or "").split()) <= ids
    assert "durability class may corrupt" in text


def test_tables_can_be_followed_by_ear(whole: tuple[str, Page]) -> None:
    """A reader of rows hears the variant, and the workload of its own group alone."""
    text, _ = whole
    bodies = re.findall(r"<tbody>(.*?)</tbody>", text, re.DOTALL)
    assert sum('scope="rowgroup"' in body for body in bodies) >= 6
    for body in bodies:
        assert body.count('scope="rowgroup"') <= 1
        rows = re.findall(r"<tr>(.*?)</tr>", body, re.DOTALL)
        assert all(row.count('<th scope="row"') == 1 for row in rows)
    assert re.search(r'<th scope="row" class="row">fsync=<wbr>off</th>', text)


def test_what_the_keyboard_comes_to_has_a_name() -> None:
    _, page = page_of(durability(), study_text="# a study")
    stops = [attrs for _, attrs in page.tags if attrs.get("tabindex") == "0"]
    assert len(stops) > 10
    assert all(stop["role"] == "group" and stop["aria-label"] for stop in stops)


def test_badges_have_words(whole: tuple[str, Page]) -> None:
    text, page = whole
    badges = [attrs for tag, attrs in page.tags if tag == "span" and "badge" in (attrs.get("class") or "")]
    assert len(badges) > 50
    for words in ("may corrupt", "may lose last commits"):
        assert f"</span> {words}</span>" in text


def test_study_text_is_folded_away() -> None:
    text, _ = page_of(small_facts(), study_text='name = "durability" # <b>')
    assert "<summary>Study file</summary>" in text
    assert "name = &#34;durability&#34; # &lt;b&gt;" in text
    without, _ = page_of(small_facts())
    assert "Study file" not in without
    assert "Plan, with every default resolved" in without


def test_same_facts_give_the_same_page() -> None:
    assert page_of(small_facts())[0] == page_of(small_facts())[0]
