"""Advice laid out for reading."""
