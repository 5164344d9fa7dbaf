"""The recipe of a load as a script for psql, with what undoes it, and the evidence of every step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from walproof import sqltext
from walproof.advise.loading import LoadAdvice, StepGain, is_too_wide
from walproof.advise.wording import NOT_KNOWN
from walproof.analysis.effect import Conclusion, Effect
from walproof.facts import LoadMethod, LoadStep
from walproof.report.kinds.loading.script_checks import checks, empty_check
from walproof.report.numbers import ratio
from walproof.sentences import say_list
from walproof.settings.durability import DurabilityClass
from walproof.units import format_bytes

_NEEDS_RESTART = frozenset({"wal_level", "max_wal_senders", "wal_buffers"})
_OF_SESSION = frozenset({"maintenance_work_mem"})
"""The load's own session sets them, so that nothing has to be undone."""
_MORE_IS_ENOUGH = frozenset({"max_wal_size", "maintenance_work_mem"})
"""Sizes: a server that has more keeps it."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """The SQL of the chosen steps; ``first`` begins the load's only transaction."""

    table: str
    columns: str
    before: tuple[str, ...]
    first: tuple[str, ...]
    after: tuple[str, ...]
    is_frozen: bool
    undo: tuple[str, ...]
    """Statements that restore the table when the load is given up halfway."""
    is_filled: bool = False
    """Whether the table is expected to hold rows already."""
    steps: tuple[LoadStep, ...] = ()
    """The chosen steps by name."""
    parents: tuple[str, ...] = ()
    """Other tables whose keys the rows name."""
    is_unlogged: bool = False
    """Whether the table is unlogged by its definition."""
    replay: str | None = None
    """What does for the rows that are there what disabled triggers would have done."""
    made_of: str | None = None
    """A file that psql cannot read, whose rows have to be written as CSV first."""
    sequences: tuple[tuple[str, str | None], ...] = ()
    """Loaded columns whose next values a sequence makes, and its name; None: the column's own."""


def load_script(
    advice: LoadAdvice, recipe: Recipe, settings: Sequence[tuple[str, str]], file: str | None
) -> str:
    """The script. ``settings`` are those that stay; the file is named where the user named one.

    psql runs the statements of the recipe and nothing that names, definitions or values hold. Raises SqlError
    for what cannot be written like that.
    """
    sessions = advice.variant.conditions_as(LoadMethod).sessions
    names, columns = sqltext.names(recipe.table), sqltext.names(recipe.columns)
    header = [
        f"Load of {recipe.table} on PostgreSQL {advice.install}, measured on a clone of its definition.",
        f"During the load: {_risk(risk_of(advice, recipe), recipe)}",
        "For psql, into a table that holds rows already."
        if recipe.is_filled
        else "For psql. It stops where the table is not empty.",
        *_unchecked(recipe, file),
        *_evidence(advice),
    ]
    lines = [sqltext.comment(line) for line in header]
    lines += ["", "\\set ON_ERROR_STOP on", "\\encoding UTF8", "SET standard_conforming_strings = on;", ""]
    lines += checks(recipe.table, recipe.steps, settings, is_filled=recipe.is_filled)
    lines += _settings_lines(settings, advice, recipe)
    if advice.variant.waldir is not None:
        lines += [
            "-- pg_wal on another disk: stop the server, move pg_wal there, link to it from its place,",
            "-- and start it. It may stay.",
        ]
    if recipe.before:
        # All of it or nothing: where one fails, the table is as it was.
        lines += ["BEGIN;", *map(sqltext.statement, recipe.before), "COMMIT;"]
    freeze = ", FREEZE" if recipe.is_frozen else ""
    copy = (
        f"\\copy {names} ({columns}) FROM {sqltext.copy_file(file or 'rows.csv')}"
        f" WITH (FORMAT csv, HEADER{freeze})"
    )
    if recipe.made_of is not None:
        lines.append(sqltext.comment(f"rows.csv: the rows of {recipe.made_of}, as CSV with these columns."))
    if sessions > 1:
        lines += [f"-- {sessions} sessions at the same time, each with its part of the file:"]
    lines.append("BEGIN;")
    if recipe.first and not recipe.is_filled:
        # Whoever has written since the first look, or is about to, would lose the rows.
        lines += [f"LOCK TABLE {names} IN ACCESS EXCLUSIVE MODE;", empty_check(recipe.table)]
    lines += [*map(sqltext.statement, recipe.first), copy, "COMMIT;"]
    lines += map(sqltext.statement, recipe.after)
    lines += _sequence_lines(recipe)
    lines += [sqltext.statement(f"VACUUM (ANALYZE) {names}")]
    lines += ["", "-- Undo of the settings:", *_undo_lines(settings)]
    halfway = "-- If the load is given up halfway, this restores the table:"
    if _of_server(settings):
        halfway = (
            "-- If the load is given up halfway, the undo that was printed restores the settings, and this "
            "the table:"
        )
    lines += ["", halfway]
    lines += [sqltext.comment(sqltext.statement(statement)) for statement in recipe.undo] or [
        "-- nothing has to be done"
    ]
    if recipe.replay is not None and recipe.replay in recipe.after:
        lines.append("-- If the rows are there already, first what their triggers would have done:")
        lines.append(sqltext.comment(sqltext.statement(recipe.replay)))
    return "\n".join(lines) + "\n"


def _sequence_lines(recipe: Recipe) -> list[str]:
    """A sequence does not see values that are loaded, and would make them once more."""
    lines = ["-- Sequences go on after the values that were loaded:"] if recipe.sequences else []
    table = sqltext.names(recipe.table)
    for column, name in recipe.sequences:
        named = f"{sqltext.literal(table)}, {sqltext.literal(sqltext.folded(column))}"
        sequence = f"pg_get_serial_sequence({named})" if name is None else sqltext.literal(name)
        statement = (
            f"SELECT setval(s, last) FROM (SELECT {sequence}::regclass AS s,"
            f" max({sqltext.names(column)})::bigint AS last FROM {table}) loaded"
            " WHERE last > coalesce(pg_sequence_last_value(s), 0)"
            " AND (SELECT seqincrement FROM pg_sequence WHERE seqrelid = s) > 0"
        )
        lines.append(sqltext.statement(statement))
    return lines


def _unchecked(recipe: Recipe, file: str | None) -> list[str]:
    """What only the server can say of a file's rows: the clone's tables were given the keys that it names."""
    if file is None or not recipe.parents:
        return []
    return [f"Not checked: whether every key that the file names is in {say_list(recipe.parents)}."]


def _evidence(advice: LoadAdvice) -> list[str]:
    """What was measured, as lines of a comment."""
    lines = ["", "What each step gains in the company of the others, as complete rows/s:"]
    lines += [f"  {_say_gain(gain)}" for gain in advice.kept] or ["  none gains measurably"]
    if advice.undecided:
        fate = "kept, because all together gain" if advice.keeps_undecided else "left out"
        lines += [f"Not decided, {fate}; --within 5% would tell:"]
        lines += [f"  {_say_gain(gain)}" for gain in advice.undecided]
    if advice.dropped:
        lines += ["Steps that gained nothing and are left out:"]
        lines += [f"  {_say_gain(gain)}" for gain in advice.dropped]
    if advice.instead:
        lines += ["Tried in addition, against all steps together:"]
        lines += [f"  {_say_effect(effect, advice)}" for effect in advice.instead]
    if advice.plain:
        lines += ["All steps together, against a load without any:"]
        lines += [f"  {_say_plain(load)}" for load in advice.plain]
    return lines


def _settings_lines(settings: Sequence[tuple[str, str]], advice: LoadAdvice, recipe: Recipe) -> list[str]:
    lines = []
    changed = _of_server(settings)
    if changed:
        named = ", ".join(sqltext.literal(name) for name, _ in changed)
        # RESET takes the line out of postgresql.auto.conf, and with it a value that ALTER SYSTEM had set. Who
        # may not see where a value comes from gets it back by ALTER SYSTEM, too. psql forgets its variables
        # when it ends, so that the undo is printed as well.
        lines += [
            "-- What undoes the settings, of the values that the server has now:",
            "SELECT string_agg(CASE WHEN source = 'configuration file'",
            "    AND coalesce(sourcefile, 'postgresql.auto.conf') LIKE '%postgresql.auto.conf'",
            "  THEN format('ALTER SYSTEM SET %I = %L;', name, current_setting(name))",
            "  ELSE format('ALTER SYSTEM RESET %I;', name) END, ' ') || ' SELECT pg_reload_conf();' AS undo",
            f"FROM pg_settings WHERE name IN ({named}) \\gset",
            "\\echo 'Undo of the settings, also for a load that is given up halfway:' :undo",
        ]
        for name, value in changed:
            lines += _room_lines(advice) if name == "max_wal_size" else []
            lines += _set_lines("ALTER SYSTEM SET", name, value)
        lines.append("SELECT pg_reload_conf();")
    restart = [name for name, _ in settings if name in _NEEDS_RESTART]
    if restart:
        lines += _restart_lines(restart, recipe)
    for name, value in settings:
        lines += _set_lines("SET", name, value) if name in _OF_SESSION else []
    return [*lines, ""] if lines else []


def _restart_lines(names: Sequence[str], recipe: Recipe) -> list[str]:
    """Wait until somebody has restarted the server, and do not believe it.

    The session that follows has the encoding and the search_path of its role, and others may have written.
    """
    named = ", ".join(map(sqltext.literal, names))
    body = (
        f"BEGIN IF EXISTS (SELECT FROM pg_settings WHERE name IN ({named}) AND pending_restart) THEN\n"
        "  RAISE EXCEPTION 'the server was not restarted'; END IF; END"
    )
    # Whoever runs a file sees no comments, but the question.
    ends = "It ends standbys, and point-in-time recovery across the load. " if "wal_level" in names else ""
    return [
        f"-- {', '.join(names)}: restart the server here and after the undo.",
        "SELECT current_setting('search_path') AS search_path_before \\gset",
        f"\\prompt '{ends}Restart the server now, and press Enter when it is up: ' is_restarted",
        "\\c",
        "\\encoding UTF8",
        "SET standard_conforming_strings = on;",
        "SELECT set_config('search_path', :'search_path_before', false) AS search_path_before \\gset",
        f"DO {sqltext.dollar_quoted(body)};",
        *checks(recipe.table, (), (), is_filled=recipe.is_filled),
    ]


def _of_server(settings: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(name, value) for name, value in settings if name not in _OF_SESSION]


def _set_lines(verb: str, name: str, value: str) -> list[str]:
    line = f"{verb} {sqltext.setting_name(name)} = {sqltext.literal(value)};"
    if name not in _MORE_IS_ENOUGH:
        return [line]
    present, wanted = f"current_setting({sqltext.literal(name)})", sqltext.literal(value)
    return [
        f"SELECT pg_size_bytes({present}) < pg_size_bytes({wanted}) AS is_less \\gset",
        "\\if :is_less",
        f"  {line}",
        "\\endif",
    ]


def _room_lines(advice: LoadAdvice) -> list[str]:
    if advice.wal_bytes_per_row is None:
        return []
    return [
        f"-- {advice.rows:,} rows wrote {format_bytes(advice.wal_bytes_per_row * advice.rows)} of WAL; more "
        "rows write more. pg_wal may grow to",
        "-- max_wal_size and half as much again: without that room set less, as a full pg_wal stops the "
        "server.",
    ]


def _undo_lines(settings: Sequence[tuple[str, str]]) -> list[str]:
    changed = dict(_of_server(settings))
    if not changed:
        return ["-- none of the server's were changed"]
    lines = [":undo"]
    risky = [name for name in ("fsync", "full_page_writes") if changed.get(name) == "off"]
    if risky:
        # Else the checkpointer may begin before it has heard of the reload.
        lines += ["-- Every process of the server has to read the values first:", "SELECT pg_sleep(2);"]
    if "fsync" in risky:
        lines += [
            "-- The server flushes nothing later of what it wrote with fsync = off. Without an answer the",
            "-- script ends here.",
            "\\prompt 'Run sync on the server, or initdb --sync-only -D DATA, and press Enter: ' is_synced",
        ]
    if risky:
        lines.append("CHECKPOINT;")
    return lines


def _say_gain(gain: StepGain) -> str:
    if gain.ratio is None:
        return f"{gain.step}: no finished trials"
    if gain.conclusion is Conclusion.TOO_FEW:
        return f"{gain.step}: {ratio(gain.ratio)}, one round only"
    return f"{gain.step}: {_found(gain)}"


def _say_effect(effect: Effect, advice: LoadAdvice) -> str:
    chosen = "; part of this recipe" if effect.variant == advice.variant.name else ""
    return f"{effect.variant}: {_found(effect)}{chosen}"


def _say_plain(effect: Effect) -> str:
    if not effect.ratio:
        return f"{effect.variant}: no finished trials"
    interval = None if effect.interval is None else effect.interval.inverse()
    return f"{effect.variant}: {ratio(1 / effect.ratio, interval)}"


def _found(found: StepGain | Effect) -> str:
    text = ratio(found.ratio, found.interval)
    return text if text == NOT_KNOWN else f"{text}, {_word(found)}"


def _word(found: StepGain | Effect) -> str:
    if is_too_wide(found):
        return NOT_KNOWN
    return {
        Conclusion.HIGHER: "a gain",
        Conclusion.LOWER: "a loss",
        Conclusion.IN_DOUBT: "in doubt among so many comparisons",
        Conclusion.NO_DIFFERENCE: "no measurable difference",
        Conclusion.TOO_FEW: "too few rounds",
        Conclusion.SAME: "chance",
    }[found.conclusion]


def risk_of(advice: LoadAdvice, recipe: Recipe) -> DurabilityClass:
    """What a crash can take during the load."""
    of_table = DurabilityClass.TABLE if recipe.is_unlogged else DurabilityClass.NONE
    return max(advice.variant.durability, of_table, key=lambda risk: risk.rank)


def _risk(risk: DurabilityClass, recipe: Recipe) -> str:
    if risk is DurabilityClass.NONE:
        return "what is committed is durable; begin again when it is interrupted."
    after = "a crash empties the table, which is unlogged" if recipe.is_unlogged else "nothing of the kind"
    return f"{risk.value}; after it {after}."
