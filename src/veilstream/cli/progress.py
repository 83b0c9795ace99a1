"""One progress bar for all commands that take long."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager


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
