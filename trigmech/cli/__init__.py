"""The command line."""

from trigmech.cli.app import main as main
