"""What stops the script of a load before it changes anything: what the clone that was measured had not."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from walproof import sqltext
from walproof.facts import LoadStep

_OF_ALL_ROWS: Collection[LoadStep] = ("truncate", "unlogged", "late indexes")
"""Steps that a foreign key of another table does not allow."""


def checks(
    table: str, steps: Collection[LoadStep], settings: Sequence[tuple[str, str]], *, is_filled: bool
) -> list[str]:
    """Statements each of which ends the script where the server is not as the recipe needs it."""
    found = [] if is_filled else [empty_check(table)]
    if not any(token.text == "." for token in sqltext.tokens(table)):
        found.append(_name_check(table))
    if any(step in steps for step in _OF_ALL_ROWS):
        found.append(_reference_check(table))
    if "late indexes" in steps:
        found.append(_tablespace_check(table))
    if dict(settings).get("wal_level") == "minimal":
        found.append(_minimal_check())
    return found


def empty_check(table: str) -> str:
    """Stops where the table has rows: a TRUNCATE would take away what nobody meant to lose."""
    return _stop(f"EXISTS (SELECT FROM {sqltext.names(table)})", "the table is not empty")


def _name_check(table: str) -> str:
    """The clone's table is in schema public; another search_path may lead to another table."""
    name, public = sqltext.literal(table), sqltext.literal(f"public.{table}")
    return _stop(
        f"to_regclass({name}) IS DISTINCT FROM to_regclass({public})",
        "the name leads to a table of another schema",
        "The load is for the one in public: SET search_path = public.",
    )


def _reference_check(table: str) -> str:
    name = sqltext.literal(table)
    return _stop(
        "EXISTS (SELECT FROM pg_constraint k\n"
        f"    WHERE k.contype = 'f' AND k.confrelid = {name}::regclass AND k.conrelid <> k.confrelid\n"
        f"      AND k.conrelid NOT IN (SELECT relid FROM pg_partition_tree({name})))",
        "another table has a foreign key to it",
        "Measure the load with the definition of that table, too: some steps are not possible then.",
    )


def _tablespace_check(table: str) -> str:
    """What makes an index again names no tablespace, and the clone has none."""
    name = sqltext.literal(table)
    return _stop(
        "EXISTS (SELECT FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid\n"
        f"    WHERE c.reltablespace <> 0 AND (i.indrelid = {name}::regclass\n"
        f"      OR i.indrelid IN (SELECT relid FROM pg_partition_tree({name}))))",
        "an index is in a tablespace of its own",
        "Name it where the index is made again, and remove this check.",
    )


def _minimal_check() -> str:
    """With any of these the server would not start again (PostmasterMain in postmaster.c, slot.c), or a
    standby would read that WAL was made with it, and end (CheckRequiredParameterValues in xlog.c)."""
    return _stop(
        "current_setting('archive_mode') <> 'off' OR EXISTS (SELECT FROM pg_replication_slots)\n"
        "    OR coalesce(current_setting('summarize_wal', true), 'off') <> 'off'\n"
        "    OR EXISTS (SELECT FROM pg_stat_replication)",
        "wal_level = minimal does not go with archive_mode, summarize_wal, replication slots or standbys",
        "The server would not start again, or its standbys would end for good: leave out this setting, or "
        "end these first.",
    )


def _stop(condition: str, message: str, hint: str | None = None) -> str:
    using = "" if hint is None else f"\n    USING HINT = {sqltext.literal(hint)}"
    body = f"BEGIN IF {condition} THEN\n  RAISE EXCEPTION {sqltext.literal(message)}{using}; END IF; END"
    return f"DO {sqltext.dollar_quoted(body)};"
