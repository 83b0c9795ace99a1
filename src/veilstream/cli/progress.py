"""One progress bar for all commands that take long."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager


class Stages:
    """Stages of a command, one after the other: the bar says which one is under way and how long it has taken."""

    def __init__(self, advance: Callable[[int, int], None], describe: Callable[[str], None], total: int) -> None:
        self._advance, self._describe, self._total, self._done = advance, describe, total, 0

    def begin(self, stage: str) -> None:
        """Show that a stage has begun, and with it that those before are done."""
        self._describe(stage)
        self._advance(self._done, self._total)
        self._done += 1


@contextmanager
def stages(total: int, quiet: bool) -> Generator[Stages]:
    """So many stages on stderr, if that is a terminal and ``quiet`` is False."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    operator = Console(stderr=True, highlight=False)
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("stages,"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=operator, disable=quiet or not operator.is_terminal) as progress:
        task = progress.add_task("", total=total)
        yield Stages(
            lambda done, of: progress.update(task, completed=done, total=of),
            lambda stage: progress.update(task, description=stage),
            total,
        )
        progress.update(task, description="done", completed=total)


@contextmanager
def progress_bar(label: str, quiet: bool) -> Generator[Callable[[int, int], None]]:
    """Takes how many of how many are done, and shows it on stderr if that is a terminal and ``quiet`` is False."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    operator = Console(stderr=True, highlight=False)
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=operator, disable=quiet or not operator.is_terminal) as progress:
        task = progress.add_task(label, total=None)

        def advance(done: int, total: int) -> None:
            # A bar that nobody sees takes a lock for each of thousands of steps.
            if not progress.disable:
                progress.update(task, completed=done, total=total)

        yield advance
