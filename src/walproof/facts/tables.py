"""The tables of the store, and the transaction in which they are made."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy as sa

STORE_FORMAT = 2
CREATION_LOCK = 0x77616C70
"""Key of the PostgreSQL advisory lock under which tables are made ("walp")."""

METADATA = sa.MetaData()

FORMAT = sa.Table("walproof_format", METADATA, sa.Column("format", sa.Integer, primary_key=True))

RUN = sa.Table(
    "run",
    METADATA,
    sa.Column("id", sa.String(200), primary_key=True),
    sa.Column("study", sa.Text, nullable=False),
    sa.Column("plan_hash", sa.String(64), nullable=False, index=True),
    sa.Column("plan", sa.Text, nullable=False),
    sa.Column("command", sa.Text, nullable=False),
    sa.Column("created_at", sa.Double, nullable=False),
    sa.Column("walproof_version", sa.Text, nullable=False),
    sa.Column("environment", sa.Text, nullable=False),
    sa.Column("study_text", sa.Text),
)

RUN_END = sa.Table(
    "run_end",
    METADATA,
    sa.Column("run_id", sa.ForeignKey("run.id"), primary_key=True),
    sa.Column("finished_at", sa.Double, nullable=False),
)

REQUEST = sa.Table(
    "request",
    METADATA,
    sa.Column("run_id", sa.ForeignKey("run.id"), primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("kind", sa.String(20), nullable=False),
    sa.Column("rounds", sa.Integer, nullable=False),
    sa.Column("asked_at", sa.Double, nullable=False),
)

REQUEST_ANSWER = sa.Table(
    "request_answer",
    METADATA,
    sa.Column("run_id", sa.String(200), primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("answered_at", sa.Double, nullable=False),
    sa.Column("is_granted", sa.Boolean, nullable=False),
    sa.Column("words", sa.Text, nullable=False),
    sa.ForeignKeyConstraint(("run_id", "number"), ["request.run_id", "request.number"]),
)

TRIAL = sa.Table(
    "trial",
    METADATA,
    sa.Column("run_id", sa.ForeignKey("run.id"), primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("round", sa.Integer, nullable=False),
    sa.Column("install", sa.Text, nullable=False),
    sa.Column("workload", sa.Text, nullable=False),
    sa.Column("variant", sa.Text, nullable=False),
    sa.Column("state", sa.String(10), nullable=False),
    sa.Column("started_at", sa.Double, nullable=False),
    sa.Column("ended_at", sa.Double, nullable=False),
    sa.Column("window_start", sa.Double),
    sa.Column("window_s", sa.Double),
    sa.Column("settings", sa.Text, nullable=False),
    sa.Column("warnings", sa.Text, nullable=False),
    sa.Column("reason", sa.Text),
    sa.Column("server_log", sa.Text),
)

TRIAL_BEGIN = sa.Table(
    "trial_begin",
    METADATA,
    sa.Column("run_id", sa.ForeignKey("run.id"), primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    # A trial that was interrupted begins again.
    sa.Column("began_at", sa.Double, primary_key=True),
    sa.Column("round", sa.Integer, nullable=False),
    sa.Column("install", sa.Text, nullable=False),
    sa.Column("workload", sa.Text, nullable=False),
    sa.Column("variant", sa.Text, nullable=False),
)

_OF_TRIAL = ("run_id", "trial")

METRIC = sa.Table(
    "metric",
    METADATA,
    sa.Column("run_id", sa.String(200), primary_key=True),
    sa.Column("trial", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("name", sa.String(200), primary_key=True),
    sa.Column("value", sa.Double, nullable=False),
    sa.ForeignKeyConstraint(_OF_TRIAL, ["trial.run_id", "trial.number"]),
)

SERIES = sa.Table(
    "series",
    METADATA,
    sa.Column("run_id", sa.String(200), primary_key=True),
    sa.Column("trial", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("name", sa.String(200), primary_key=True),
    sa.Column("t_s", sa.Text, nullable=False),
    sa.Column("value", sa.Text, nullable=False),
    sa.ForeignKeyConstraint(_OF_TRIAL, ["trial.run_id", "trial.number"]),
)


POWER_CUT = sa.Table(
    "power_cut",
    METADATA,
    sa.Column("run_id", sa.String(200), primary_key=True),
    sa.Column("trial", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("facts", sa.Text, nullable=False),
    sa.ForeignKeyConstraint(_OF_TRIAL, ["trial.run_id", "trial.number"]),
)

SLICE = sa.Table(
    "slice",
    METADATA,
    sa.Column("run_id", sa.String(200), primary_key=True),
    sa.Column("trial", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("pass_number", sa.Integer, nullable=False),
    sa.Column("position", sa.Integer, nullable=False),
    sa.Column("variant", sa.Text, nullable=False),
    sa.Column("predecessor", sa.Text),
    sa.Column("began_at", sa.Double, nullable=False),
    sa.Column("ended_at", sa.Double, nullable=False),
    sa.Column("lsn_begin", sa.BigInteger, nullable=False),
    sa.Column("lsn_end", sa.BigInteger, nullable=False),
    sa.Column("transactions", sa.BigInteger, nullable=False),
    sa.Column("latency_ms_sum", sa.Double, nullable=False),
    sa.Column("latency_ms_p50", sa.Double),
    sa.Column("latency_ms_p95", sa.Double),
    sa.Column("latency_ms_p99", sa.Double),
    sa.Column("cpu_s", sa.Double),
    sa.ForeignKeyConstraint(_OF_TRIAL, ["trial.run_id", "trial.number"]),
)


@contextmanager
def in_one_transaction(engine: sa.Engine) -> Iterator[sa.Connection]:
    """A transaction that a second process, changing the form of the same store, waits for."""
    with engine.connect() as plain:
        connection = plain.execution_options(isolation_level="AUTOCOMMIT")
        if engine.dialect.name == "sqlite":
            connection.exec_driver_sql("BEGIN IMMEDIATE")
        else:
            connection.exec_driver_sql("BEGIN")
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({CREATION_LOCK})")
        try:
            yield connection
        except BaseException:
            connection.exec_driver_sql("ROLLBACK")
            raise
        connection.exec_driver_sql("COMMIT")
