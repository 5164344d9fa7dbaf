"""docs/metrics.md has every metric as the table declares it."""

from __future__ import annotations

from bench.metrics_page import TARGET, places, with_tables
from walproof.facts.metrics import metrics

PAGE = TARGET.read_text(encoding="utf-8")


def test_the_page_is_what_the_table_makes_of_it() -> None:
    assert with_tables(PAGE) == PAGE, "docs/metrics.md is older than facts/metrics.csv: make docs"


def test_each_writer_has_one_place_in_the_page() -> None:
    assert sorted(places(PAGE)) == sorted({writer for metric in metrics() for writer in metric.writers})


def test_a_changed_meaning_changes_the_page() -> None:
    meaning = next(metric.meaning for metric in metrics() if metric.name == "wal_bytes")
    assert with_tables(PAGE.replace(meaning, "Something else.")) == PAGE
    assert PAGE.count(f"| {meaning} |") == 1
