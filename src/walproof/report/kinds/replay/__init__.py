"""What the report of a study of replay shows."""
