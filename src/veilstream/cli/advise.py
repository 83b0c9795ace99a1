"""``veilstream advise``: from public facts to a command to paste."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from veilstream.cli.options import AsJson, job_option, option
from veilstream.cli.progress import progress_bar
from veilstream.cli.reporting import ExitCode, print_json
from veilstream.jobs.wording import number, promise

if TYPE_CHECKING:
    from veilstream.errors import VeilstreamError
    from veilstream.evaluate.advise import Choice
    from veilstream.jobs.advice import Advice


def advise(
    count: Annotated[float | None, option("--count", description="People that one bin holds in a step, about.")] = None,
    population: Annotated[
        float | None, option("--population", description="People in all bins of a step, about; instead of --count.")
    ] = None,
    bins: Annotated[int, option("--bins", description="Number of bins. Default: 1.")] = 1,
    every: Annotated[str, job_option("every")] = "1h",
    window: Annotated[str, job_option("window")] = "24h",
    steps: Annotated[
        int | None, option("--steps", description="Steps of the whole stream; needed with --window user.")
    ] = None,
    epsilon: Annotated[str | None, job_option("epsilon")] = None,
    error: Annotated[
        str | None, option("--error", description="Wanted: 95 % of the noises within this, 50 or 10% of the count.")
    ] = None,
    per_person: Annotated[
        int, option("--per-person", description="Most that one person adds to a step. Default: 1.")
    ] = 1,
    change: Annotated[
        float, option("--change", description="Part of its count by which a bin moves in a step. Default: 0.05.")
    ] = 0.05,
    visits: Annotated[
        str | None,
        option(
            "--visits",
            description="Visits of one person in a window on average, e.g. 1.6; or people by visits, e.g. 90,30,9.",
        ),
    ] = None,
    measure: Annotated[
        list[str] | None,
        option(
            "--measure", description="Say too how exact e.g. mean=0..100 or quantiles=0..60 is; repeat for several."
        ),
    ] = None,
    ledger: Annotated[
        str | None, option("--ledger", description="With --within: the ledger of a population of people.")
    ] = None,
    within: Annotated[
        str | None, option("--within", description="Plan within what a population of --ledger has left to reserve.")
    ] = None,
    plot: Annotated[Path | None, option("--plot", description="Picture of the choices: .png, .pdf or .svg.")] = None,
    as_json: AsJson = False,
) -> int:
    """Choose epsilon, window, step length and mechanism from public facts; no data are read, nothing is spent.

    What will ±50 cost? veilstream advise --count 500 --bins 6 --every 1h --window 24h --error 50

    What does epsilon 1 give? veilstream advise --population 3000 --bins 6 --epsilon 1
    """
    from veilstream.jobs import advice
    from veilstream.release.sinks import check_writable

    if plot is not None:
        check_writable(plot, (".png", ".pdf", ".svg"))
    room = _room(ledger, within, every, window)
    if room is not None and epsilon is None and error is None:
        epsilon = str(room)
    with progress_bar("simulating", as_json) as advance:
        found = advice.advise(
            count=count,
            population=population,
            bins=bins,
            every=int(every) if every.isdigit() else every,
            window=window,
            steps=steps,
            epsilon=epsilon,
            error=error,
            per_person=per_person,
            change=change,
            visits=None if visits is None else _visits(visits),
            progress=advance,
        )
    if room is not None and found.epsilon > room:
        raise _refusal(found.epsilon, room, within)
    command = found.command
    if room is not None:
        command = command.replace("--ledger budget.db", f"--ledger {ledger} --population {within} --draw reserved")
    measured = _measured(found, measure or [])
    if plot is not None:
        found.plot(plot)
    if as_json:
        _print_json(found, command, plot, measured)
    else:
        if room is not None:
            typer.echo(f"population '{within}' can give such a stream epsilon {number(room)} to reserve")
        _tell(found, command, measured)
        if plot is not None:
            typer.echo(f"wrote {plot}")
    return ExitCode.OK


def _visits(text: str) -> float | list[float]:
    """An average, or numbers of people."""
    from veilstream.errors import InvalidInputError

    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        raise InvalidInputError(
            name="visits", value=text, limit="write an average, e.g. 1.6, or numbers of people, e.g. 90,30,9"
        ) from None
    return numbers[0] if "," not in text else numbers


def _few_steps(found: Advice) -> str:
    """Whether people should count in few steps."""
    curve = found.presence
    assert curve is not None
    best = curve.best
    if best is None:
        return "no bound on presence pays: people come too often for it"
    said = f"with --presence {best}, a release in every step errs {_short(curve.error(best))} on average"
    if found.bounded_presence is None:
        return f"{said}: more than what is recommended without"
    kept = "nobody's rows" if curve.left_out[best - 1] < 0.05 else f"{_short(curve.left_out[best - 1])} rows of a step"
    return f"{said}, and leaves out {kept}; veilstream presence choose finds c by a small charge"


def _measured(found: Advice, asked: list[str]) -> dict[str, str]:
    """How exact measures of a column are that are published in every step."""
    from veilstream.jobs.measured_widths import widths_of_uniform
    from veilstream.privacy.guarantee import Guarantee

    facts = found.facts
    guarantee, rows = Guarantee(found.epsilon, facts.w), max(1, round(facts.count))
    return dict(widths_of_uniform(asked, guarantee, facts.steps, rows, facts.per_person)) if asked else {}


def _room(ledger: str | None, within: str | None, every: str, window: str) -> Fraction | None:
    """What a population can still give to a stream; None without one."""
    from veilstream.cli.ledger_opening import opened_ledger
    from veilstream.errors import InvalidInputError
    from veilstream.jobs.window import steps_of_window

    if ledger is None or within is None:
        if ledger is not within:
            raise InvalidInputError(name="within", limit="give --ledger and --within together")
        return None
    w = steps_of_window(int(window) if window.isdigit() else window, int(every) if every.isdigit() else every)
    with opened_ledger(ledger) as book:
        account = book.populations.account(within)
    room = account.room(w, every)
    if room <= 0:
        raise _refusal(room, room, within)
    return room


def _refusal(wanted: Fraction, room: Fraction, within: str | None) -> VeilstreamError:
    from veilstream.errors import BudgetExceededError

    return BudgetExceededError(
        name="epsilon",
        value=wanted,
        limit=f"population {within!r} can give such a stream {room} to reserve",
        outcome="nothing was spent",
        next_step="accept a larger error, or draw 'shared' as budget comes back (veilstream budget says when)",
    )


def _print_json(found: Advice, command: str, plot: Path | None, measured: dict[str, str]) -> None:
    print_json(
        {
            "epsilon": str(found.epsilon),
            "recommended": found.recommended.mechanism,
            "verdict": found.verdict,
            "mechanisms": found.table.to_dicts(),
            "epsilons": [{"epsilon": str(c.epsilon), "error_95": c.error_95} for c in found.epsilons],
            "deltas": [
                {"delta": delta, "mean_error": c.mean_error, "error_95": c.error_95} for delta, c in found.deltas
            ],
            "step_lengths": [{"times": factor, "relative_error": c.relative_error} for factor, c in found.steps],
            "measures": measured,
            "presence": found.bounded_presence,
            "command": command,
            "outputs": [] if plot is None else [str(plot)],
        }
    )


def _errors(choice: Choice) -> tuple[str, str, str]:
    return _short(choice.mean_error), f"±{_short(choice.error_95)}", f"{_short(100 * choice.relative_error)} %"


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2g}"


def _tell(found: Advice, command: str, measured: dict[str, str]) -> None:
    from rich.console import Console
    from rich.table import Table

    from veilstream.privacy.guarantee import Guarantee

    typer.echo(promise(Guarantee(found.epsilon, found.facts.w), found.every))
    measure, console = found.measure.label, Console()
    table = Table(
        title=f"expected error of one bin, {measure}, at epsilon {number(found.epsilon)}", title_justify="left"
    )
    for name in ("mechanism", "mean", "95 %", "of count", "fresh", "known by"):
        table.add_column(name, justify="left" if name == "mechanism" else "right", no_wrap=True)
    for choice in found.choices:
        table.add_row(
            choice.mechanism,
            *_errors(choice),
            f"{choice.fresh:.0%}",
            "formula" if choice.exact else "simulation",
        )
    console.print(table)
    others = Table(title="released in every step (exact)", title_justify="left")
    for name in ("epsilon", "step", "mean", "95 %", "of count"):
        others.add_column(name, justify="right", no_wrap=True)
    rows = [(choice, str(found.every)) for choice in found.epsilons]
    rows += [(choice, f"{factor} x {found.every}") for factor, choice in found.steps if factor > 1]
    for choice, step in rows:
        others.add_row(number(choice.epsilon), step, *_errors(choice))
    console.print(others)
    if len(found.steps) > 1:
        typer.echo("longer steps: counts are taken to grow with the step; they grow less where the same people stay")
    without = next((choice.mean_error for choice in found.choices if choice.exact), None)
    for delta, choice in found.deltas:
        mean, within, _ = _errors(choice)
        part = "" if without is None else f" ({choice.mean_error / without:.2f} times that without delta)"
        typer.echo(f"with --delta {delta}, released in every step: mean {mean}, 95 % {within}{part}")
    if found.presence is not None:
        typer.echo(_few_steps(found))
    for label, width in measured.items():
        typer.echo(f"{label}, released in every step: {width}")
    few = found.bounded_presence
    taken = found.recommended.mechanism if few is None else f"uniform with --presence {few}"
    typer.echo(f"recommended: {taken}; {found.verdict}")
    typer.echo(f"to publish (replace the words in capitals):\n\n  {command}\n")
