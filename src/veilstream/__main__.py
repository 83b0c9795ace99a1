"""The command ``veilstream``, also as ``python -m veilstream``."""

import sys

from veilstream.errors import MissingExtraError
from veilstream.extras import require


def main() -> None:
    """Run the command line, or say how to install it."""
    try:
        for package in ("typer", "rich"):
            require(package, "the command line", "cli")
    except MissingExtraError as error:
        sys.exit(f"error: {error}")
    from veilstream.cli import main as run

    run()


if __name__ == "__main__":
    main()
