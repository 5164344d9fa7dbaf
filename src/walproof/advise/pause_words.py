"""What to say of a standby whose replay is paused: resuming it does not always go on with it."""

from __future__ import annotations

AT_ITS_TARGET = (
    "A recovery target is set: if replay is paused there, SELECT pg_wal_replay_resume() ends recovery and "
    "PROMOTES the standby. To replay further, set a later target and restart it."
)
SMALLER_SETTINGS = (
    "Not where max_connections or the like is smaller than the primary's (the log says so): resuming would "
    "shut the server down."
)
