"""Under which name a standby's walsender is looked for."""

from __future__ import annotations

import pytest

from walproof.probe.pair_queries import walsender_name


@pytest.mark.parametrize(
    ("primary_conninfo", "name"),
    [
        ("host=db1 application_name=db2 sslmode=require", "db2"),
        ("host=db1 application_name='db\\'s 2'", "db's 2"),
        ("postgresql://rep@db1/?application_name=db%202&sslmode=require", "db 2"),
        ("host=db1 fallback_application_name=other", "east"),
        ("no connection string", "east"),
        ("", "east"),
    ],
)
def test_the_name_of_primary_conninfo_goes_first(primary_conninfo: str, name: str) -> None:
    assert walsender_name(primary_conninfo, "east") == name


def test_without_names_it_is_the_walreceivers_own() -> None:
    assert walsender_name("", "") == "walreceiver"
