"""Tools of ``walproof mcp`` over what is stored: where to look, studies, runs."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from walproof.cli import options
from walproof.cli.mcp_reach import Reach
from walproof.mcp.tool import Call, Nothing, Tool, ToolAnswer, ToolArguments

if TYPE_CHECKING:
    from pathlib import Path

    from walproof.web.shelf import Shelf

_PATIENCE_S = 20.0
"""Time for the summaries of all runs, which a search looks into."""
_LOOK_S = 0.1
_FOLDERS_MOST = 100
_OF_TUNING = (
    "name", "dateline", "summary", "conclusion", "platform", "apply", "undo", "durability_class",
    "lines_notes", "refused", "notes",
)  # fmt: skip
"""What has to be known of a tuning before somebody pastes its lines."""


class AskedStudy(ToolArguments):
    """Which study."""

    name: str = Field(description="Name of a built-in study, from list_studies.")


class AskedRuns(ToolArguments):
    """Which runs."""

    words: str = Field(
        default="",
        max_length=200,
        description="Only runs that have all of these words in question, answer, variants, machine, version "
        "or id.",
    )
    limit: int = Field(default=10, ge=1, le=50, description="Most runs to list, newest first.")


class AskedRun(ToolArguments):
    """Which run, in which form."""

    run: str = Field(
        description="Id of a run or its beginning, the name of its study, last, or a tuning's name."
    )
    form: Annotated[
        Literal["answer", "markdown", "json"],
        Field(
            description="answer: question, answers, how sure, findings, what would help, and next commands. "
            "markdown: the whole report with its tables. json: all of it as data, with every trial."
        ),
    ] = "answer"


def _tuning(folder: Path, form: str, reach: Reach) -> ToolAnswer:
    """A tuning as far as it has been answered. Raises StoreError."""
    from walproof.cli.stored import read_tuning
    from walproof.report.tune.json import to_json
    from walproof.report.tune.page import to_markdown

    view = read_tuning(folder, reach.out, reach.store)
    place = options.place_words(reach.out, reach.store)
    if form == "markdown":
        command = ("walproof", "report", folder.name, "--format", "md", "--output", "-", *place)
        return ToolAnswer(to_markdown(view), command=command)
    data: dict[str, Any] = json.loads(to_json(view))
    if form == "json":
        return ToolAnswer(data, command=("walproof", "show", folder.name, *place, "--json"))
    kept = {name: data[name] for name in _OF_TUNING}
    return ToolAnswer(kept, command=("walproof", "show", folder.name, *place))


def stored_tools(reach: Reach, shelf: Shelf) -> list[Tool]:
    """Tools that look into walproof's own facts."""
    place = options.place_words(reach.out, reach.store)

    def overview(_asked: Nothing, call: Call) -> ToolAnswer:
        from walproof.web.recordings import find_recordings

        recordings, notes = [], _lacking(reach)
        for root in reach.roots.folders:
            for recording in find_recordings(root):
                call.look()
                recordings.append(_recorded(recording))
        if any(recording["wal_bytes"] == 0 for recording in recordings):
            notes.append("A recording with wal_bytes 0 has facts of its server alone: ask advise_recording.")
        folders = {str(root): _folders(root) for root in reach.roots.folders}
        return ToolAnswer(
            {
                "may_read": reach.roots.shown,
                "folders": folders,
                "recordings": recordings,
                "servers": list(reach.servers),
                "store": shelf.shown,
                "runs": len(shelf.extents()),
                "time_limit_s": reach.longest_s,
            },
            notes=tuple(notes),
        )

    def studies(_asked: Nothing, _call: Call) -> ToolAnswer:
        from walproof.lab.study import built_in_names, read_study

        rows = [
            {"name": study.name, "title": study.title} for study, _, _ in map(read_study, built_in_names())
        ]
        return ToolAnswer(
            rows, ("A person runs a study: walproof run NAME.",), ("walproof", "studies", "--json")
        )

    def study(asked: AskedStudy, _call: Call) -> ToolAnswer:
        from walproof.errors import StudyError
        from walproof.lab.study import built_in_names, read_study

        # A study may be a file, too; which files there are is nothing that an assistant may ask.
        if asked.name not in built_in_names():
            raise StudyError(
                f'there is no built-in study "{asked.name}"',
                detail=f"Studies: {', '.join(built_in_names())}.",
            )
        _, text, _ = read_study(asked.name)
        return ToolAnswer(text, ("TOML, as for a user's own study.",), ("walproof", "studies", asked.name))

    def runs(asked: AskedRuns, call: Call) -> ToolAnswer:
        from walproof.web.stored import run_data

        until_s = time.monotonic() + _PATIENCE_S
        listed = shelf.listed()
        while asked.words and shelf.is_reading and time.monotonic() < until_s:
            call.look()
            time.sleep(_LOOK_S)
        notes = []
        if asked.words:
            if shelf.is_reading:
                notes.append("Not all answers are read yet: runs may be missing. Ask again in a minute.")
            listed = [run for run in shelf.listed() if run.has(asked.words)]
        found = []
        for run in listed[: asked.limit]:
            call.look()
            found.append(run_data(shelf.summarised(run.run.id) or run))
        if not listed and not shelf.is_there:
            notes.append('There are no runs yet; a person makes some: "walproof run durability --quick".')
        data = {"store": shelf.shown, "runs_found": len(listed), "runs": found}
        return ToolAnswer(data, tuple(notes), ("walproof", "runs", *place))

    def run(asked: AskedRun, _call: Call) -> ToolAnswer:
        from walproof.cli.stored import find_tuning, read_view
        from walproof.errors import StoreError
        from walproof.report.json import to_json
        from walproof.report.markdown import to_markdown

        if (folder := find_tuning(asked.run, reach.out)) is not None:
            return _tuning(folder, asked.form, reach)
        try:
            view = read_view(asked.run, reach.out, reach.store)
        except StoreError as error:
            if error.hint is not None and '"walproof runs"' in error.hint:
                error.hint = "list_runs has them all."
            raise
        command = ("walproof", "report", view.run.id, "--format", "md", "--output", "-", *place)
        if asked.form == "markdown":
            return ToolAnswer(to_markdown(view), command=command)
        data: dict[str, Any] = json.loads(to_json(view))
        command = ("walproof", "show", view.run.id, *place)
        if asked.form == "json":
            return ToolAnswer(data, command=(*command, "--json"))
        kept = {name: data[name] for name in ("answer", "findings", "gate")}
        run_facts = {name: data["run"][name] for name in ("id", "command", "created_at", "finished_at")}
        return ToolAnswer({"run": run_facts, **kept}, command=command)

    return [
        Tool(
            "overview", "What there is to ask about",
            "Begin here. Folders that may be read, recordings of servers in them, names of servers that may "
            "be looked at, and where stored runs are.",
            Nothing, overview,
        ),
        Tool(
            "list_studies", "Built-in studies",
            "Experiments that walproof can run on throw-away servers: what synchronous_commit, max_wal_size, "
            "wal_compression, fsync and the like cost and risk. This server runs none; a person does.",
            Nothing, studies,
        ),
        Tool("show_study", "A study's text", "The TOML of a built-in study.", AskedStudy, study),
        Tool(
            "list_runs", "Stored runs",
            "Experiments that were measured on this machine or in a shared store: question, answer, how "
            "sure, machine, PostgreSQL version. Look here before you say from general knowledge what a "
            "setting gains.",
            AskedRuns, runs,
        ),
        Tool(
            "show_run", "A stored run",
            "The result of an experiment, with intervals and durability classes. A difference whose "
            "interval contains 1x is not proven.",
            AskedRun, run,
        ),
    ]  # fmt: skip


def _folders(root: Path) -> list[str]:
    """Names of the folders in it; of one that may not be read, none."""
    try:
        with os.scandir(root) as entries:
            # A link may lead to where nobody may look, which is an error of entry.is_dir().
            names = sorted(entry.name for entry in entries if os.path.isdir(entry.path))  # noqa: PTH112
    except OSError:
        return []
    return names[:_FOLDERS_MOST]


def _recorded(found: Any) -> dict[str, Any]:
    """A recording in a few words."""
    return {
        "path": str(found.folder),
        "version_num": found.version_num,
        "began_at": found.began_at,
        "ended_at": found.ended_at,
        "wal_bytes": found.wal_bytes,
        "has_statistics": found.has_server,
        "problem": found.problem or None,
    }


def _lacking(reach: Reach) -> list[str]:
    notes = []
    if not reach.roots.shown:
        notes.append("No folder may be read. Whoever runs walproof mcp may name some: --root FOLDER.")
    if not reach.servers:
        notes.append("No server may be looked at. Whoever runs walproof mcp may name some: --server DSN.")
    return notes
