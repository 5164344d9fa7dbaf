"""What the report of a study of backup shows."""
