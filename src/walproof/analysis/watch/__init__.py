"""What looks at a running server mean: rates, limits, and how long until something happens."""
