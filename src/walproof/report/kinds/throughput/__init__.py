"""What the report of a study of throughput shows."""
