"""Counts of people by budget and bin, sealed, and what can be asked of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from veilstream.errors import InvalidInputError
from veilstream.personalised.partition import Group
from veilstream.personalised.roster import Roster
from veilstream.trusted.counts import Sealed, seal
from veilstream.trusted.frames import hide_frames
from veilstream.trusted.snapshots import snapshot_of_groups

MAX_CELLS = 1 << 26


@dataclass(frozen=True, slots=True, eq=False)
class PeopleCounts:
    """How many people of each level are in each of ``bins`` bins, at one timestamp; a person is in one bin or in none.

    >>> roster = Roster(["ann", "bob", "eve"], ["0.5", "0.1", "0.5"])
    >>> count_people(roster, ["eve", "ann"], [2, 0], bins=3)
    PeopleCounts(roster=Roster(people=3, levels=2, epsilon=0.1..0.5), bins=3, table=Sealed(size=6, span=0..0, l1=1))
    """

    roster: Roster
    bins: int
    table: Sealed

    def __post_init__(self) -> None:
        table = self.table
        if table.span.steps != 1 or table.l1 > 1 or table.grid or table.size != self.roster.levels * self.bins:
            raise InvalidInputError(
                f"table of {table.size} numbers over {table.span.steps} steps with l1={table.l1}: counts of "
                f"{self.roster.levels} levels and {self.bins} bins at one step with l1=1 are needed"
            )

    def of_group(self, group: Group) -> Sealed:
        """Counts of the people of one group: everybody else moves them by nothing."""
        labels = np.full((self.roster.levels, self.bins), -1, dtype=np.int64)
        labels[group.levels] = np.arange(self.bins)
        return snapshot_of_groups(self.table, labels.reshape(-1), self.bins)


@hide_frames
def count_people(
    roster: Roster, ids: ArrayLike | Sequence[Any], bins_of_people: ArrayLike, bins: int, t: int = 0
) -> PeopleCounts:
    """Count records, one per person at most, by level and bin; bin −1 stands for "in no bin".

    >>> from veilstream.personalised import Roster
    >>> roster = Roster(["ann", "bob", "eve"], ["1/2", "1/10", "1/2"])
    >>> count_people(roster, ["eve", "bob"], [0, 1], bins=2)
    PeopleCounts(...)
    """
    levels = roster.level_of(ids) if len(np.asarray(ids)) else np.zeros(0, dtype=np.int64)
    return count_levels(roster, levels, bins_of_people, bins, t)


@hide_frames
def count_levels(
    roster: Roster, levels: NDArray[np.int64], bins_of_people: ArrayLike, bins: int, t: int = 0
) -> PeopleCounts:
    """The same from the levels of people, each of whom the caller names once."""
    chosen: NDArray[Any] = np.asarray(bins_of_people)
    if type(bins) is not int or bins < 1 or roster.levels * bins > MAX_CELLS:
        raise InvalidInputError(f"bins {bins!r} times {roster.levels} levels: from 1 to {MAX_CELLS} cells in all")
    if chosen.shape != levels.shape or (chosen.size and chosen.dtype.kind not in "iu"):
        raise InvalidInputError(
            name="bins of people, of type", value=str(chosen.dtype), limit="one whole number for each of them is needed"
        )
    if levels.size and (int(levels.min()) < 0 or int(levels.max()) >= roster.levels):
        raise InvalidInputError(f"records: a level lies outside 0..{roster.levels - 1}")
    if chosen.size and (int(chosen.min()) < -1 or int(chosen.max()) >= bins):
        raise InvalidInputError(f"records: a bin lies outside -1..{bins - 1}")
    inside = chosen >= 0
    cells = levels[inside] * bins + chosen[inside].astype(np.int64)
    counts = np.bincount(cells, minlength=roster.levels * bins)
    if (counts.reshape(roster.levels, bins).sum(axis=1) > roster.sizes).any():
        raise InvalidInputError("records: a level has more records than people")
    return PeopleCounts(roster, bins, seal(counts, t))
