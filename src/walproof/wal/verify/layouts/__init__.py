"""Repositories as their tools keep them, one a file: where WAL lies, and which base backups there are."""
