"""``walproof report RUN``: a run's report as HTML, Markdown or JSON."""

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
            help="Id of a run, its beginning, a study's name, or last.",
            autocompletion=options.complete_run,
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
    from walproof.cli.stored import read_view
    from walproof.errors import ReportError
    from walproof.report.html import to_html
    from walproof.report.json import to_json
    from walproof.report.markdown import to_markdown

    if open_ and (format_ is not Format.html or str(output) == "-"):
        raise ReportError("--open needs an HTML report in a file", hint="Leave out --format, or --open.")
    view = read_view(name, out, store)
    text = {Format.html: to_html, Format.md: to_markdown, Format.json: to_json}[format_](view)
    if output is None and format_ is Format.html:
        output = out / "reports" / f"{view.run.id}.html"
    if output is None or str(output) == "-":
        sys.stdout.write(text if text.endswith("\n") else text + "\n")
        return
    write_file(output, text)
    sys.stdout.write(f"{output}\n")
    if open_:
        import webbrowser

        if not webbrowser.open(output.absolute().as_uri()):
            raise ReportError("no browser could be opened", hint=f'Open "{output}" by hand.')
