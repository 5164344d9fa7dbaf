"""What is asked of a run that is under way, as rows of the store: whoever may write there may ask, and the
run answers.

Both are separate rows, so that nothing stored is changed. The run looks for requests between its trials
(``lab/hearing.py``).
"""

from __future__ import annotations

import time
from collections.abc import Mapping

import sqlalchemy as sa

from walproof.errors import StoreError
from walproof.facts.run import Request, RequestKind, Run
from walproof.facts.tables import REQUEST, REQUEST_ANSWER, RUN_END

ROUNDS_MOST = 1000
"""Most rounds in one request."""


def ask(engine: sa.Engine, run: Run, kind: RequestKind, rounds: int) -> Request:
    """Store a request. Raises StoreError, with the reason, for what no run would grant."""
    if kind is RequestKind.ROUNDS:
        if not 1 <= rounds <= ROUNDS_MOST:
            raise StoreError(f"{rounds} more rounds were asked for, expected 1 to {ROUNDS_MOST}")
        if run.why_no_rounds is not None:
            raise StoreError(f"run {run.id} takes no more rounds: {run.why_no_rounds}")
    while True:
        try:
            with engine.begin() as connection:
                _check_open(connection, run.id, kind)
                last = connection.scalar(
                    sa.select(sa.func.max(REQUEST.c.number)).where(REQUEST.c.run_id == run.id)
                )
                made = Request((last or 0) + 1, kind, rounds, time.time())
                connection.execute(
                    REQUEST.insert().values(
                        run_id=run.id, number=made.number, kind=kind.value, rounds=rounds,
                        asked_at=made.asked_at,
                    )
                )  # fmt: skip
        except sa.exc.IntegrityError:
            continue  # somebody else asked at the same moment: the next number is free
        return made


def _check_open(connection: sa.Connection, run_id: str, kind: RequestKind) -> None:
    if connection.scalar(sa.select(RUN_END.c.run_id).where(RUN_END.c.run_id == run_id)) is not None:
        raise StoreError(
            f"run {run_id} has ended: there is nothing left to {_VERBS[kind]}",
            hint="The same command with --new begins another run.",
        )
    if kind is RequestKind.STOP:
        waiting = (
            sa.select(REQUEST.c.number)
            .select_from(REQUEST.outerjoin(REQUEST_ANSWER))
            .where(
                REQUEST.c.run_id == run_id, REQUEST.c.kind == kind.value, REQUEST_ANSWER.c.number.is_(None)
            )
        )
        if connection.scalar(waiting) is not None:
            raise StoreError(f"run {run_id} was asked to stop already, and hears it after its present trial")


_VERBS = {RequestKind.STOP: "stop", RequestKind.ROUNDS: "add rounds to"}


def answer(engine: sa.Engine, run_id: str, request: Request, words: str, *, is_granted: bool) -> None:
    """Store what the run answers."""
    with engine.begin() as connection:
        connection.execute(
            REQUEST_ANSWER.insert().values(
                run_id=run_id, number=request.number, answered_at=time.time(), is_granted=is_granted,
                words=words,
            )
        )  # fmt: skip


def read_requests(connection: sa.Connection, run_id: str | None = None) -> Mapping[str, tuple[Request, ...]]:
    """Run id -> its requests, of one run or of all."""
    answers = (REQUEST_ANSWER.c.answered_at, REQUEST_ANSWER.c.is_granted, REQUEST_ANSWER.c.words)
    query = (
        sa.select(REQUEST, *answers)
        .select_from(REQUEST.outerjoin(REQUEST_ANSWER))
        .order_by(REQUEST.c.run_id, REQUEST.c.number)
    )
    if run_id is not None:
        query = query.where(REQUEST.c.run_id == run_id)
    found: dict[str, list[Request]] = {}
    for row in connection.execute(query):
        found.setdefault(row.run_id, []).append(
            Request(
                row.number, RequestKind(row.kind), row.rounds, row.asked_at, row.answered_at,
                bool(row.is_granted), row.words or "",
            )
        )  # fmt: skip
    return {name: tuple(requests) for name, requests in found.items()}
