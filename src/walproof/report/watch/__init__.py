"""Watched servers as a page, as lines, as JSON, for Prometheus, and for a monitoring system's check."""
