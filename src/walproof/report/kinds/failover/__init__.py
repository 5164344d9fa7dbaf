"""What the report of a study of failover shows."""
