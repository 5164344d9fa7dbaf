"""One kind of study a file: what its report shows; ``comparison`` has what several show."""
