"""What commands print with --json, as types: those of the facts where these are printed, else their keys."""
