"""Fast upserts: COPY into a temporary table, then one statement that moves the rows over."""

from __future__ import annotations

from walproof.workload.loading.load_target import LoadTarget
from walproof.workload.loading.rows import Rows
from walproof.workload.loading.table import Session

_STAGE = "walproof_stage"


def stage(session: Session, target: LoadTarget, rows: Rows, batch_rows: int | None) -> None:
    """INSERT .. ON CONFLICT on the key: existing rows are updated."""
    updated = _updated(target)
    action = f"DO UPDATE SET {', '.join(f'{c} = excluded.{c}' for c in updated)}" if updated else "DO NOTHING"
    _bring_over(
        session,
        target,
        rows,
        batch_rows,
        f"INSERT INTO {target.table} ({target.column_list}) SELECT {target.column_list} FROM {_STAGE}"
        f" ON CONFLICT ({', '.join(target.key)}) {action}",
    )


def merge(session: Session, target: LoadTarget, rows: Rows, batch_rows: int | None) -> None:
    """MERGE on the key (PostgreSQL 15)."""
    updated = _updated(target)
    matched = f" WHEN MATCHED THEN UPDATE SET {', '.join(f'{c} = s.{c}' for c in updated)}" if updated else ""
    _bring_over(
        session,
        target,
        rows,
        batch_rows,
        f"MERGE INTO {target.table} t USING {_STAGE} s"
        f" ON {' AND '.join(f't.{c} = s.{c}' for c in target.key)}"
        f"{matched} WHEN NOT MATCHED THEN INSERT ({target.column_list})"
        f" VALUES ({', '.join(f's.{c}' for c in target.columns)})",
    )


def _updated(target: LoadTarget) -> list[str]:
    return [column for column in target.columns if column not in target.key]


def _bring_over(
    session: Session, target: LoadTarget, rows: Rows, batch_rows: int | None, statement: str
) -> None:
    listed = f"SELECT {target.column_list} FROM {target.table} LIMIT 0"
    staged = LoadTarget(_STAGE, target.columns, target.types, target.bases)
    blocks = rows.blocks() if batch_rows is None else rows.line_batches(batch_rows)
    portions = [blocks] if batch_rows is None else ([lines] for lines in blocks)
    for portion in portions:
        with session.transaction(), session.cursor() as cursor:
            session.execute(f"CREATE TEMP TABLE {_STAGE} ON COMMIT DROP AS {listed}".encode())
            with cursor.copy(staged.copy()) as copy:
                for block in portion:
                    copy.write(block)
            session.execute(f"ANALYZE {_STAGE}".encode())
            session.execute(statement.encode())
