"""PostgreSQL installs, throw-away clusters, and their certain removal."""
