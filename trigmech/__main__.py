"""The command line as ``python -m trigmech``."""

from trigmech.cli import main

main()
