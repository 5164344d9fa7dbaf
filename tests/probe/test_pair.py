"""A standby whose recovery cancels the queries that look at it: they are asked again, then given up."""

from __future__ import annotations

from typing import Any, cast

import psycopg
import pytest

from walproof.errors import ProbeError
from walproof.probe.pair import PairObserver


class Cancelled:
    """A session each of whose queries recovery cancels."""

    queries = 0

    def execute(self, *_: object) -> None:
        self.queries += 1
        raise psycopg.errors.SerializationFailure("canceling statement due to conflict with recovery")


def test_conflicts_that_do_not_end_are_an_error_with_a_reason() -> None:
    observer = PairObserver("host=primary", "host=standby")
    session = Cancelled()
    cast("Any", observer)._standby = session
    with pytest.raises(ProbeError, match="could not observe the standby: canceling statement") as caught:
        observer.observe(1.0)
    assert session.queries == 5
    assert caught.value.hint == "Recovery cancelled the query 5 times: look again later."
