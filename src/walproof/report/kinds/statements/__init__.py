"""What the report of a study of statements shows."""
