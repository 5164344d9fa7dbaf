"""The report of a tuning."""
