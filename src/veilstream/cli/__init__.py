"""The command line: ``veilstream publish | series | histogram | synthesize | personalised | points | plan | ...``."""

from veilstream.cli.app import app


def main() -> None:
    """The entry point of the ``veilstream`` command."""
    app()


__all__ = ["app", "main"]
