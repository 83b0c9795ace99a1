"""Groups of commands whose help tells whole sentences and an example for each."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

from veilstream.cli.examples import with_examples


class CommandGroup(TyperGroup):
    """A group that lists the first sentence of each command, however long, and gives each its examples."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        command = super().get_command(ctx, cmd_name)
        return None if command is None else with_examples(command, f"{self.name} {cmd_name}")

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, first_sentence(self.get_command(ctx, name))) for name in self.list_commands(ctx)]
            )


def first_sentence(command: Any) -> str:
    """What a command does, in the words of its help."""
    paragraph = " ".join(str(command.help or "").partition("\n\n")[0].split())
    return paragraph.partition(". ")[0].rstrip(".") + "."


def command_group(summary: str) -> typer.Typer:
    """An empty group of commands."""
    return typer.Typer(cls=CommandGroup, help=summary, rich_markup_mode=None, add_completion=False)
