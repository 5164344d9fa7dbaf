"""What a stretch of WAL is made of, as tables, figures, JSON and CSV."""
