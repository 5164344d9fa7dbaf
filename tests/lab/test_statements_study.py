"""A study of statements, before a server is started."""

from __future__ import annotations

import pytest

from walproof.lab.kinds.statements.kind import with_library


@pytest.mark.parametrize(
    ("listed", "loaded"),
    [
        ("", "pg_stat_statements"),
        ("auto_explain", "auto_explain, pg_stat_statements"),
        ('"auto_explain",pg_stat_statements', '"auto_explain",pg_stat_statements'),
        ('auto_explain, "pg_stat_statements"', 'auto_explain, "pg_stat_statements"'),
    ],
)
def test_libraries_of_a_study_are_joined_by_the_one_that_counts(listed: str, loaded: str) -> None:
    """They took its place, and it was said not to be installed."""
    assert with_library(listed, "pg_stat_statements") == loaded
