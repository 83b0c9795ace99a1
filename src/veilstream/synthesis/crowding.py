"""Wide bins that hold most rows: perhaps many of them share one value, which would be smeared over the bin."""

from __future__ import annotations

from typing import Final

from veilstream.data import Categories
from veilstream.release.plots.labels import borders
from veilstream.synthesis.kinds import TableModel
from veilstream.synthesis.margins import shares

CROWDED: Final = 0.5
"""Share of the rows in one wide bin from which on a user is asked whether many of them share a value."""


def crowded_bins(model: TableModel) -> list[tuple[str, str, float]]:
    """Numeric attributes of which one wide bin holds most rows by the published margin: name, bin and share.

    A value that many rows share there is drawn anywhere in the bin, unless it is stated as a spike.
    """
    found: list[tuple[str, str, float]] = []
    for name, axis in model.domain.axes.items():
        if isinstance(axis, Categories):
            continue
        labels = [str(label) for label in axis.labels()]
        published = shares(model.margin(name))
        top = int(published.argmax())
        ends = borders(labels)
        wide = ends is not None and ends[top, 1] - ends[top, 0] > 1
        if published.size > 2 and published[top] > CROWDED and wide:
            found.append((name, labels[top], float(published[top])))
    return found
