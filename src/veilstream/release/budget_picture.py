"""The budget of a population over time as a picture: what every window cost, stream by stream, under the cap."""

from __future__ import annotations

from datetime import datetime
from io import BytesIO
from pathlib import Path
from typing import Any, Final

from veilstream.extras import drawing
from veilstream.release.budget import BudgetStatement, nominal
from veilstream.release.plots.style import STYLE
from veilstream.release.plots.times import date_format
from veilstream.release.sinks import replacing
from veilstream.storage.ledger.population import date_of

COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8a6d3b", "#555555")
SUFFIXES: Final = (".png", ".svg", ".pdf")
MOST_ENDS: Final = 4000


def draw_budget(statement: BudgetStatement, kind: str = "png") -> bytes:
    """The picture as bytes of a format that Matplotlib knows."""
    matplotlib: Any = drawing()
    figures: Any = drawing("figure")
    agg: Any = drawing("backends.backend_agg")
    with matplotlib.rc_context({**STYLE, "svg.hashsalt": "veilstream"}):
        figure = figures.Figure(figsize=(9.6, 4.4), layout="constrained")
        agg.FigureCanvasAgg(figure)
        axes = figure.subplots()
        _fill(axes, statement)
        out = BytesIO()
        figure.savefig(out, format=kind, dpi=160)
    return out.getvalue()


def write_picture(statement: BudgetStatement, path: Path) -> None:
    """Write the picture to a file, whole or not at all."""
    with replacing(path) as unfinished:
        unfinished.write_bytes(draw_budget(statement, path.suffix.lstrip(".").lower()))


def _fill(axes: Any, statement: BudgetStatement) -> None:
    population = statement.population
    ends = _ends(statement)
    times = [_time(statement, end) for end in ends]
    bottom = [0.0] * len(ends)
    for number, one in enumerate(statement.streams):
        if not one.reserved and not one.profile.peak().pure and not one.profile.peak().mu_squared:
            continue
        colour = COLOURS[number % len(COLOURS)]
        reserved = one.member.membership.draw == "reserved"
        share = float(one.reserved)
        costs = [share if reserved else float(nominal(population, one.profile.at(end))) for end in ends]
        top = [below + cost for below, cost in zip(bottom, costs, strict=True)]
        label = f"{one.member.name} ({'reserved' if reserved else 'shared'})"
        style = (
            {"hatch": "///", "facecolor": "none", "edgecolor": colour} if reserved else {"color": colour, "alpha": 0.75}
        )
        axes.fill_between(times, bottom, top, step="post", linewidth=0, label=label, **style)
        bottom = top
    cap = float(population.guarantee.epsilon)
    axes.axhline(cap, color="black", linewidth=1.4, label=f"promised: epsilon {cap:g}")
    axes.set_ylim(0, cap * 1.12)
    axes.set_ylabel("epsilon of the window that ends here")
    if times and isinstance(times[0], datetime):
        dates: Any = drawing("dates")
        places = dates.AutoDateLocator(maxticks=10, tz=times[0].tzinfo)
        axes.xaxis.set_major_locator(places)
        axes.xaxis.set_major_formatter(date_format(places, times[0].tzinfo))
    axes.set_xlabel("end of the window")
    axes.set_title(f"{population.name}: what a window costs", loc="left", fontsize=12, fontweight="bold")
    handles, labels = axes.get_legend_handles_labels()
    axes.figure.legend(handles[::-1], labels[::-1], loc="outside right upper", fontsize=9, frameon=False)


def _ends(statement: BudgetStatement) -> list[int]:
    """The last cells of windows at which something changes, and one before and after them."""
    found = sorted({end for one in statement.streams for end in one.profile.ends})
    if not found:
        return [0, 1]
    found = found[-MOST_ENDS:]
    return [found[0] - 1, *found, found[-1] + 1]


def _time(statement: BudgetStatement, end: int) -> Any:
    grid = statement.population.grid
    if grid is None or grid.whole_numbers:
        return end
    return datetime.fromisoformat(date_of(grid, end))
