"""``veilstream plan``: how a budget is best spread over steps of different public weight, before anything is spent."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from veilstream.cli.options import AsJson, job_option
from veilstream.cli.reporting import ExitCode, print_json
from veilstream.extras import drawing
from veilstream.jobs.window import steps_of_window

if TYPE_CHECKING:
    from veilstream.privacy.guarantee import Guarantee

SHOWN = 30
ONLINE_WINDOWS = 3
MOST_STEPS = 100_000
"""Steps that are planned one by one."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A schedule with what it is compared to; costs are Σ weight · error."""

    weights: tuple[Fraction, ...]
    budgets: tuple[Fraction, ...]
    guarantee: Guarantee
    window: int
    repeats: bool
    online: bool
    power: int
    cost: float
    equal_cost: float
    lower: float
    fullest: Fraction

    @property
    def against_equal(self) -> float:
        """The cost as a multiple of that of equal shares."""
        return self.cost / self.equal_cost

    def as_json(self) -> dict[str, Any]:
        return {
            "epsilon": str(self.guarantee.epsilon),
            "window": self.window,
            "repeats": self.repeats,
            "online": self.online,
            "weights": [str(weight) for weight in self.weights],
            "budgets": [str(budget) for budget in self.budgets],
            "fullest_window": str(self.fullest),
            "cost": self.cost,
            "cost_of_equal_shares": self.equal_cost,
            "cost_at_least": self.lower,
        }


def plan(
    weights: Annotated[
        str,
        typer.Option("--weights", help="Public weights, one a step: '1 1 1 1 1 8 8', or a text file of numbers."),
    ],
    epsilon: Annotated[str, job_option("epsilon")],
    window: Annotated[str, typer.Option("--window", help="Steps that share the budget: a number, or 'user'.")],
    steps: Annotated[
        int | None,
        typer.Option(
            "--steps", help="Steps of the stream; weights repeat up to it. Default: for ever.", show_default=False
        ),
    ] = None,
    error: Annotated[
        str, typer.Option("--error", help="What to keep small: 'variance' or 'absolute' (mean absolute error).")
    ] = "variance",
    online: Annotated[
        bool, typer.Option("--online", help="Plan as if each weight became known at its own step.")
    ] = False,
    out: Annotated[str | None, typer.Option("--out", help="Table of the schedule: .csv or .parquet.")] = None,
    plot: Annotated[str | None, typer.Option("--plot", help="Picture of the schedule: .png, .pdf or .svg.")] = None,
    as_json: AsJson = False,
) -> int:
    """Show how to spread a budget over steps that matter differently; reads no private data and spends nothing."""
    from veilstream.release.sinks import check_writable

    for path, suffixes in ((out, (".csv", ".parquet")), (plot, (".png", ".pdf", ".svg"))):
        if path is not None:
            check_writable(path, suffixes)
    planned = make_schedule(read_weights(weights), epsilon, steps_of_window(window), steps, error, online=online)
    if out is not None:
        _write(planned, out)
    if plot is not None:
        draw_schedule(planned, plot)
    if as_json:
        print_json(planned.as_json())
    else:
        _tell(planned)
        for path in (out, plot):
            if path is not None:
                typer.echo(f"wrote {path}")
    return ExitCode.OK


def read_weights(text: str) -> tuple[Fraction, ...]:
    """Weights from text, or from a file that holds such text.

    >>> read_weights("1, 1/2  0.25")
    (Fraction(1, 1), Fraction(1, 2), Fraction(1, 4))
    """
    from veilstream.errors import InvalidInputError, UnreadableFileError
    from veilstream.privacy.rationals import rational

    path = Path(text)
    if any(letter.isalpha() for letter in text):
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, ValueError):
            raise UnreadableFileError(
                name="weights", value=path, limit="neither numbers nor a readable text file"
            ) from None
    numbers = tuple(rational(part, "weights") for part in text.replace(",", " ").split())
    if not numbers:
        raise InvalidInputError("weights: 0 numbers, at least 1 is needed")
    return numbers


def make_schedule(
    weights: tuple[Fraction, ...],
    epsilon: str,
    window: int | None,
    steps: int | None = None,
    error: str = "variance",
    *,
    online: bool = False,
) -> Planned:
    """The schedule for ``weights`` that repeat up to ``steps``, or for ever."""
    from veilstream.errors import InvalidInputError
    from veilstream.mechanisms.allocation import (
        OnlineRule,
        OnlineState,
        PowerError,
        largest_window_sum,
        optimal_schedule,
    )
    from veilstream.mechanisms.allocation.schedule import exact_weights
    from veilstream.privacy.guarantee import Guarantee

    guarantee = Guarantee(epsilon, window)
    if error not in ("variance", "absolute"):
        raise InvalidInputError(name="error", value=error, limit="'variance' or 'absolute'")
    if steps is not None and not 1 <= steps <= MOST_STEPS:
        raise InvalidInputError(name="steps", value=steps, limit=f"from 1 to {MOST_STEPS} can be planned")
    if window is not None and window > MOST_STEPS:
        raise InvalidInputError(name="window", value=window, limit=f"at most {MOST_STEPS} steps can be planned")
    if window is None and steps is None:
        raise InvalidInputError(
            "steps: missing; at --window user one budget lasts for the whole stream, so say how many "
            f"steps it must cover, e.g. --steps {len(weights)}"
        )
    power = 2 if error == "variance" else 1
    measure = PowerError(power, power)
    if online and steps is None:
        steps = ONLINE_WINDOWS * (window or 1)
    if steps is not None:
        weights = tuple(weights[step % len(weights)] for step in range(steps))
    weights = exact_weights(weights)
    span, repeats = window or len(weights), steps is None
    best = optimal_schedule(weights, guarantee.pure, span, error=measure, repeat=repeats)
    budgets = best.budgets
    if online:
        used = [weight for weight in weights if weight]
        rule, state = OnlineRule(guarantee.pure, span, (min(used), max(used)), power), OnlineState()
        online_budgets: list[Fraction] = []
        for weight in weights:
            state, budget = rule.next(state, weight)
            online_budgets.append(budget)
        budgets = tuple(online_budgets)
    equal = guarantee.pure / (span if repeats else min(span, len(weights)))
    return Planned(
        weights,
        budgets,
        guarantee,
        span,
        repeats,
        online,
        power,
        _cost(weights, budgets, power),
        _cost(weights, (equal,) * len(weights), power),
        best.lower,
        largest_window_sum(budgets, span, cyclic=repeats),
    )


def _cost(weights: tuple[Fraction, ...], budgets: tuple[Fraction, ...], power: int) -> float:
    return sum(
        power * float(weight) / float(budget) ** power
        for weight, budget in zip(weights, budgets, strict=True)
        if weight
    )


def _tell(planned: Planned) -> None:
    from rich.console import Console
    from rich.table import Table

    from veilstream.jobs.wording import number

    table = Table(title="schedule: nothing was read or spent", title_justify="left")
    for name in ("step", "weight", "epsilon", "noise std per bin", "with equal shares"):
        table.add_column(name, justify="right")
    equal = planned.guarantee.pure / (planned.window if planned.repeats else min(planned.window, len(planned.weights)))
    for step, (weight, budget) in enumerate(zip(planned.weights[:SHOWN], planned.budgets, strict=False)):
        noise = "republished" if budget == 0 else number(2**0.5 / float(budget))
        table.add_row(str(step), number(weight), number(budget), noise, number(2**0.5 / float(equal)))
    Console().print(table)
    if len(planned.weights) > SHOWN:
        typer.echo(f"... and {len(planned.weights) - SHOWN} steps more (--out writes all)")
    how = "then it repeats" if planned.repeats else f"{len(planned.weights)} steps in all"
    typer.echo(f"{planned.guarantee}; {how}; the fullest window costs {number(planned.fullest)}")
    what = "variance" if planned.power == 2 else "absolute error"
    typer.echo(
        f"weighted {what}: {planned.against_equal:.3g} times that of equal shares, "
        f"{planned.cost / planned.lower:.3g} times the best that any schedule can reach"
    )


def _write(planned: Planned, path: str) -> None:
    import polars as pl

    from veilstream.release.sinks import write_table

    table = pl.DataFrame(
        {
            "step": list(range(len(planned.weights))),
            "weight": [float(weight) for weight in planned.weights],
            "epsilon": [float(budget) for budget in planned.budgets],
            "epsilon_exact": [str(budget) for budget in planned.budgets],
        }
    )
    write_table([table], path)


def draw_schedule(planned: Planned, path: str | Path) -> None:
    """Budgets over time above, weights below, and what every window costs."""
    import numpy as np

    from veilstream.release.plots import BAND, LINE, STYLE, TRUTH
    from veilstream.release.sinks import replacing

    matplotlib: Any = drawing()
    figures: Any = drawing("figure")
    agg: Any = drawing("backends.backend_agg")
    times = max(1, -(-2 * planned.window // len(planned.weights))) if planned.repeats else 1
    budgets = np.array([float(budget) for budget in planned.budgets * times])
    weights = np.array([float(weight) for weight in planned.weights * times])
    running = np.concatenate([[0.0], np.cumsum(budgets)])
    ends = np.arange(1, budgets.size + 1)
    cost = running[ends] - running[np.maximum(ends - planned.window, 0)]
    steps, limit = np.arange(budgets.size), float(planned.guarantee.pure)
    with matplotlib.rc_context(STYLE):
        figure = figures.Figure(figsize=(9, 5.4), layout="constrained")
        agg.FigureCanvasAgg(figure)
        top, middle, bottom = figure.subplots(3, 1, sharex=True, height_ratios=[3, 2, 2])
        top.fill_between(steps, budgets, step="mid", color=BAND, alpha=0.5, linewidth=0)
        top.step(steps, budgets, where="mid", color=LINE, label="this schedule")
        equal = limit / min(planned.window, budgets.size)
        top.axhline(equal, color=TRUTH, linewidth=1.2, linestyle="--", label="equal shares")
        top.set(ylabel="epsilon of a step", ylim=(0, None))
        top.legend(loc="upper left", bbox_to_anchor=(0, 1.22), ncols=2)
        middle.step(steps, cost, where="mid", color=LINE)
        middle.axhline(limit, color=TRUTH, linewidth=1.2, linestyle="--")
        middle.set(ylabel=f"last {planned.window} steps", ylim=(0, 1.1 * limit))
        bottom.step(steps, weights, where="mid", color=LINE)
        bottom.set(ylabel="weight", xlabel="step", ylim=(0, None))
        kind = "Online" if planned.online else "Optimal"
        figure.suptitle(
            f"{kind} schedule: {planned.guarantee}; {planned.against_equal:.3g} times the error of equal shares",
            fontsize=11,
        )
        with replacing(path) as unfinished:
            figure.savefig(unfinished, dpi=150, format=Path(path).suffix.lstrip(".").lower())
