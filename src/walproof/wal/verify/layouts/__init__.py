"""Repositories as their tools keep them, a file for each tool: where WAL lies, and which base backups there
are."""
