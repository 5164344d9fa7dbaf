"""One kind of study a folder: what its report shows; `comparison` has what several show."""
