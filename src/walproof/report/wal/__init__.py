"""What a stretch of WAL is made of, as tables, figures, JSON and CSV."""

from walproof.report.wal.page import to_html
from walproof.report.wal.rows import By, csv_text, json_text, rows
from walproof.report.wal.view import WalView, wal_view

__all__ = ["By", "WalView", "csv_text", "json_text", "rows", "to_html", "wal_view"]
