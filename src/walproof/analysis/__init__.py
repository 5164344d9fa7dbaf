"""Offline statistics: functions of stored facts. One question a file; ``summary.analyse`` asks them all.

This file imports nothing, so that one question does not wait for the others.
"""
