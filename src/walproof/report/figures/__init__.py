"""Charts: what each shows as plain data, and how that is drawn. One figure per file."""
