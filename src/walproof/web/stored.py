"""Stored runs: the list, reports in place, several runs in one plot, and the same as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from walproof.report.html import to_html
from walproof.report.json import to_json
from walproof.web.course import RunCourse, narrowing
from walproof.web.flights import Flight
from walproof.web.listed import ListedRun
from walproof.web.pages import page, templates
from walproof.web.several import MOST_RUNS, several, trends
from walproof.web.shelf import Shelf
from walproof.web.trend import Latest

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

_PAGE = 50
"""The number of runs on a page of the list."""


def stored_routes(shelf: Shelf, shown: Mapping[str, Any]) -> list[Route]:
    """Addresses below /runs, /compare, /trend and /api/runs."""
    from markupsafe import Markup
    from starlette.exceptions import HTTPException
    from starlette.responses import HTMLResponse, JSONResponse, Response
    from starlette.routing import Route

    latest: Latest[Markup] = Latest()
    """Drawings of the trends that were asked for last."""

    def runs(request: Request) -> Response:
        found = _selection(shelf, request.query_params)
        return page("runs.html.j2", **shown, **found, flights=shelf.flights())

    def running(_request: Request) -> Response:
        text = templates().get_template("flights.html.j2").render(flights=shelf.flights())
        return JSONResponse({"html": text, "finished": False})

    def rows(request: Request) -> Response:
        found = _selection(shelf, request.query_params)
        text = templates().get_template("run_rows.html.j2").render(**found)
        return JSONResponse({"rows": text, "reading": found["reading"], "count": found["count"]})

    def report(request: Request) -> Response:
        listed = shelf.run(request.path_params["run"])
        view = None if listed is None else shelf.view(request.path_params["run"])
        if view is None:
            raise HTTPException(404)
        return page("run.html.j2", **shown, view=view, listed=listed)

    def progress(request: Request) -> Response:
        found = shelf.course(request.path_params["run"])
        if found is None:
            raise HTTPException(404)
        return page("progress.html.j2", **shown, **_course_values(found, shelf.flights()))

    def progress_parts(request: Request) -> Response:
        found = shelf.course(request.path_params["run"])
        if found is None:
            raise HTTPException(404)
        text = (
            templates().get_template("progress_body.html.j2").render(**_course_values(found, shelf.flights()))
        )
        return JSONResponse({"html": text, "finished": found.listed.extent.finished_at is not None})

    def file(request: Request) -> Response:
        run_id, form = request.path_params["run"], request.path_params["form"]
        view = shelf.view(run_id) if form in ("html", "json") else None
        if view is None:
            raise HTTPException(404)
        name = "".join(char if char.isalnum() or char in "-_." else "_" for char in run_id)
        saved = {"Content-Disposition": f'attachment; filename="{name}.{form}"'}
        if form == "json":
            return Response(to_json(view), media_type="application/json", headers=saved)
        return HTMLResponse(to_html(view), headers=saved)

    def compare(request: Request) -> Response:
        chosen = list(dict.fromkeys(request.query_params.getlist("run")))[:MOST_RUNS]
        found = [entry for name in chosen if (entry := shelf.summarised(name)) is not None]
        return page("compare.html.j2", **shown, chosen=found, blocks=several(found), most=MOST_RUNS)

    def trend(request: Request) -> Response:
        study = request.query_params.get("study", "")
        every = shelf.listed()
        found = [entry for entry in every if entry.run.plan.study == study]
        state = tuple((entry.run.id, entry.extent) for entry in found)

        def make() -> Markup:
            # Changes are looked for in thousands of random orders.
            full = [entry for run in found if (entry := shelf.summarised(run.run.id)) is not None]
            body = templates().get_template("trend_body.html.j2")
            return Markup(body.render(blocks=trends(full)))

        studies = sorted({entry.run.plan.study for entry in every})
        body = latest.get(study, state, make)
        values = {"study": study, "studies": studies, "count": len(found), "body": body}
        answer = page("trend.html.j2", **shown, **values)
        if body is None:
            answer.headers["Refresh"] = "1"
        return answer

    def api_runs(request: Request) -> Response:
        found = [entry for entry in shelf.listed() if entry.has(request.query_params.get("q", ""))]
        return JSONResponse([run_data(entry) for entry in found])

    def api_running(_request: Request) -> Response:
        return JSONResponse([flight_data(flight) for flight in shelf.flights()])

    def api_run(request: Request) -> Response:
        view = shelf.view(request.path_params["run"])
        if view is None:
            raise HTTPException(404)
        return Response(to_json(view), media_type="application/json")

    return [
        Route("/runs", runs),
        Route("/runs/rows", rows),
        Route("/runs/running.json", running),
        Route("/runs/{run}", report),
        Route("/runs/{run}/progress", progress),
        Route("/runs/{run}/progress.json", progress_parts),
        Route("/runs/{run}/report.{form}", file),
        Route("/compare", compare),
        Route("/trend", trend),
        Route("/api/runs", api_runs),
        Route("/api/running", api_running),
        Route("/api/runs/{run}", api_run),
    ]


def _course_values(found: RunCourse, every: Sequence[Flight]) -> dict[str, Any]:
    """Values of a page. Its flights: this run's, and those of other machines that carry out the study now."""
    run = found.listed.run
    its = next((flight for flight in every if flight.listed.run.id == run.id), None)
    others = [
        flight
        for flight in every
        if flight is its or (flight.lives and flight.listed.run.plan.study == run.plan.study)
    ]
    return {
        "found": found, "listed": found.listed, "blocks": narrowing(found), "flight": its,
        "flights": others if len(others) > 1 else [],
    }  # fmt: skip


def _selection(shelf: Shelf, asked: Mapping[str, str]) -> dict[str, Any]:
    """The runs that a search finds, and which page of them is shown."""
    words = asked.get("q", "")[:200]
    found = [entry for entry in shelf.listed() if entry.has(words)]
    pages = max(1, -(-len(found) // _PAGE))
    number = asked.get("page", "1")
    shown = min(
        pages, max(1, int(number) if number.isascii() and number.isdigit() and len(number) < 9 else 1)
    )
    return {
        "runs": found[(shown - 1) * _PAGE : shown * _PAGE],
        "count": len(found),
        "words": words,
        "number": shown,
        "pages": pages,
        "reading": shelf.is_reading,
    }


def flight_data(flight: Flight) -> dict[str, Any]:
    """An unfinished run, for programs. ``trial`` is null between two trials and without a live process."""
    trial = flight.trial
    return {
        "run": flight.listed.run.id,
        "study": flight.listed.run.plan.study,
        "host": flight.host,
        "lives": flight.lives,
        "trials": flight.listed.extent.trials,
        "trials_most": flight.listed.run.trials_most,
        "trial": None if trial is None else {
            "number": trial.number, "round": trial.round, "install": trial.install,
            "workload": trial.workload, "variant": trial.variant, "began_at": trial.began_at,
        },
    }  # fmt: skip


def run_data(entry: ListedRun) -> dict[str, Any]:
    """A run of the list, for programs. ``answers`` is null until the run has been analysed."""
    summary = entry.summary
    return {
        "run": entry.run.id,
        "study": entry.run.plan.study,
        "question": entry.run.plan.title,
        "created_at": entry.run.created_at,
        "finished_at": entry.extent.finished_at,
        "trials": entry.extent.trials,
        "failed": entry.extent.failed,
        "rounds": entry.extent.rounds,
        "postgresql": entry.versions,
        "machine": entry.machine,
        "answers": None if summary is None else [
            {"title": answer.title, "sentences": list(answer.sentences)} for answer in summary.answers
        ],
        "how_sure": None if summary is None else list(summary.how_sure),
        "problem": None if summary is None else summary.problem,
    }  # fmt: skip
