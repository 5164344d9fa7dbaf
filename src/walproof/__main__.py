"""``python -m walproof``."""

from walproof.cli import main

main()
