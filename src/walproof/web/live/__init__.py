"""Watched servers on the page: what was told of them, kept for a day, and drawn."""
