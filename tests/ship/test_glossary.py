"""One word for one thing: flags, keys of JSON and titles use words of the glossary, or ordinary ones."""

from __future__ import annotations

import re

from bench.ship import glossary
from bench.ship.glossary import ordinary, page, rows, unknown, used


def test_the_page_is_what_the_table_says() -> None:
    assert glossary.TARGET.read_text(encoding="utf-8") == page(), 'run "make docs"'


def test_every_term_has_its_line() -> None:
    assert unknown() == {}, (
        "add a line to bench/ship/glossary.csv, or the word to bench/ship/ordinary_words.txt"
    )


def test_the_lists_have_each_word_once_and_none_too_many() -> None:
    terms = [row["word"] for row in rows()]
    assert terms == sorted(terms, key=str.lower)
    assert len({*terms, *ordinary()}) == len(terms) + len(ordinary())
    found = used()
    assert [word for word in ordinary() if word not in found] == []
    assert all(row["meaning"] for row in rows())


def test_no_flag_is_called_by_a_word_that_lost() -> None:
    flags = {word for word, place in used().items() if place.startswith("walproof")}
    lost = {row["not"].lower() for row in rows() if re.fullmatch(r"\w+", row["not"])}
    assert flags & lost - {row["word"] for row in rows()} == set()
