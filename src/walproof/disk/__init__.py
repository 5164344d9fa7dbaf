"""Disks: how fast a folder's device makes writes durable."""
