"""A tuning's offline half: which settings may move, what limits rule out, and the answer."""
