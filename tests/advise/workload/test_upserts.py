"""ON CONFLICT DO UPDATE: an ingest of new rows is no load of updates."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.advise.workload.apps import ORDER, application, column, only_script, primary, statement, table
from walproof.advise.workload.draft import Draft, draft
from walproof.facts.application import AppStatement

SAMPLES = table(
    "samples", column("device", "bigint", not_null=True, distinct=100.0),
    column("at", "timestamp with time zone", not_null=True, correlation=1.0), column("n", "integer"),
    keys=(primary("device", "at"),),
)  # fmt: skip
UPSERT = "INSERT INTO samples VALUES ($1, $2, $3) ON CONFLICT (device, at) DO UPDATE SET n = excluded.n"
NEW = "nextval('walproof_fresh')"


def drafted(inserted: float | None, *others: AppStatement) -> Draft:
    """A thousand upserts, and other statements; ``inserted``: rows that the server has counted."""
    own = replace(SAMPLES, inserted=inserted)
    return draft(application((own,), statement(UPSERT), *others), ORDER)


@pytest.mark.parametrize(
    ("inserted", "is_new", "said"),
    [
        (990.0, True, None),
        (700.0, True, "70 % were new; here it always inserts."),
        (200.0, False, "20 % were new; here it always updates."),
        (10.0, False, None),
        (None, False, "how often ON CONFLICT DO UPDATE inserted is not known; here it always updates."),
        # Something else has inserted.
        (5000.0, False, "how often ON CONFLICT DO UPDATE inserted is not known; here it always updates."),
    ],
)
def test_rows_are_new_where_most_of_the_applications_were(
    inserted: float | None, is_new: bool, said: str | None
) -> None:
    found = drafted(inserted)
    assert (NEW in only_script(found)) is is_new
    notes = [note for note in found.notes if "ON CONFLICT" in note]
    assert len(notes) == (said is not None)
    assert all(note.startswith("public.samples: ") and note.endswith(said or "") for note in notes)


def test_rows_of_other_statements_are_none_of_the_upserts() -> None:
    found = drafted(1000.0, statement("INSERT INTO samples VALUES ($1, $2, $3)", 990.0))
    (text,) = [found.files[name] for name in found.scripts if "DO UPDATE" in found.files[name]]
    assert NEW not in text
    assert not any("ON CONFLICT" in note for note in found.notes)


def test_a_statement_that_was_not_understood_may_have_inserted() -> None:
    found = drafted(1000.0, statement("COPY samples FROM STDIN", 10.0))
    assert NEW not in only_script(found)
    assert any("is not known" in note for note in found.notes if "ON CONFLICT" in note)
