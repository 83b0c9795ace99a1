"""How many steps of a stream one window of a population can touch, from the two public calendars alone.

PROOF.md, "Populations", says what the number is for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from veilstream.errors import InvalidInputError
from veilstream.privacy.durations import DAYS, MICROSECONDS, MONTHS, clock_changes
from veilstream.privacy.guarantee import Guarantee
from veilstream.privacy.population_time import TimeGrid
from veilstream.privacy.presence_blocks import Blocks

SHORTEST_MONTH: Final = 28
LONGEST_MONTH: Final = 31


@dataclass(frozen=True, slots=True)
class Lengths:
    """Of n successive cells, in units that all borders keep to: between n·shortest − slack and n·longest + slack."""

    shortest: int
    longest: int
    slack: int = 0


def most_steps(cells: TimeGrid, w: int, steps: TimeGrid) -> int:
    """The most ``steps`` that any ``w`` successive ``cells`` touch.

    It is exact where both have a fixed length, on one clock or in days or months of one zone. Else it is an upper
    bound: of borders that are at least ``shortest`` apart, so many lie strictly inside the longest window, and one step
    more than borders touches it.

    >>> hours, days = TimeGrid("2026-01-01", "1h"), TimeGrid("2026-01-01", "1d")
    >>> most_steps(hours, 24, hours), most_steps(hours, 24, days), most_steps(days, 1, days)
    (24, 2, 1)
    >>> most_steps(hours, 24, TimeGrid("2026-01-01T00:30", "1h"))
    25
    """
    if cells.whole_numbers != steps.whole_numbers:
        raise InvalidInputError(
            name="calendar",
            value=steps.every,
            limit=f"the population's cells are of {cells.every}: both have dates, or both are whole numbers",
            next_step="define a population with the calendar's kind of times",
        )
    apart = _common_fixed(cells, steps)
    if apart is not None:
        width, step, offset = apart
        return _of_fixed(w * width, step, offset, math.gcd(width, step))
    window, each, grain = _common_bounds(cells, steps)
    inside = (w * window.longest + window.slack) // grain - 2
    return 1 if inside < 0 else 2 + (inside * grain + each.slack) // each.shortest


def _of_fixed(window: int, step: int, offset: int, grain: int) -> int:
    # A window may begin at any multiple of the grain after the offset; the later in a step, the more it touches.
    latest = step - grain + offset % grain
    return 1 + (latest + window - 1) // step


def _common_fixed(cells: TimeGrid, steps: TimeGrid) -> tuple[int, int, int] | None:
    """Lengths of a cell and of a step, and how far their starts are apart, in a unit in which both are fixed."""
    if cells.width is not None and steps.width is not None:
        return cells.width, steps.width, cells.first - steps.first
    if cells.whole_numbers or cells.zone != steps.zone or cells.local.time != steps.local.time:
        return None
    (count, unit), (other, other_unit) = cells.unit, steps.unit
    if unit in DAYS and other_unit in DAYS:
        return count * DAYS[unit], other * DAYS[other_unit], cells.local.ordinal - steps.local.ordinal
    if unit in MONTHS and other_unit in MONTHS and cells.local.day == steps.local.day:
        return count * MONTHS[unit], other * MONTHS[other_unit], cells.local.months - steps.local.months
    return None


def _common_bounds(cells: TimeGrid, steps: TimeGrid) -> tuple[Lengths, Lengths, int]:
    """Bounds on the lengths of cells and steps, and a unit of which all borders are whole numbers apart."""
    long_units = {**DAYS, **MONTHS}
    on_days = cells.unit[1] in long_units and steps.unit[1] in long_units and cells.zone == steps.zone
    if on_days and cells.local.time == steps.local.time:
        return _in_days(cells), _in_days(steps), 1
    grain = 1
    if cells.zone == steps.zone == "UTC":
        grain = math.gcd(cells.width or MICROSECONDS["d"], steps.width or MICROSECONDS["d"], cells.first - steps.first)
    return _in_ticks(cells), _in_ticks(steps), grain


def _in_days(grid: TimeGrid) -> Lengths:
    count, unit = grid.unit
    if unit in DAYS:
        return Lengths(count * DAYS[unit], count * DAYS[unit])
    months = count * MONTHS[unit]
    return Lengths(SHORTEST_MONTH * months, LONGEST_MONTH * months)


def _in_ticks(grid: TimeGrid) -> Lengths:
    if grid.width is not None:
        return Lengths(grid.width, grid.width)
    days, day = _in_days(grid), MICROSECONDS["d"]
    return Lengths(days.shortest * day, days.longest * day, clock_changes(grid.zone))


def windows_of_stream(guarantee: Guarantee, steps: int | None, *, ever: bool = False) -> int | None:
    """How many units of a stream's ``guarantee`` cover ``steps`` successive steps (None: any); None if no number does.

    Where people count in the first few steps and only a part of one's visits goes, later visits move up: one unit more,
    unless the steps are all there ``ever`` are (PROOF_presence.md, "Under a population").

    >>> [windows_of_stream(Guarantee(1, w=w), 25) for w in (24, 1, None)], windows_of_stream(Guarantee(1, w=24), None)
    ([2, 25, 1], None)
    >>> [windows_of_stream(seldom, 2) for seldom in (Guarantee(1, w=None, presence=1), Guarantee(1, per=4, presence=1))]
    [2, 3]
    """
    if guarantee.w is None and guarantee.per is None:
        return 1 if ever or guarantee.presence is None else 2
    if steps is None:
        return None
    if guarantee.per is not None:
        return 1 + min(steps, 1 + -(-(steps - 1) // _shortest_block(guarantee.per)))
    assert guarantee.w is not None
    return -(-steps // guarantee.w)


def _shortest_block(blocks: Blocks) -> int:
    """In how many steps the shortest block begins at least, 1 if that is not known."""
    if isinstance(blocks.length, int):
        return blocks.length
    if blocks.every is None or blocks.start is None:
        return 1
    grids = [TimeGrid(blocks.start, every, blocks.zone) for every in (blocks.length, blocks.every)]
    on_days = all(grid.unit[1] in {**DAYS, **MONTHS} for grid in grids)
    block, step = [_in_days(grid) if on_days else _in_ticks(grid) for grid in grids]
    return max(1, (block.shortest - block.slack - step.slack) // step.longest)
