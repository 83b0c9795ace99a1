"""The command ``veilstream``, also as ``python -m veilstream``."""

from veilstream.interrupts import finish_on_interrupt, leave, leave_on_interrupt

leave_on_interrupt()

import sys  # noqa: E402

from veilstream.errors import MissingExtraError  # noqa: E402
from veilstream.extras import require  # noqa: E402


def main() -> None:
    """Run the command line, or say how to install it."""
    try:
        for package in ("typer", "rich"):
            require(package, "the command line")
    except MissingExtraError as error:
        sys.exit(f"error: {error}")
    from veilstream.cli import main as run

    try:
        run()
    except KeyboardInterrupt:
        leave()
    finally:
        finish_on_interrupt()


if __name__ == "__main__":
    main()
