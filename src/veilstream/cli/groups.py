"""Commands that take each value once, and groups whose help tells whole sentences and an example for each."""

from __future__ import annotations

from collections import Counter
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from veilstream.cli.examples import with_examples


class Command(TyperCommand):
    """A command that refuses an option given twice where one value is taken, instead of taking the last."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not ctx.resilient_parsing:
            _, _, order = self.make_parser(ctx).parse_args(args=list(args))
            _refuse_repeated(order)
        return super().parse_args(ctx, args)


def _refuse_repeated(order: list[Any]) -> None:
    """``order`` holds the parameter of every option that was given, as often as it was."""
    for parameter, times in Counter(order).items():
        option = parameter.param_type_name == "option"
        if times > 1 and option and not (parameter.multiple or parameter.is_flag or parameter.count):
            from veilstream.errors import InvalidInputError

            flag = parameter.opts[0]
            raise InvalidInputError(
                name=parameter.name,
                limit=f"given {times} times, and it takes one value",
                outcome="nothing was read",
                next_step=f"give {flag} once",
            )


class Commands(typer.Typer):
    """Commands by their functions."""

    def command(self, name: str | None = None, **settings: Any) -> Any:
        return super().command(name, cls=Command, **settings)


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
    return Commands(cls=CommandGroup, help=summary, rich_markup_mode=None, add_completion=False)
