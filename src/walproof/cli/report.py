"""``walproof report RUN``: the report of a run, or of a tuning, as HTML, Markdown or JSON."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from walproof.cli import options


class Format(StrEnum):
    """Forms of a report."""

    html = "html"
    md = "md"
    json = "json"


def report(
    name: Annotated[
        str,
        typer.Argument(
            metavar="RUN",
            help="Id of a run, its beginning, a study's name, last, or a tuning's name.",
            autocompletion=options.complete_stored,
        ),
    ],
    format_: Annotated[Format, typer.Option("--format", help="html, md or json.")] = Format.html,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write; - for stdout.")
    ] = None,
    open_: Annotated[bool, typer.Option("--open", help="Open the HTML report in the browser.")] = False,
    out: options.Out = options.DEFAULT_OUT,
    store: options.StoreUrl = None,
) -> None:
    """Write a run's report. HTML goes to a file beside the results, the other forms to stdout."""
    from walproof.cli.files import write_file
    from walproof.errors import ReportError

    if open_ and (format_ is not Format.html or str(output) == "-"):
        raise ReportError("--open needs an HTML report in a file", hint="Leave out --format, or --open.")
    page, text = _written(name, format_, out, store)
    if output is None and format_ is Format.html:
        output = page
    if output is None or str(output) == "-":
        sys.stdout.write(text if text.endswith("\n") else text + "\n")
        return
    write_file(output, text, "--output")
    sys.stdout.write(f"{output}\n")
    if open_:
        import webbrowser

        if not webbrowser.open(output.absolute().as_uri()):
            raise ReportError("no browser could be opened", hint=f'Open "{output}" by hand.')


def _written(name: str, format_: Format, out: Path, store: str | None) -> tuple[Path, str]:
    """Where the page of that run or tuning belongs, and the report in the form asked for."""
    from walproof.cli.stored import find_tuning, read_tuning, read_view

    if (folder := find_tuning(name, out)) is not None:
        from walproof.report.tune import json as tuning_json
        from walproof.report.tune import page as tuning_page

        tuned = read_tuning(folder, out, store)
        forms = {
            Format.html: tuning_page.to_html,
            Format.md: tuning_page.to_markdown,
            Format.json: tuning_json.to_json,
        }
        return folder / "report.html", forms[format_](tuned)
    from walproof.report.html import to_html
    from walproof.report.json import to_json
    from walproof.report.markdown import to_markdown

    view = read_view(name, out, store)
    text = {Format.html: to_html, Format.md: to_markdown, Format.json: to_json}[format_](view)
    return out / "reports" / f"{view.run.id}.html", text
