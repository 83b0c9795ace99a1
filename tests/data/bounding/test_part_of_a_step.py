"""What taking away a part of a person's rows of one step does to its counts (PROOF.md, "Populations")."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from veilstream.audit.exact.dice import Dice
from veilstream.data import Calendar, Categories, Domain, read_events
from veilstream.data.bounding import bound
from veilstream.trusted.opening import open_counts

PLACES = Domain({"place": Categories(list("abcd"))})


def counts(places: list[str], bins_per_user: int, counts_per_user: int) -> NDArray[np.int64]:
    """The counts of a step in which one person was at some places."""
    if not places:
        return np.zeros(4, dtype=np.int64)
    rows = {"id": [1] * len(places), "t": [0] * len(places), "place": places}
    events = read_events(rows, user="id", time="t", by=["place"])
    with bound(
        events,
        PLACES,
        Calendar(0, 1, 1),
        bins_per_user=bins_per_user,
        counts_per_user=counts_per_user,
        key=b"k" * 32,
    ) as bounded:
        (snapshot,) = bounded.snapshots()
        return open_counts(snapshot)


def test_a_part_of_a_persons_rows_moves_a_step_by_twice_their_limit_at_most() -> None:
    """And by the limit alone if no more of their rows lie in the step than count."""
    dice = Dice(3, 500)
    moved: list[float] = []
    for _ in range(6):
        bins, limit = dice.choice([(1, 1), (1, 2), (2, 2)])
        places = [dice.choice(list("abcd")) for _ in range(dice.between(1, 4))]
        whole = counts(places, bins, limit)
        for size in range(len(places)):
            for kept in combinations(range(len(places)), size):
                moves = int(np.abs(whole - counts([places[i] for i in kept], bins, limit)).sum())
                all_count = len(places) <= limit and len(set(places)) <= bins
                assert moves <= (limit if all_count else 2 * limit)
                moved.append(moves / limit)
    assert max(moved) == 2
