"""Observers of one trial's window, one a file; ``registry`` names those that run beside the load.

This file imports nothing, so that what describes the machine does not wait for a client of PostgreSQL.
"""
