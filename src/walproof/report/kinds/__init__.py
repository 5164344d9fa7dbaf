"""One kind of study a file: what its report shows."""
