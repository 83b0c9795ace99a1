"""Axes of time: dates as dates, in the zone of the releases."""

from __future__ import annotations

from datetime import tzinfo
from typing import Any, Final
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from veilstream.extras import drawing
from veilstream.release.plots.style import Axes
from veilstream.release.plots.table import Released

DAY: Final = 86_400_000_000
FORMATS: Final = ["%Y", "%b", "%d %b", "%H:%M", "%H:%M", "%H:%M:%S"]
ZEROS: Final = ["", "%Y", "%d %b", "%d %b", "%H:%M", "%H:%M"]
"""A day is never a bare number: its month stands beside it."""
OFFSETS: Final = ["", "%Y", "%Y", "%d %b %Y", "%d %b %Y", "%d %b %Y, %H:%M"]
"""What all marks have in common, at the right end of the axis."""
SPANS: Final = (("week", 7 * DAY), ("day", DAY), ("hour", DAY // 24), ("minute", DAY // 1440), ("second", DAY // 86400))


def places(released: Released) -> NDArray[np.float64]:
    """When the steps begin and the last one ends, as numbers on the axis: days since 1970, or the times themselves."""
    return released.times / DAY if released.zone is not None else released.times.astype(np.float64)


def name_time_axis(axes: Axes, released: Released, *, ticks: int = 6) -> None:
    """Marks and a name for the horizontal axis."""
    axes.tick_params(axis="x", labelbottom=True)
    if released.zone is None:
        axes.set_xlabel("start of the step", loc="left")
        return
    dates: Any = drawing("dates")
    zone = ZoneInfo(released.zone)
    locator = dates.AutoDateLocator(minticks=3, maxticks=ticks, tz=zone)
    # Without whole years among the months, some spans of two to three years have no fitting marks.
    locator.intervald[dates.MONTHLY] = [1, 2, 3, 4, 6, 12]
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(date_format(locator, zone))
    axes.set_xlabel(f"start of the step ({released.zone})", loc="left")


def date_format(locator: Any, zone: tzinfo | None) -> Any:
    """How the marks that ``locator`` places are written: short, and what they have in common once."""
    dates: Any = drawing("dates")
    return dates.ConciseDateFormatter(locator, tz=zone, formats=FORMATS, zero_formats=ZEROS, offset_formats=OFFSETS)


def moment_name(released: Released, step: int) -> str:
    """The time of a step in words, no finer than the steps are."""
    if released.zone is None:
        return f"{released.times[step]:,}"
    from datetime import UTC, datetime, timedelta

    moment = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=int(released.times[step]))).astimezone(
        ZoneInfo(released.zone)
    )
    whole_days = not (moment.hour or moment.minute or moment.second)
    return moment.strftime("%Y-%m-%d" if whole_days else "%Y-%m-%d %H:%M")


def bucket_name(released: Released) -> str:
    """How much time one column stands for, in words.

    Steps of a month have no common length and are counted.
    """
    count = released.summed
    if released.zone is None or len(released.times) < 2:
        return f"{count:,} steps"
    length = int(np.median(np.diff(released.times)))
    for name, span in SPANS:
        if length % span == 0:
            number = length // span
            return f"{number} {name}s" if number > 1 else f"one {name}"
    return f"{count:,} steps"
