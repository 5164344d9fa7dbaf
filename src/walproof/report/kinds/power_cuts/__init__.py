"""What the report of power cuts shows."""
