"""The command line."""

import sys

from trigmech._optional import need
from trigmech.errors import MissingLibraryError


def main() -> None:
    """Run the command line, or end with status 2 and one line that names the extra to install."""
    try:
        need("cli", "the command line")
    except MissingLibraryError as error:
        print(f"trigmech: {error}", file=sys.stderr)
        sys.exit(2)
    from trigmech.cli.app import main as run

    run()
