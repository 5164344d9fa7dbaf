"""Studies of throughput: pgbench's load in a window, and what may come after it."""
