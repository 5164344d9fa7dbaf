"""What the report of a study of loading shows, and the script of its advice."""
