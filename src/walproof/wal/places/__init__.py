"""Where WAL lies: folders and object stores, as the one thing that everything else reads from."""
