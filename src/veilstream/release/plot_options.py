"""What a picture shows and how, as the person who asks for it says it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Final, Literal, TypeAlias, get_args

from veilstream.errors import InvalidInputError

Kind: TypeAlias = Literal["auto", "lines", "map", "bars", "grid"]
Moment: TypeAlias = int | str | date | datetime
MOST_PANELS: Final = 12
MOST_ROWS: Final = 60


@dataclass(frozen=True, slots=True)
class PlotOptions:
    """Options of a picture; the default chooses by the shape of the table.

    ``kind`` is lines (a panel for each bin), map (time × bins), bars (one step), grid (the bins of two attributes) or
    auto. ``bins`` is how many of the largest bins to draw, or their labels. ``start`` and ``end`` (excluded) cut the
    time, ``value_range`` the axis of values. ``size`` is width and height in inches.

    >>> PlotOptions(kind="pie")
    Traceback (most recent call last):
    ...
    veilstream.errors.InvalidInputError: kind 'pie': choose from auto, lines, map, bars, grid; nothing was drawn
    """

    kind: Kind = "auto"
    bins: int | tuple[str, ...] | None = None
    start: Moment | None = None
    end: Moment | None = None
    value_range: tuple[float, float] | None = None
    size: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise _refused("kind", self.kind, f"choose from {', '.join(get_args(Kind))}")
        if isinstance(self.bins, int) and self.bins < 1:
            raise _refused("bins", self.bins, "at least 1 is needed")
        if self.size is not None and not all(1 <= length <= 100 for length in self.size):
            raise _refused("size", self.size, "width and height in inches, between 1 and 100, are needed")
        if self.value_range is not None and not self.value_range[0] < self.value_range[1]:
            raise _refused("value_range", self.value_range, "the lower end must lie below the upper one")


def _refused(name: str, value: Any, limit: str) -> InvalidInputError:
    return InvalidInputError(name=name, value=value, limit=limit, outcome="nothing was drawn")


def find_labels(wanted: Sequence[str], known: Sequence[str]) -> list[int]:
    """The places of the wanted labels among those of the released bins, which are public.

    >>> find_labels(["b"], ["a", "b"])
    [1]
    >>> find_labels(["Region 11"], ["Region 1", "Region 2"])
    Traceback (most recent call last):
    ...
    veilstream.errors.InvalidInputError: bins 'Region 11': no released bin has this label, did you mean 'Region 1'?;
    nothing was drawn
    """
    from difflib import get_close_matches

    places = {label: place for place, label in enumerate(known)}
    for label in wanted:
        if label not in places:
            near = get_close_matches(label, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"the first is {known[0]!r}"
            raise _refused("bins", label, f"no released bin has this label, {hint}")
    return [places[label] for label in wanted]
