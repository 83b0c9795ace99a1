"""Slips that can be seen before a row is read: an id that is no id, a file given twice, a picture that cannot be."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from veilstream.data import Domain
from veilstream.errors import InvalidInputError
from veilstream.release.plot_options import Kind, find_labels
from veilstream.release.plots.labels import bin_names


def refuse_shared_column(user: str | None, time: str | None, domain: Domain) -> None:
    """Refuse ids that are also the time or an attribute: each moment, or each bin, would be a person of its own.

    >>> refuse_shared_column("ts", "ts", Domain({}))
    Traceback (most recent call last):
    ...
    veilstream.errors.InvalidInputError: user 'ts': the column of people's ids is also that of the time, so that every
    moment would be another person; nothing was read
    """
    if user is None or (user != time and user not in domain.names):
        return
    other = "that of the time, so that every moment" if user == time else "an attribute, so that every bin"
    raise InvalidInputError(
        name="user",
        value=user,
        limit=f"the column of people's ids is also {other} would be another person",
        outcome="nothing was read",
        next_step="give --user the column of people's ids, or declare that every row is another person "
        "(--row-per-person)",
    )


def refuse_same_file_twice(source: Any) -> None:
    """Refuse a file that is given twice: its rows would count twice, as far as limits per person let them."""
    if not isinstance(source, list | tuple):
        return
    seen: set[Path] = set()
    for part in cast(Sequence[Any], source):
        if not isinstance(part, str | Path) or str(part) == "-":
            continue
        path = Path(part).absolute()
        if path in seen:
            raise InvalidInputError(
                name="file",
                value=str(part),
                limit="it is given twice, and its rows would be read twice",
                outcome="nothing was read",
                next_step="give each file once",
            )
        seen.add(path)


def require_drawable(domain: Domain, kind: Kind, bins: Sequence[str] | None) -> None:
    """Refuse a picture of bins that do not exist, or of a plane that is none, before anything is spent on it."""
    if kind == "grid" and len(domain.axes) != 2:
        raise InvalidInputError(
            name="plot_kind",
            value=kind,
            limit=f"it needs bins of 2 attributes, these have {len(domain.axes)}",
            outcome="nothing was read",
            next_step="choose another --plot-kind",
        )
    if bins is None or (len(bins) == 1 and bins[0].isdigit()):
        return
    try:
        find_labels(bins, bin_names(domain.labels()) if domain.axes else bin_names(domain.labels()[:0]))
    except InvalidInputError as error:
        raise InvalidInputError(
            name="plot_bins",
            value=error.value,
            limit=error.limit,
            outcome="nothing was read",
            next_step="give a label as the table of releases has it, or how many of the largest bins to draw",
        ) from None
