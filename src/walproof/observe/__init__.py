"""Looks at servers that walproof did not start: reads only, with time-outs, and says what it may not see."""
