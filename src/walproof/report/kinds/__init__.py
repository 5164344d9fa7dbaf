"""What the report of each kind of study shows, one folder per kind; `comparison` has what several show."""
