"""What the report of a study of a live stream shows."""
