"""What looks at a running server mean: rates, limits, and the time until something happens."""
